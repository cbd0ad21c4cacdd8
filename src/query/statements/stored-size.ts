// SQL of the size of a row's values, as far as PostgreSQL knows it without reading long ones.
import { join, LARGE, raw, sql, type Fragment } from '../../db/fragment.ts';
import { reference, type Column } from '../../db/schema/model.ts';

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
