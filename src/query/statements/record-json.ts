// Builds the SQL expression of a record's JSON from concatenated texts.
import { EMPTY, join, literal, raw, sql, type Fragment } from '../../db/fragment.ts';
import { output, reference, type Column, type Model } from '../../db/schema/model.ts';
import { storedSize } from './stored-size.ts';
import { ROOT } from '../plan.ts';

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

/** The first 128 bits of the SHA-256 of a text. */
const digest = (text: Fragment): Fragment =>
  sql`left(encode(sha256(convert_to(${text}, 'UTF8')), 'hex'), 32)`;

/**
 * The version of a row, for ETag; never NULL. A digest covers the whole row, also what is not shown. `createVersionSeal` encrypts
 * it, so it confirms no guess of a value.
 */
export function rowVersion(alias: string, { version }: Model): Fragment {
  if (version === 'xmin') return raw(`${alias}.xmin::text`);
  if (version === 'digest') return digest(raw(`(${alias}.*)::text`));
  return digest(sql`coalesce(${reference(alias, version)}::text, '')`);
}

/** How a page outputs each row of alias ROOT: one text, and the joins that it needs. */
export interface RowOutput {
  readonly value: Fragment;
  readonly joins: Fragment;
  /** The approximate size of the row's values in bytes, computed without reading long ones; undefined if it is certainly small. */
  readonly size?: Fragment | undefined;
}

/** The record's JSON as in the API. */
export const plainRecord = (columns: readonly Column[]): RowOutput => ({
  value: recordJson(ROOT, columns),
  joins: EMPTY,
  size: storedSize(ROOT, columns),
});
