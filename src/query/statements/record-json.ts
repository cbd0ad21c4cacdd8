// SQL of a row as a record: its JSON, its version, and its size.
import { EMPTY, join, LARGE, literal, raw, sql, type Fragment } from '../../db/fragment.ts';
import { output, reference, type Column, type Model } from '../../db/schema/model.ts';
import { ROOT, type Projection } from '../plan.ts';

/** PostgreSQL functions take at most 100 arguments. */
const MAX_ARGUMENTS = 90;

/** The JSON of a column's value, never NULL. Any NOT NULL but that of a primary key can be dropped while the service runs. */
function jsonValue(alias: string, column: Column): Fragment {
  const shown = output(alias, column);
  const orNull = (value: Fragment): Fragment => (column.isPrimary ? value : sql`coalesce(${value}, 'null')`);
  if (column.type.json === 'escaped') return orNull(sql`to_json(${shown})`); // as text, it would be copied once more
  if (column.type.json === 'quoted') return orNull(sql`('"' || ${shown} || '"')`);
  return column.isPrimary ? shown : orNull(sql`${shown}::text`);
}

/** Concatenates any number of texts, with the separator between those that are not NULL. */
export function concat(parts: readonly Fragment[], separator?: string): Fragment {
  if (parts.length === 0) return raw("''"); // a table of which no column can be served
  const call = (some: readonly Fragment[]): Fragment => {
    if (separator !== undefined) return sql`concat_ws(${literal(separator)}, ${join(some, ', ')})`;
    // With one argument, PostgreSQL would prefer a cast to a type of that name.
    return sql`${raw(some.length === 1 ? 'pg_catalog.concat' : 'concat')}(${join(some, ', ')})`;
  };
  if (parts.length <= MAX_ARGUMENTS) return call(parts);
  const groups: Fragment[] = [];
  for (let at = 0; at < parts.length; at += MAX_ARGUMENTS)
    groups.push(call(parts.slice(at, at + MAX_ARGUMENTS)));
  return call(groups);
}

/** `"key":value` of one column. */
export const jsonField = (alias: string, column: Column): Fragment =>
  concat([literal(`"${column.key}":`), jsonValue(alias, column)]);

/**
 * A record's JSON as one SQL expression. Concatenating texts costs PostgreSQL half as much as its JSON functions, which look up
 * names and types for every row. Keys are registry names and need no escaping.
 */
export function recordJson(alias: string, columns: readonly Column[]): Fragment {
  const fields = columns.flatMap((column, index) => [
    literal(`${index === 0 ? '{' : ','}"${column.key}":`),
    jsonValue(alias, column),
  ]);
  return concat([...fields, literal(columns.length > 0 ? '}' : '{}')]);
}

/** A line of a record's JSON. Only `json` columns can have line breaks, because their text stays as it was sent. */
export function recordLine(alias: string, columns: readonly Column[]): Fragment {
  const record = recordJson(alias, columns);
  const hasBreaks = columns.some(({ type }) => type.input.json === 'json');
  return sql`${hasBreaks ? sql`translate(${record}, e'\\n\\r', '  ')` : record} || e'\\n'`;
}

/** The first 128 bits of the SHA-256 of a text. */
const digest = (text: Fragment): Fragment =>
  sql`left(encode(sha256(convert_to(${text}, 'UTF8')), 'hex'), 32)`;

/**
 * The version of a row, for ETag; never NULL. A digest covers the whole row, also what is not shown. `createVersionCipher` encrypts
 * it, so it confirms no guess of a value.
 */
export function rowVersion(alias: string, { version }: Model): Fragment {
  if (version === 'xmin') return raw(`${alias}.xmin::text`);
  if (version === 'digest') return digest(raw(`(${alias}.*)::text`));
  return digest(sql`coalesce(${reference(alias, version)}::text, '')`);
}

/** Maximum compressed bytes of a value that is expanded to measure it: to at most 90 times, or 255 with LZ4, in a millisecond. */
const MAX_EXPANDED = 8_192;

/** The size of a compressed value after its expansion. The operators change nothing, but make PostgreSQL expand the value. */
function expandedSize(stored: Fragment, { type, castType }: Column): Fragment {
  if (type.element) return sql`pg_column_size(${stored} || '{}'::${raw(castType)})`;
  if (castType === 'jsonb') return sql`pg_column_size(${stored} #> '{}')`;
  return sql`octet_length(${stored}::text)`;
}

/** PostgreSQL stores the length of a text. Of other values it stores the length after compression, which may be a hundredth. */
function sizeOf(alias: string, column: Column): Fragment {
  const stored = reference(alias, column);
  if (column.type.json === 'escaped') return sql`coalesce(octet_length(${stored}::text), 0)::bigint`;
  const bytes = sql`pg_column_size(${stored})`;
  const isLarge = sql`when ${bytes} > ${raw(String(MAX_EXPANDED))} then ${raw(String(LARGE + 1))}`;
  return sql`case when pg_column_compression(${stored}) is null then coalesce(${bytes}, 0) ${isLarge} else ${expandedSize(stored, column)} end::bigint`;
}

/** The bytes of a row's long values, about; undefined without columns that may be long. */
export function storedSize(alias: string, columns: readonly Column[]): Fragment | undefined {
  const long = columns.filter(({ type }) => type.long === true);
  return long.length === 0
    ? undefined
    : join(
        long.map((column) => sizeOf(alias, column)),
        ' + ',
      );
}

/** The record's JSON as in the API. */
export const plainRecord = (columns: readonly Column[]): Projection => ({
  value: recordJson(ROOT, columns),
  joins: EMPTY,
  size: storedSize(ROOT, columns),
});
