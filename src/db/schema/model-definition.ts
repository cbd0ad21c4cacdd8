// A model as the registry's author writes it, and the names and defaults that follow from it.
import { ARRAY_TYPES, type ElementTypeName } from '../types/array-types.ts';
import type { ColumnType, Facts } from '../types/column-type.ts';
import { isRelative } from '../types/dates.ts';
import { COLUMN_TYPES, KEY_TYPES, type KeyTypeName, type TypeName } from '../types/column-types.ts';
import type { Level } from '../../config.ts';
import type { OnDelete } from './model.ts';
import type { Tone, Widget } from './presentation.ts';

/** The default of a NOT NULL column without a default in SQL: a trigger fills it. */
export const FILLED_BY_DATABASE = 'database';

/** A string that keeps its literal type in an object with `satisfies`; plain `string` would not. */
export type Name = Lowercase<string> | (string & {});

/** Names that no column may have, because a query gives them another meaning. */
export const RESERVED_NAMES = ['id', 'ordering', 'limit', 'page'] as const;

interface CommonColumn {
  /** Allows NULL. Otherwise the column is required, unless it has a default. */
  readonly null?: boolean;
  readonly unique?: boolean;
  readonly index?: boolean;
  /** The column's name in the database, if it differs. */
  readonly column?: string;
  /** The names that it had before. What the history has under them is shown under the present one. */
  readonly formerly?: readonly string[];
  /** The name that people see. */
  readonly label?: string;
  readonly help?: string;
  /** Who may see the column; everyone who may read the resource when absent. */
  readonly read?: Level;
  /** Who may set the column; everyone who may write the resource when absent. */
  readonly write?: Level;
}

export interface ScalarColumn<Type extends string, Value> extends CommonColumn {
  readonly type: Type;
  readonly default?: Value | typeof FILLED_BY_DATABASE;
  /** The only values that clients may write. Strings keep their literal types, see `Name`. */
  readonly choices?:
    readonly (string extends Value ? Exclude<Value, string> | Name : Value)[] | LabeledChoices;
  /** The tones of choices, by their values. */
  readonly tones?: Readonly<Record<string, Tone>>;
}

/** Values, and what people see for them. */
export type LabeledChoices = Readonly<Record<string, string>>;

interface Bounds {
  readonly min?: number;
  readonly max?: number;
}

/** A value of a date, a time or a date-time, or the time or the day (of TIME_ZONE) of the write. */
type DateBound = 'now' | 'today' | (string & {});

/** The elements of an array. */
export interface ElementDefinition {
  readonly min?: number | DateBound;
  readonly max?: number | DateBound;
  /** False if clients cannot write NULL elements. */
  readonly null?: boolean;
  readonly maxLength?: number;
  readonly precision?: number;
  readonly scale?: number;
}

export interface ArrayColumn extends CommonColumn {
  readonly type: 'array';
  /** The type of the elements. */
  readonly of: ElementTypeName;
  readonly elements?: ElementDefinition;
  readonly default?: readonly unknown[] | typeof FILLED_BY_DATABASE;
  /** The only elements that clients may write. */
  readonly choices?: readonly (Name | number | boolean)[] | LabeledChoices;
}

/** One column in the registry. */
export type ColumnDefinition =
  | (ScalarColumn<'string' | 'text', string> & {
      readonly maxLength?: number;
      /** A regular expression that new values must match, as with the flag `u` and without backtracking. */
      readonly pattern?: string;
      /** What the text is, for the admin area. */
      readonly widget?: Widget;
    })
  | (ScalarColumn<'integer' | 'float', number> & Bounds)
  | (ScalarColumn<'bigint', number | string> & Bounds)
  | (ScalarColumn<'decimal', number | string> &
      Bounds & { readonly precision?: number; readonly scale?: number })
  | ScalarColumn<'boolean', boolean>
  | (ScalarColumn<'datetime' | 'date' | 'time', 'now' | (string & {})> & {
      readonly min?: DateBound;
      readonly max?: DateBound;
    })
  | ScalarColumn<'uuid' | 'inet' | 'cidr' | 'macaddr', string>
  | (CommonColumn & {
      readonly type: 'password';
      /** Minimum length of the plain password (characters). */
      readonly minLength?: number;
      readonly default?: never;
      readonly choices?: never;
    })
  | (ScalarColumn<'json', unknown> & { readonly choices?: never; readonly tones?: never })
  | ArrayColumn
  | (CommonColumn & {
      readonly type: 'foreignKey';
      /** The name of the referenced model. */
      readonly references: Name;
      readonly onDelete?: OnDelete;
      readonly default?: number | string;
      readonly choices?: readonly (number | string)[] | LabeledChoices;
    });

