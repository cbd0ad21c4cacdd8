// Where statements read and write. Only this file writes the name of a relation, so that no statement can forget a rule about rows.
import { EMPTY, identifier, join, raw, sql, table, type Fragment } from '../db/fragment.ts';
import { foreignReference, reference, servedRow, type Model } from '../db/schema/model.ts';
import { ROOT, type Join, type RowVisibility } from './plan.ts';

type Table = Pick<Model, 'table'>;

/** The rows that a request may read. */
export function source(model: Model, alias: string, visibility: RowVisibility): Fragment {
  const { relation, table: name, version } = model;
  const rows = visibility.rows(model);
  const all = relation ?? table(name);
  if (!rows) return sql`${all} ${raw(alias)}`;
  const columns = rows.columns ?? servedRow(ROOT, model);
  const ofRow = version === 'xmin' ? raw(`, ${ROOT}.xmin`) : EMPTY;
  return sql`(select ${columns}${ofRow} from ${all} ${raw(ROOT)} where ${rows.where}) ${raw(alias)}`;
}

/** The same rows with all values, for a statement that changes them. */
export const wholeRows = (model: Model, alias: string, visibility: RowVisibility): Fragment =>
  source(model, alias, {
    rows: () => {
      const rows = visibility.rows(model);
      return rows && { ...rows, columns: undefined };
    },
  });

/** A foreign key refers to at most one row, so joins never multiply rows. */
function joined(joins: readonly Join[], rowsOf: (join: Join) => Fragment): Fragment {
  const tables = joins.map((one) => {
    const { alias, from, column, model } = one;
    const on = sql`${reference(alias, model.primaryKey)} = ${foreignReference(from, column)}`;
    return sql` left join ${rowsOf(one)} on ${on}`;
  });
  return tables.length === 0 ? EMPTY : join(tables, '');
}

export const joinsSql = (joins: readonly Join[], visibility: RowVisibility): Fragment =>
  joined(joins, ({ model, alias }) => source(model, alias, visibility));

/** The joins of a rule about rows, which reads all of them. */
export const joinedRows = (joins: readonly Join[]): Fragment =>
  joined(joins, ({ model, alias }) => allRows(model, alias));

/** All rows, for every caller: for unique values, for dependents, in rules about rows, and in the service's own tables. */
export const allRows = (model: Table, alias: string): Fragment => sql`${writtenTable(model)} ${raw(alias)}`;

/** What a statement inserts into, updates, deletes from or locks. */
export const writtenTable = ({ table: name }: Table): Fragment => table(name);

/** All rows of a table that has no model. */
export const unmodeledRows = (place: { schema: string; table: string }, alias: string): Fragment =>
  sql`${identifier(place.schema)}.${identifier(place.table)} ${raw(alias)}`;

/** For the service itself, and for statements whose rows are chosen otherwise. */
export const EVERY_ROW: RowVisibility = { rows: () => undefined };
