// What PostgreSQL's catalog says about tables: columns, indexes, foreign keys and privileges.
import type { OnDelete } from './model.ts';

export interface CatalogColumn {
  readonly field: string;
  /** pg_type.typname; the base type of a domain; `enum` for every enum; for an array that of its elements with `[]`. */
  readonly type: string;
  /** Whether the type is a domain; of an array, whether that of its elements is one. */
  readonly isDomain: boolean;
  /** The type to cast a text parameter to; qualified and quoted unless it is a built-in type. */
  readonly castType: string;
  /** The type as psql prints it, for messages. */
  readonly printed: string;
  /** pg_attribute.atttypmod, or the type modifier of the domain. */
  readonly modifier: number;
  /** The name of its collation as SQL; null for types without one. */
  readonly collation: string | null;
  /** False if its collation treats some different texts as equal. */
  readonly isDeterministic: boolean;
  /** The labels of an enum, also of an array of it. */
  readonly labels: readonly string[] | null;
  readonly nullable: boolean;
  /** It is NOT NULL, but rows from before that constraint may hold NULL (NOT VALID, since PostgreSQL 18). */
  readonly mayHoldNulls: boolean;
  readonly hasDefault: boolean;
  readonly generated: boolean;
  /** Schemas of its type that the service's role may not use. */
  readonly unusableSchemas: readonly string[];
  /** The role's privileges on the column, also those through the table: SELECT, INSERT, UPDATE. */
  readonly granted: readonly string[];
}

/** Whether it is an ordinary or partitioned table, not a view, foreign table or other relation. */
export const isTable = ({ kind }: Pick<CatalogTable, 'kind'>): boolean => kind === 'r' || kind === 'p';

/** The other relations that can be served, by pg_class.relkind. */
export const VIEW_KINDS: Readonly<Record<string, string>> = {
  v: 'a view',
  m: 'a materialized view',
  f: 'a foreign table',
};

/** Whether it exists and is no table, so that no foreign key can refer to it. */
export const isView = (found: CatalogTable | undefined): boolean => found !== undefined && !isTable(found);

/** The type of a column, or of the elements of an array. */
export const scalarOf = ({ type }: CatalogColumn): string => type.replace(/\[\]$/, '');

/** Whether it has a time whose seconds may have decimal places. */
export const isWithTime = ({ type }: Pick<CatalogColumn, 'type'>): boolean =>
  ['timestamp', 'timestamptz', 'time'].includes(type.replace(/\[\]$/, ''));

/** The decimal places of its seconds: by default, microseconds. */
export const MICROSECONDS = 6;
export const fractionalSecondDigitsOf = ({ modifier }: Pick<CatalogColumn, 'modifier'>): number =>
  modifier < 0 ? MICROSECONDS : modifier;

/** The length of a varchar or char, or of such elements; its type modifier includes four bytes of header. */
export const lengthOf = (column: CatalogColumn): number | undefined =>
  ['varchar', 'bpchar'].includes(scalarOf(column)) && column.modifier > 4 ? column.modifier - 4 : undefined;

export interface CatalogIndex {
  readonly name: string;
  readonly fields: readonly string[];
  /** The columns that its expressions use. */
  readonly inExpressions: readonly string[];
  readonly unique: boolean;
  readonly primary: boolean;
  /** PostgreSQL checks it at the commit. */
  readonly deferred: boolean;
  /** Covers only some rows, indexes expressions, or is invalid. */
  readonly partial: boolean;
}

export interface CatalogForeignKey {
  readonly name: string;
  readonly fields: readonly string[];
  /** The referenced table, by the name in the request; null if it was not requested. */
  readonly target: string | null;
  readonly targetFields: readonly string[];
  readonly onDelete: OnDelete | 'setDefault';
  /** Whether all columns must be NULL if one is (MATCH FULL). */
  readonly isFull: boolean;
}

/** A trigger that runs for each row before its INSERT. */
export interface Trigger {
  readonly name: string;
  /** The symbol of its function, if PostgreSQL or an extension has it in C; else null. */
  readonly builtIn: string | null;
  /** Each one ends with `\\000`. Bytes that are not ASCII are octal. */
  readonly arguments: string;
  /** It has a WHEN condition. */
  readonly isConditional: boolean;
}

export interface CatalogTable {
  readonly name: string;
  /** The schema where it was found, even if `name` has none. */
  readonly schema: string;
  /** Whether the service's role may use that schema. */
  readonly hasUsage: boolean;
  /** pg_class.oid, to detect two names for one table. */
  readonly oid: number;
  /** pg_class.relkind; `f` also for a partitioned table with a foreign partition. */
  readonly kind: string;
  /** False for a materialized view without data, which cannot be read before it is refreshed. */
  readonly isPopulated: boolean;
  /** Whether all of its rows have `xmin`. Views and foreign tables do not, nor does a table with a foreign partition, or of another storage. */
  readonly hasXmin: boolean;
  /** Whether the role may read it: with SELECT on the table, or on this system column. Null without such a column. */
  readonly isXminReadable: boolean | null;
  /** Whether policies may hide rows from the service's role. */
  readonly hasPolicies: boolean;
  /** The methods that PostgreSQL can run on it, apart from GET. */
  readonly writable: readonly string[];
  /** Whether SELECT ... FOR UPDATE can lock its rows. It cannot in views that are only writable by triggers. */
  readonly isLockable: boolean;
  /** Whether triggers run before its rows are deleted. They may delete or change the rows that refer to these. */
  readonly hasDeleteTriggers: boolean;
  /** Whether triggers INSTEAD OF make the writes to this view or to one below it, or AFTER triggers may change the rows again. */
  readonly isRewritten: boolean;
  /** pg_class.oid of the other tables and views that a write changes: those behind a view, and their partitions. */
  readonly written: readonly number[];
  /** The tables that inherit from it, without partitions. */
  readonly childTables: readonly string[];
  readonly columns: readonly CatalogColumn[];
  readonly triggers: readonly Trigger[];
  readonly indexes: readonly CatalogIndex[];
  readonly foreignKeys: readonly CatalogForeignKey[];
  /** The columns of each foreign key that is NOT ENFORCED, which is not among these. */
  readonly unenforced: readonly (readonly string[])[];
  /** Check and exclusion constraints, also those of domains, with the columns that they use. `domain` is the type. */
  readonly rules: readonly {
    readonly name: string;
    readonly domain: { readonly schema: string; readonly name: string } | null;
    readonly fields: readonly string[];
  }[];
  /** The role's privileges on the whole table: SELECT, INSERT, UPDATE, DELETE. */
  readonly privileges: readonly string[];
  /** The relations that this view reads with the role's own privileges (`security_invoker`) although it lacks them. */
  readonly unreadable: readonly string[];
  /** Sequences of its defaults that the service's role may not use. */
  readonly unusableSequences: readonly string[];
}

/** The requested tables by name; missing tables are left out. */
export type Catalog = ReadonlyMap<string, CatalogTable>;