/** A key of several columns, by their names in the registry. */
export interface CompositeKey {
  readonly columns: readonly Name[];
}

/** A foreign key of several columns that refers to a key of several columns. */
export interface CompositeForeignKey {
  /** The names of the columns in the registry, in the order of the key that they refer to. */
  readonly columns: readonly Name[];
  /** The name of the referenced model. */
  readonly references: Name;
  readonly onDelete?: OnDelete;
}

/** The part of a resource that describes its table. */
export interface ModelDefinition {
  readonly model: Name;
  /** The table's name, `table` or `schema.table`, if it differs from the model's name. */
  readonly table?: string;
  /** It is a view, a materialized view or a foreign table, which the service reads, and never creates. */
  readonly view?: boolean;
  readonly primaryKey?:
    | {
        readonly type: KeyTypeName;
        /** The key's column in the database, if it is not `id`. */
        readonly column?: string;
      }
    | CompositeKey
    /** Nothing identifies a row: the records can only be listed. */
    | false;
  readonly columns: Readonly<Record<string, ColumnDefinition>>;
  /** Foreign keys of several columns, by name. */
  readonly foreignKeys?: Readonly<Record<string, CompositeForeignKey>>;
  /** Sets of columns whose values no two records share. */
  readonly unique?: readonly (readonly Name[])[];
  /** A column that the database changes with each change of a row. It is the version of the row. */
  readonly version?: Name;
}

export const tableOf = (definition: ModelDefinition): string => definition.table ?? definition.model;

/** The first definition of each table, by the table's name. Further definitions only read the table. */
export function firstOfTables<T extends ModelDefinition>(definitions: readonly T[]): ReadonlyMap<string, T> {
  const first = new Map<string, T>();
  for (const definition of definitions)
    if (!first.has(tableOf(definition))) first.set(tableOf(definition), definition);
  return first;
}

/** The names of the columns of a key that is made of columns, none for `primaryKey: false`; undefined for other keys. */
export function keyNamesOf({ primaryKey }: ModelDefinition): readonly string[] | undefined {
  if (primaryKey === false) return [];
  return primaryKey && 'columns' in primaryKey ? primaryKey.columns : undefined;
}

/** The key's columns in the database. */
export function keyFieldsOf(definition: ModelDefinition): readonly string[] {
  const { primaryKey, columns } = definition;
  const names = keyNamesOf(definition);
  if (names) return names.flatMap((name) => (columns[name] ? [fieldOf(name, columns[name])] : []));
  return [(primaryKey && 'type' in primaryKey ? primaryKey.column : undefined) ?? 'id'];
}

/** The type of a key of one column. */
export function keyTypeOf({ primaryKey }: ModelDefinition): KeyTypeName {
  return (primaryKey && 'type' in primaryKey ? primaryKey.type : undefined) ?? 'integer';
}

/** The column's name in the database: by default `user_id` for a foreign key `user`. */
export const fieldOf = (name: string, column: ColumnDefinition): string =>
  column.column ?? jsonKeyOf(name, column);

/** The column's name in JSON: `user_id` for a foreign key `user`. */
export const jsonKeyOf = (name: string, column: ColumnDefinition): string =>
  column.type === 'foreignKey' ? `${name}_id` : name;

export const isNullable = (column: ColumnDefinition): boolean => column.null === true;

/** Whether a trigger fills the column of a new record that does not set it. */
export const isFilled = (column: ColumnDefinition): boolean => column.default === FILLED_BY_DATABASE;

/** Whether the column can be added to a table with rows: it allows NULL or has a default. */
export const isAddable = (column: ColumnDefinition): boolean =>
  isNullable(column) || (column.default !== undefined && !isFilled(column));

