// A model as the service uses it: one table, its columns, and their SQL expressions.
import type { ColumnType, Facts } from '../types/column-type.ts';
import { cast } from '../types/column-types.ts';
import { identifier, join, raw, sql, value as parameter, type Fragment } from '../fragment.ts';
import { hasSeveralColumns, partText } from './composite-key.ts';
import type { Tone, Widget } from './presentation.ts';

export const ON_DELETE = ['restrict', 'cascade', 'setNull'] as const;
export type OnDelete = (typeof ON_DELETE)[number];

/** A column of a model with all names resolved. If it exists in the database, the facts come from there. */
export interface Column extends Facts {
  /** The registry's name: `user`, `content`, `id`. */
  readonly name: string;
  /** The name in JSON: `user_id` for a foreign key `user`, else the name. */
  readonly key: string;
  /** Its names in JSON before, see `formerly`. */
  readonly formerKeys?: readonly string[] | undefined;
  /** The name in the database. */
  readonly field: string;
  /** The name that people see. */
  readonly title: string;
  readonly help: string | undefined;
  readonly type: ColumnType;
  readonly isPassword: boolean;
  readonly nullable: boolean;
  /** It may be NULL even where `nullable` is false: in a view, or by a constraint that older rows break. */
  readonly isUnchecked?: boolean;
  /** It is a part of the table's primary key, or all of it: nothing can let it be NULL. */
  readonly isPrimary?: boolean;
  readonly hasDefault: boolean;
  /** The default from the registry; 'now' means the current time, and `today in Europe/Zurich` the day there. */
  readonly initial: unknown;
  /** An index starts with this column. */
  readonly indexed: boolean;
  /** The database computes it (generated, or identity always), so it is never written. */
  readonly generated: boolean;
  readonly choices: readonly unknown[] | undefined;
  /** What people see for the choices, or for those of the elements of an array, by their texts. */
  readonly choiceLabels?: ReadonlyMap<string, string> | undefined;
  /** How the admin area shows choices, by their texts. */
  readonly tones?: ReadonlyMap<string, Tone> | undefined;
  /** What the text is, for the admin area. */
  readonly widget?: Widget | undefined;
  readonly references: Model | undefined;
  /** Foreign keys: the collation of the referenced key, if the column has another one. */
  readonly comparedBy?: string | undefined;
  /** Foreign keys: what happens to this record when the referenced one is deleted. */
  readonly onDelete: OnDelete;
  /** The columns of a key or foreign key that has several; `field` joins their names. */
  readonly parts?: readonly Column[] | undefined;
  /** Foreign keys: the name of the constraint. */
  readonly constraint?: string | undefined;
  /** Foreign keys of several columns: whether this constraint refuses values of which only some are NULL (MATCH FULL). */
  readonly isFull?: boolean | undefined;
}

export interface Model {
  readonly name: string;
  /** `table` or `schema.table`. */
  readonly table: string;
  /** A subselect that replaces the table in reads, if only a part of the table is visible. */
  readonly relation?: Fragment;
  /**
   * Whether it is a table, or is going to be created as one. False for views, foreign tables, and models that only read a table: a
   * second one, or one without a key.
   */
  readonly isTable: boolean;
  /** Whether a read by the key is certain to be fast. A policy may call a slow function. */
  readonly isFast: boolean;
  /**
   * Whether a view, another server or policies may hide rows of its tables. PostgreSQL's statistics, and so its estimates, include
   * them.
   */
  readonly mayHideRows: boolean;
  /** The columns in the database that every INSERT must fill but that the model does not have, so it cannot add a row. */
  readonly unfilled: readonly string[];
  /** Whether SELECT ... FOR UPDATE can lock its rows. */
  readonly isLockable: boolean;
  /** Whether a write may not return the final row, because triggers make or change it. It must then be read again. */
  readonly isReadBack: boolean;
  /** Whether triggers run before its rows are deleted. They may delete or change the rows that refer to these. */
  readonly hasDeleteTriggers: boolean;
  /** What changes with each change of a row: its `xmin`, a digest of the row, or a column. */
  readonly version: 'xmin' | 'digest' | Column;
  /** The schema where the table was found; undefined without a catalog entry. */
  readonly schema: string | undefined;
  /** It has no parts if nothing identifies a row, see `isKeyless`. */
  readonly primaryKey: Column;
  /** All columns except the primary key, in output order. The columns of a key with several are among them. */
  readonly columns: readonly Column[];
  /** Foreign keys of several columns. They are followed like other foreign keys, but are not part of a record. */
  readonly foreignKeys: readonly Column[];
  /** The columns of each unique index, also those in its expressions, by the index's name. */
  readonly uniques: ReadonlyMap<string, readonly Column[]>;
  /** The registry's sets of columns that are unique together. */
  readonly uniqueSets: readonly (readonly Column[])[];
  /** The columns of each unique index that is neither partial nor on expressions. A query by these columns can use it. */
  readonly wholeUniques: readonly (readonly Column[])[];
  /** Those that PostgreSQL checks at the commit. */
  readonly lateUniques: ReadonlySet<readonly Column[]>;
  /** The names of the columns in the database that each check or exclusion constraint uses, by its `ruleKey`. */
  readonly rules: ReadonlyMap<string, readonly string[]>;
}

