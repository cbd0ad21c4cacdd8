import type { ColumnType, Facts } from '../types/column-type.ts';
import { cast } from '../types/column-types.ts';
import { identifier, raw, sql, value as parameter, type Fragment } from '../fragment.ts';

export type OnDelete = 'restrict' | 'cascade' | 'setNull';

/** A column of a model, its names resolved and its facts taken from the database where it was there already. */
export interface Column extends Facts {
  /** The registry's name: `user`, `content`, `id`. */
  readonly name: string;
  /** The name in JSON: `user_id` for a foreign key `user`, else the name. */
  readonly key: string;
  /** The name in the database. */
  readonly field: string;
  /** What people read instead of the name. */
  readonly title: string;
  readonly help: string | undefined;
  readonly type: ColumnType;
  readonly isPassword: boolean;
  readonly nullable: boolean;
  readonly hasDefault: boolean;
  /** The registry's default as it stands there; `now` is a word of its own. */
  readonly initial: unknown;
  /** An index begins with it. */
  readonly indexed: boolean;
  /** Computed by the database (generated or identity always): never written. */
  readonly generated: boolean;
  readonly choices: readonly unknown[] | undefined;
  readonly references: Model | undefined;
  /** What happens to the record when the one that it refers to is deleted; of foreign keys. */
  readonly onDelete: OnDelete;
}

export interface Model {
  readonly name: string;
  /** `table` or `schema.table`. */
  readonly table: string;
  /** A subselect that reads take in place of the table, when not all of the table may be seen. */
  readonly relation?: Fragment;
  /** Where the table was found; undefined for one that was not looked for. */
  readonly schema: string | undefined;
  readonly primaryKey: Column;
  /** All but the primary key, in output order. */
  readonly columns: readonly Column[];
  /** The columns of each unique index, by the index's name. */
  readonly uniques: ReadonlyMap<string, readonly Column[]>;
}

/** `media_type` as people write it: "Media type". */
export const humanize = (name: string): string =>
  name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');

/** `alias."field"`, as something that can be compared. */
export function reference(alias: string, column: Column): Fragment {
  const bare = sql`${raw(alias)}.${identifier(column.field)}`;
  return column.isEnumDomain ? sql`${bare}::${raw(column.castType)}` : bare;
}

/** A parameter of the column's type. */
export const typed = (text: string | null, column: Column): Fragment => cast(parameter(text), column);

/** The column as it stands in the output. */
export const output = (alias: string, column: Column): Fragment =>
  column.type.output(reference(alias, column), column);

/** The column that a client means by this name: a foreign key goes by `user` and by `user_id`. */
export function findColumn(model: Model, name: string): Column | undefined {
  if (name === 'id') return model.primaryKey;
  return model.columns.find((column) => column.name === name || column.key === name);
}