/** The type of a column. A foreign key has the type of the referenced key. */
export function typeOf(column: ColumnDefinition, definitions: readonly ModelDefinition[]): ColumnType {
  if (column.type === 'array') return ARRAY_TYPES[column.of];
  if (column.type !== 'foreignKey') return COLUMN_TYPES[column.type satisfies TypeName];
  const target = definitions.find(({ model }) => model === column.references);
  return KEY_TYPES[target ? keyTypeOf(target) : 'integer'];
}

export const isLabeled = (choices: unknown): choices is LabeledChoices =>
  choices !== undefined && !Array.isArray(choices);

/** The values of choices. Those of an object are its keys: texts, or the JSON of numbers and booleans. */
export function choiceValues(
  choices: readonly unknown[] | LabeledChoices | undefined,
  { input }: ColumnType,
): readonly unknown[] | undefined {
  if (!isLabeled(choices)) return choices;
  const isJson = (key: string): boolean =>
    input.json !== 'string' && /^(-?\d+(\.\d+)?|true|false)$/.test(key);
  return Object.keys(choices).map((key) => (isJson(key) ? (JSON.parse(key) as unknown) : key));
}

/** `min` and `max` as facts. Dates and times get the form in which the column stores them. */
export function boundFacts(
  { min, max }: { readonly min?: unknown; readonly max?: unknown },
  type: ColumnType,
): Pick<Facts, 'min' | 'max' | 'earliest' | 'latest'> {
  if (!type.now) return { min: min as number | undefined, max: max as number | undefined };
  const [earliest, latest] = [min, max].map((bound) =>
    typeof bound !== 'string' || isRelative(bound)
      ? (bound as string | undefined)
      : type.fromJson(bound, JSON.stringify(bound), { castType: type.castType }).value,
  );
  return { min: undefined, max: undefined, earliest, latest };
}

/** What people do with records, with a form. */
interface HasFields {
  readonly fields?: Readonly<Record<string, ColumnDefinition>>;
}

/** The definitions with the present day as that of a time zone, also in the fields of actions. A date has no other `now`. */
export function inTimeZone<
  T extends ModelDefinition & { readonly admin?: { readonly actions?: readonly HasFields[] } },
>(definitions: readonly T[], zone: string): readonly T[] {
  if (zone === 'UTC') return definitions;
  const inZone = <Limits extends object>(limits: Limits, type: string): Limits => {
    const days = Object.entries(limits).filter(
      ([key, moment]) =>
        (['min', 'max'].includes(key) && moment === 'today') ||
        (['min', 'max', 'default'].includes(key) && moment === 'now' && type === 'date'),
    );
    return { ...limits, ...Object.fromEntries(days.map(([key]) => [key, `today in ${zone}`])) };
  };
  const columnOf = (column: ColumnDefinition): ColumnDefinition =>
    column.type === 'array'
      ? { ...column, ...(column.elements && { elements: inZone(column.elements, column.of) }) }
      : inZone(column, column.type);
  const allOf = (columns: Readonly<Record<string, ColumnDefinition>> = {}) =>
    Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, columnOf(column)]));
  return definitions.map(({ columns, admin, ...definition }) => ({
    ...(definition as T),
    columns: allOf(columns),
    ...(admin && {
      admin: { ...admin, actions: admin.actions?.map((one) => ({ ...one, fields: allOf(one.fields) })) },
    }),
  }));
}

/** The facts of a column that does not exist yet, as Vitrine would create it. */
export function declaredFacts(column: ColumnDefinition, type: ColumnType): Facts {
  if (column.type === 'array' && type.element) {
    const { null: nullable = true, min, max, ...limits } = column.elements ?? {};
    const facts = declaredFacts({ ...limits, type: column.of }, type.element);
    const maxLength = facts.maxLength ?? limits.maxLength;
    const choices = choiceValues(column.choices, type.element);
    const bounds = boundFacts({ min, max }, type.element);
    const elementFacts = { ...limits, ...facts, ...bounds, maxLength, nullable, choices };
    return { castType: type.castType, elementFacts };
  }
  const isDecimal = column.type === 'decimal';
  return {
    castType: type.castType,
    maxLength: column.type === 'string' ? (column.maxLength ?? 255) : undefined,
    precision: isDecimal ? column.precision : undefined,
    scale: isDecimal ? (column.scale ?? (column.precision === undefined ? undefined : 0)) : undefined,
  };
}