/** Identifies a constraint of the table, or of a domain, which may have one of the same name. Names have no NUL. */
export const ruleKey = (name = '', domain?: { schema: string; name: string } | null): string =>
  domain ? [domain.schema, domain.name, name].join('\0') : name;

/** Whether its output may be NULL. */
export const mayBeNull = ({ nullable, isUnchecked }: Column): boolean => nullable || isUnchecked === true;

/** Turns a name into a label: `media_type` becomes "Media type". */
export const humanize = (name: string): string =>
  name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');

/** `alias."field"` as a comparable expression: some domains are cast to their base types. Several columns are a row. */
export function reference(alias: string, column: Column): Fragment {
  if (column.parts) return sql`(${joinParts(column.parts, (part) => reference(alias, part))})`;
  const bare = sql`${raw(alias)}.${identifier(column.field)}`;
  return column.needsCast ? sql`${bare}::${raw(column.castType)}` : bare;
}

/** A foreign key as it is compared with the key that it refers to. Only one side may name a collation. */
export function foreignReference(alias: string, column: Column): Fragment {
  if (column.parts) return sql`(${joinParts(column.parts, (part) => foreignReference(alias, part))})`;
  const plain = reference(alias, column);
  return column.comparedBy === undefined ? plain : sql`${plain} collate ${raw(column.comparedBy)}`;
}

const joinParts = (parts: readonly Column[], each: (part: Column) => Fragment, between = ', '): Fragment =>
  join(parts.map(each), between);

/** The columns of a key: one, several, or none. */
export const partsOf = (column: Column): readonly Column[] => column.parts ?? [column];

/** Whether nothing identifies a record: it can only be listed. */
export const isKeyless = ({ primaryKey }: Model): boolean => primaryKey.parts?.length === 0;

/** The columns of a record in output order: the key, if there is one, and all others. */
export const recordColumns = (model: Model): readonly Column[] =>
  isKeyless(model) ? model.columns : [model.primaryKey, ...model.columns];

/** The columns of a row that the model has. `*` would compute virtual generated columns that it leaves out. */
export const servedRow = (alias: string, { primaryKey, columns }: Model): Fragment => {
  const fields = new Set([...partsOf(primaryKey), ...columns].map(({ field }) => field));
  return join([...fields].map((field) => sql`${raw(alias)}.${identifier(field)}`), ', '); // prettier-ignore
};

/** Whether clients choose the key of a new record and send it as `id`. */
export const hasNaturalKey = ({ primaryKey: { parts, hasDefault } }: Model): boolean =>
  parts === undefined && !hasDefault;

/** Whether the column is one of several that make up the key. It is set once. */
export const isKeyPart = ({ primaryKey: { parts = [] } }: Model, column: Column): boolean =>
  parts.includes(column);

/** Whether the column is all of the key. */
export const isWholeKey = ({ primaryKey }: Model, column: Column): boolean =>
  column === primaryKey || (primaryKey.parts?.length === 1 && primaryKey.parts[0] === column);

/** The foreign keys of a model, of one column or of several. */
export const foreignKeysOf = ({ columns, foreignKeys }: Model): readonly Column[] => [
  ...columns.filter(({ references }) => references !== undefined),
  ...foreignKeys,
];

/** Whether a column is among these. For a foreign key of several columns all of them must be. */
export const isAmong = (column: Column, columns: readonly Column[]): boolean =>
  columns.includes(column) || column.parts?.every((part) => columns.includes(part)) === true;

/** These columns of a model, and its foreign keys of several of them: what filters, orderings and labels can name. */
export const namedColumns = ({ foreignKeys }: Model, columns: readonly Column[]): readonly Column[] => [
  ...columns,
  ...foreignKeys.filter((foreignKey) => isAmong(foreignKey, columns)),
];

/** The texts of a key's columns as one text that `cast` takes. */
export const storedKey = ({ parts }: Pick<Column, 'parts'>, texts: readonly Fragment[]): Fragment =>
  parts ? sql`array[${join(texts, ', ')}]::text` : join(texts, ', ');

/** A parameter with the column's type. */
export const typed = (text: string | null, column: Column): Fragment => cast(parameter(text), column);

/** The column as an output expression. A key of several columns is one text: `12,34`. */
export const output = (alias: string, column: Column): Fragment =>
  column.parts
    ? sql`(${joinParts(column.parts, (part) => partText(reference(alias, part), part, !hasSeveralColumns(column)), " || ',' || ")})`
    : column.type.output(reference(alias, column), column);

/** Finds a column by a name from a client. A foreign key has two names: `user` and `user_id`. */
export function findColumn(model: Model, name: string): Column | undefined {
  if (name === 'id') return isKeyless(model) ? undefined : model.primaryKey;
  return (
    model.columns.find((column) => column.name === name || column.key === name) ??
    model.foreignKeys.find((column) => column.name === name || `${column.name}_id` === name)
  );
}

/** A column that a check of the registry requires. */
export function requiredColumn(model: Model, name: string): Column {
  const column = findColumn(model, name);
  if (!column) throw new Error(`the model ${model.name} has no column ${name}`);
  return column;
}
