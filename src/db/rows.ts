// Statements with the way to read their answers: rows as PostgreSQL sends them, and their cells.
import { compile, type BoundSql, type Fragment } from './fragment.ts';

/** One row as received: the text of each column as bytes, or null. */
export type RawRow = readonly (Buffer | null)[];

/** A statement that completes the rows of the one before it, in the same transaction. */
export interface FollowUp {
  readonly statement: BoundSql;
  /** The rows of the first statement, with what the second one has read. */
  readonly merge: (read: readonly RawRow[]) => RawRow[];
  /** The last statement of the transaction, made of the merged rows. */
  readonly last?: (rows: readonly RawRow[]) => BoundSql | undefined;
}

/** SQL that is ready to run, and how to read its answer. */
export interface Statement<T> extends BoundSql {
  readonly decode: (rows: readonly RawRow[]) => T;
  /** The record that a write locks: writes of one take turns. */
  readonly record?: string | undefined;
  /**
   * SQL that waits for the lock of the record, and takes it. Only of a write that fails where it would wait, since its conditions
   * are those of the moment when it began.
   */
  readonly lock?: (() => string) | undefined;
  /** How many records a write makes, if several. */
  readonly rows?: number | undefined;
  /** What runs after a write, before it is committed. It sees what triggers have done by then, also deferred ones. */
  readonly followUp?: ((rows: readonly RawRow[]) => FollowUp | undefined) | undefined;
}

/** A statement without the way to read its answer. */
export type SentStatement = Omit<Statement<unknown>, 'decode'>;

/** Compiles a statement. @param decode reads its answer */
export function createStatement<T>(fragment: Fragment, decode: Statement<T>['decode']): Statement<T> {
  const { text, values } = compile(fragment);
  return { text, values, decode };
}

/** The same for a text that never changes, so that it may always be prepared: see `BoundSql.fixed`. */
export const fixedStatement = <T>(fragment: Fragment, decode: Statement<T>['decode']): Statement<T> => ({
  ...createStatement(fragment, decode),
  fixed: true,
});

type Cell = Buffer | null | undefined;

/** The text of a cell, or null. */
export const text = (cell: Cell): string | null => (cell ? cell.toString() : null);

const T = 0x74;
const F = 0x66;

export const isTrue = (cell: Cell): boolean => cell?.[0] === T;

export const number = (cell: Cell): number => Number(text(cell));

/** Parses a PostgreSQL array of booleans: `{t,f}`. Most writes have one, so it is read without a text or a pattern. */
export function booleans(cell: Cell): boolean[] {
  const results: boolean[] = [];
  for (const byte of cell ?? []) if (byte === T || byte === F) results.push(byte === T);
  return results;
}

/** Parses a PostgreSQL array of whole numbers: `{1,2}`. */
export const numbers = (cell: Cell): number[] =>
  [...(text(cell) ?? '').matchAll(/\d+/g)].map(([digits]) => Number(digits));

/** Parses JSON that the statement built itself, so its form is known. */
export const json = <T>(cell: Cell): T => JSON.parse(text(cell) ?? 'null') as T;

/** Reads the answer of a statement that returns nothing. */
export const nothing = (): void => undefined;

/** Whether the answer has a row. */
export const hasRows = (rows: readonly RawRow[]): boolean => rows.length > 0;

/** Reads an answer of one cell. */
export const oneCell =
  <T>(read: (cell: Cell) => T) =>
  ([row]: readonly RawRow[]): T =>
    read(row?.[0]);
