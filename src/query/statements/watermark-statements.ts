// Up to which id the entries of a table that only grows are final: no transaction can still commit one below.
import { join, literal, quotedTable, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import { fixedStatement, text, type Statement } from '../../db/rows.ts';
import type { Model } from '../../db/schema/model.ts';
import { allRows } from '../source.ts';

/** What a statement sees of a table. */
export interface TableState {
  readonly model: string;
  /** The largest id; 0 in an empty table. */
  readonly last: bigint;
  /**
   * The transactions that have written to the table, or may do so, and have not ended. A transaction takes the lock before it gets
   * an id, and PostgreSQL reads the locks after the snapshot. So each transaction with an id up to `last` is among these, or has
   * ended, and every statement that begins later sees what it has committed.
   */
  readonly open: ReadonlySet<string>;
}

const stateOf = ({ name, table }: Model): Fragment => {
  const writers = sql`select virtualtransaction from pg_locks where locktype = 'relation' and granted and mode = 'RowExclusiveLock' and relation = ${literal(quotedTable(table))}::regclass and database = (select oid from pg_database where datname = current_database())`;
  return sql`select ${literal(name)}, coalesce((select max(id) from ${allRows({ table }, 't')}), 0)::text, array_to_string(array(${writers}), ' ')`;
};

export const tableStates = (models: readonly Model[]): Statement<TableState[]> =>
  fixedStatement(join(models.map(stateOf), ' union all '), (rows) =>
    rows.map(([model, last, open]) => ({
      model: text(model) ?? '',
      last: BigInt(text(last) ?? 0),
      open: new Set((text(open) ?? '').split(' ').filter((one) => one !== '')),
    })),
  );

/** The ids after one and up to another. */
export interface Span {
  readonly after: bigint;
  readonly upTo: bigint;
}

export const isInSpan = (alias: string, { after, upTo }: Span): Fragment =>
  sql`${raw(alias)}.id > ${value(String(after))}::bigint and ${raw(alias)}.id <= ${value(String(upTo))}::bigint`;
