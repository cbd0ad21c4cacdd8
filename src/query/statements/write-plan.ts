// Writes as data: what is written into which rows, under which conditions. `compileWrite` in write.ts turns them into SQL.
import type { Fragment } from '../../db/fragment.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import type { SqlCache } from '../../db/sql-cache.ts';
import type { ListPlan, RowVisibility } from '../plan.ts';
import type { Check, WantedKeys } from './check-statements.ts';
import type { Author, Cascade, Recording } from './history-sql.ts';
import type { ReadBack } from './read-back.ts';
import type { KeptRecord } from './system-statements.ts';

export interface Change {
  readonly column: Column;
  /** The new value as text. For a password, see `hash`. */
  readonly value: string | null;
  /**
   * A password's new hash. `value` is then null. Exception: clients may send a record back with its stored hash. If the sent text
   * could be one, `value` is its salted digest, and a row whose stored hash has this digest keeps it.
   */
  readonly hash?: string;
  /** Only for a selection: the text in the column that the value replaces, each time it occurs. */
  readonly find?: string | undefined;
  /** With that: maximum bytes of a value. */
  readonly maxBytes?: number | undefined;
}

/** What writes know of their resource. */
export interface WriteTarget {
  readonly model: Model;
  /** The columns of the output, with its date format. */
  readonly formatted: readonly Column[];
  readonly visibility: RowVisibility;
  /** What the history records; undefined for nothing. */
  readonly recording: Recording | undefined;
  /** What the database changes when it deletes records; empty if the history records nothing of it. */
  readonly cascades: readonly Cascade[];
  /** The tables of what users have. A new user gets nothing that an earlier one with the same key had. */
  readonly ownedByUser: readonly Model[];
  /** The SQL of its writes. */
  readonly sql: SqlCache;
  /** Reads written records again; undefined where a statement returns what is stored. */
  readonly readBack: ReadBack | undefined;
}

/** New records. */
export interface NewRows {
  /** The columns that any of them has. */
  readonly columns: readonly Column[];
  /** The values of all records, for each column: see `cellOf`. */
  readonly cells: readonly Fragment[];
  readonly groups: readonly RowGroup[];
}

/** New records that have the same columns. The others get their defaults. */
export interface RowGroup {
  readonly columns: readonly Column[];
  /** The positions of the records. */
  readonly positions: readonly number[];
}

/** One record. */
export interface RecordRow {
  readonly id: string;
  /** The versions of `If-Match`; undefined without the header, or if any version matches. */
  readonly versions?: readonly string[] | undefined;
  /** Whether the write may wait for the lock of the record: in a transaction, which checks the author again before it commits. */
  readonly mayWait?: boolean;
  /** Which records the author may write, about the row of alias ROOT; undefined for all. */
  readonly allowed?: Fragment | undefined;
}

interface Write {
  /** Null for a command. */
  readonly author: Author | null;
  /** What written rows of alias ROOT must be; otherwise the statement ends with an error for which `isForbidden` is true. */
  readonly required?: Fragment | undefined;
}

/** Inserts all records, or none. */
export interface InsertPlan extends Write {
  readonly kind: 'insert';
  readonly rows: NewRows;
  /** The keys that must exist. */
  readonly references: readonly WantedKeys[];
  /** `nothing`: if the database would accept the records, the statement ends with an error for which `isRolledBack` is true. */
  readonly returning: 'records' | 'keys' | 'nothing';
}

/** Updates one record, or all records of a selection whose values differ. */
export interface UpdatePlan<Rows = RecordRow | ListPlan> extends Write {
  readonly kind: 'update';
  readonly rows: Rows;
  readonly changes: readonly Change[];
  /** For a selection, the update does not depend on the results. */
  readonly checks: readonly Check[];
}

export interface DeletePlan<Rows = RecordRow | ListPlan> extends Write {
  readonly kind: 'delete';
  readonly rows: Rows;
}

export type WritePlan = InsertPlan | UpdatePlan | DeletePlan;

/** A record as it is stored. Its JSON is empty where only the keys are returned. */
export type WrittenRecord = KeptRecord;

/** Outcome of an INSERT. */
export interface Inserted {
  /** In the order of the plan; none if nothing was inserted: a key is missing, or the precondition does not hold. */
  readonly records: readonly WrittenRecord[];
  /** Which of the wanted keys exist, for each foreign key. */
  readonly existing: readonly (readonly boolean[])[];
}

/**
 * Whether an UPDATE or DELETE found the row, and whether `If-Match` matches. A row that the author may not write is not found, and no
 * row is found if the precondition fails.
 */
export interface FoundRow {
  readonly isFound: boolean;
  readonly isMatch: boolean;
}

/** Outcome of the UPDATE of a record. */
export interface Updated extends FoundRow, Omit<WrittenRecord, 'id'> {
  readonly checks: readonly boolean[];
}

/** Outcome of the DELETE of a record. */
export interface Deleted extends FoundRow {
  readonly isDeleted: boolean;
}

/** Outcome of the write of a selection. */
export interface Counts {
  /** The records of the selection. */
  readonly matched: number;
  /** Those that should change, and those that did. */
  readonly attempted: number;
  readonly done: number;
  /** Whether all records that should change satisfy each check. */
  readonly checks: readonly boolean[];
  /** Why the new values cannot be: see `faultsSql`. Nothing is changed then. */
  readonly faults: string;
}
