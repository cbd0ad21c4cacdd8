// Compares a column or a foreign key of the registry with the database.
import { isUnique, sameFields } from './catalog-keys.ts';
import {
  isTable,
  isView,
  lengthOf,
  scalarOf,
  type Catalog,
  type CatalogColumn,
  type CatalogTable,
} from './catalog.ts';
import { storedFacts } from './column-facts.ts';
import type { Fault } from '../../errors.ts';
import { quotedName } from '../fragment.ts';
import type { ColumnType } from '../types/column-type.ts';
import { COLUMN_TYPES } from '../types/column-types.ts';
import {
  addColumn,
  alter,
  BRIEF,
  compositeFields,
  defaultClause,
  foreignKeyClause,
  nulledFields,
} from './missing-schema.ts';
import {
  choiceValues,
  declaredFacts,
  fieldOf,
  isAddable,
  isFilled,
  isNullable,
  keyFieldsOf,
  tableOf,
  typeOf,
  type ColumnDefinition,
  type CompositeForeignKey,
  type ElementDefinition,
  type ModelDefinition,
} from './model-definition.ts';
import { formerField, renameClause } from './renamed-columns.ts';

/** What differs, and the SQL that makes the database fit the registry. */
type Difference = Pick<Fault, 'text' | 'alter'>;

export const REWRITES = 'Rewrites the table under an exclusive lock: no one can read it meanwhile.';
const READS = 'Reads the whole table under an exclusive lock: no one can read it meanwhile.';

/** Types that hold fewer values than a type of the registry that accepts them, and the type that fits. */
export const NARROWER: Readonly<Record<string, readonly string[]>> = { bigint: ['int4', 'int2'] };

/** Why the column cannot hold all values that the registry allows, and how to write the registry instead. */
function sizeDifference(column: ColumnDefinition, stored: CatalogColumn): string | undefined {
  const isArray = column.type === 'array';
  const [type, element]: [string, ElementDefinition] = isArray
    ? [column.of, column.elements ?? {}]
    : [column.type, column];
  const { maxLength, precision, scale = 0 } = element;
  const set = isArray ? 'set elements.' : 'set ';
  const is = `${stored.field} is ${stored.printed}`;
  const length = lengthOf(stored);
  // A string without a length has that of the table.
  if (length !== undefined && maxLength === undefined && type === 'text')
    return `${is}, but type 'text' without maxLength allows longer values: ${set}maxLength: ${length}`;
  if (length !== undefined && ['string', 'text'].includes(type) && (maxLength ?? 0) > length)
    return `${is}, but maxLength is ${maxLength}: ${set}maxLength: ${length}`;
  const isLong = (choice: string): boolean => [...choice].length > (length ?? Infinity);
  const long = choiceValues(column.choices, COLUMN_TYPES.string)?.map(String).find(isLong);
  if (type === 'string' && long !== undefined) return `${is}, but the choice '${long}' is longer: remove it`;
  if (NARROWER[type]?.includes(scalarOf(stored)))
    return `${is}, which holds fewer values than type '${type}': set it to 'integer'`;
  const own = storedFacts(stored);
  const { precision: digits, scale: decimals = 0 } = own.elementFacts ?? own;
  if (type !== 'decimal' || precision === undefined || digits === undefined) return undefined;
  if (scale <= decimals && precision - scale <= digits - decimals) return undefined;
  // The registry has no negative scale.
  const advice =
    decimals < 0 ? 'remove precision and scale' : `${set}precision: ${digits}, scale: ${decimals}`;
  return `${is}, but the registry has precision ${precision} and scale ${scale}: ${advice}`;
}

/** The SQL that gives a column the type of the registry. None for a column whose type or value is defined elsewhere. */
function typeChange(
  column: ColumnDefinition,
  type: ColumnType,
  stored: CatalogColumn,
  table: string,
): string | undefined {
  if (stored.isDomain || stored.generated) return undefined;
  const declared = type.declare(declaredFacts(column, type));
  const isSameType = type.accepts.includes(stored.type);
  // Only longer texts, and numbers with more digits before the point, are stored alike.
  const isLonger = lengthOf(stored) !== undefined && isSameType && stored.type === 'varchar';
  const field = quotedName(stored.field);
  const using = isSameType ? '' : ` using ${field}::text::${declared}`;
  const comment = isSameType ? '' : ' Fails if a value does not fit the new type.';
  return alter(
    table,
    `alter column ${field} type ${declared}${using}`,
    `${isLonger ? BRIEF : REWRITES}${comment}`,
  );
}

/** Length of a stored hash: `$argon2id$v=19$m=19456,t=2,p=1$`, 22 characters of salt, `$`, 43 of hash. */
const HASH_LENGTH = 97;

const printedType = (column: ColumnDefinition): string =>
  column.type === 'array' ? `'array' of '${column.of}'` : `'${column.type}'`;

/** The differences of one column. If its type is wrong, there is no other: they would follow from it. */
export function columnDifferences(
  name: string,
  definition: ModelDefinition,
  definitions: readonly ModelDefinition[],
  found: CatalogTable,
  catalog: Catalog,
): Difference[] {
  const column = definition.columns[name] ?? { type: 'text' };
  const field = fieldOf(name, column);
  const table = tableOf(definition);
  const stored = found.columns.find((candidate) => candidate.field === field);
  if (!stored) {
    const former = formerField(name, definition, definitions, found);
    if (former !== undefined)
      return [
        {
          text: `there is no column ${field}, but ${former}, a name that it had before: rename it`,
          alter: alter(table, renameClause(former, field)),
        },
      ];
    if (isAddable(column) || !isTable(found)) return [{ text: `there is no column ${field}` }];
    return [
      {
        text: `there is no column ${field}: set null: true or a default for the existing records, or add the column yourself`,
        alter: addColumn(name, column, definition, definitions),
      },
    ];
  }
  const type = typeOf(column, definitions);
  // PostgreSQL allows a foreign key of another width than the referenced key.
  const widths = column.type === 'foreignKey' && type.accepts.includes('int4') ? ['int8'] : [];
  const change = isTable(found) ? typeChange(column, type, stored, table) : undefined;
  if (![...type.accepts, ...widths].includes(stored.type))
    return [
      {
        text: `${field} is ${stored.printed}, which type ${printedType(column)} does not support`,
        alter: change,
      },
    ];
  const length = lengthOf(stored);
  const differs = (isDifferent: boolean | undefined, text: string, sql?: string): Difference[] =>
    isDifferent ? [{ text, alter: sql }] : [];
  const short = differs(
    column.type === 'password' && length !== undefined && length < HASH_LENGTH,
    `${field} holds ${length} characters, but a hash has ${HASH_LENGTH}`,
    change,
  );
  // Views and foreign tables have no constraints that could differ.
  if (!isTable(found)) return short;
  const size = stored.generated ? undefined : sizeDifference(column, stored);
  const quoted = quotedName(field);
  const foreignKey =
    column.type === 'foreignKey' && foreignKeyDifference(field, column, definitions, found, catalog);
  return [
    ...short,
    ...differs(size !== undefined, size ?? '', change),
    ...differs(
      stored.nullable && !isNullable(column),
      `${field} may be NULL in the database: set null: true`,
      alter(table, `alter column ${quoted} set not null`, `${READS} Fails if a row has NULL.`),
    ),
    ...differs(
      !stored.nullable && isNullable(column) && !stored.generated,
      `${field} is NOT NULL in the database: remove null: true`,
      alter(table, `alter column ${quoted} drop not null`, BRIEF),
    ),
    ...differs(
      column.default !== undefined && !isFilled(column) && !stored.hasDefault,
      `${field} has no default in the database`,
      alter(
        table,
        `alter column ${quoted} set${defaultClause(column, type)}`,
        `${BRIEF} Rows stay as they are.`,
      ),
    ),
    ...differs(column.unique && !isUnique(found, field), `${field} is not unique in the database`),
    ...(foreignKey ? [foreignKey] : []),
  ];
}

/** Replaces a foreign key by one with another `on delete`. */
const foreignKeyReplacement = (table: string, name: string, clause: string): string =>
  alter(
    table,
    `drop constraint ${quotedName(name)}, ${clause}`,
    'Checks all rows, and blocks writes to both tables meanwhile. Other properties of the constraint, such as DEFERRABLE, are lost.',
  );

function foreignKeyDifference(
  field: string,
  column: ColumnDefinition & { type: 'foreignKey' },
  definitions: readonly ModelDefinition[],
  found: CatalogTable,
  catalog: Catalog,
): Difference | undefined {
  const target = definitions.find(({ model }) => model === column.references);
  if (!target || isView(catalog.get(tableOf(target)))) return undefined;
  const foreignKeys = found.foreignKeys.filter(
    ({ fields, target: table }) => sameFields(fields, [field]) && table === tableOf(target),
  );
  const [key = ''] = keyFieldsOf(target);
  const foreignKey = foreignKeys.find(({ targetFields }) => sameFields(targetFields, [key]));
  const [other] = foreignKeys;
  if (!foreignKey)
    return {
      text: other
        ? `${field} references ${other.targetFields.join(', ')} of ${tableOf(target)} in the database, not its key ${key}`
        : `${field} has no foreign key to ${tableOf(target)} in the database`,
    };
  const declared = column.onDelete ?? 'restrict';
  if (foreignKey.onDelete === declared) return undefined;
  return {
    text: `the foreign key of ${field} has on delete ${foreignKey.onDelete} in the database, but ${declared} in the registry`,
    alter: foreignKeyReplacement(found.name, foreignKey.name, foreignKeyClause([field], target, declared)),
  };
}

/** The difference of a foreign key of several columns. PostgreSQL may list its columns in another order. */
export function compositeForeignKeyDifference(
  composite: CompositeForeignKey,
  definition: ModelDefinition,
  definitions: readonly ModelDefinition[],
  found: CatalogTable,
  catalog: Catalog,
): Difference | undefined {
  const { references, onDelete = 'restrict' } = composite;
  const target = definitions.find(({ model }) => model === references);
  if (!target || isView(found) || isView(catalog.get(tableOf(target)))) return undefined;
  const pairsOf = (fields: readonly string[], targets: readonly string[]): string =>
    fields
      .map((field, index) => `${field}\0${targets[index]}`)
      .toSorted()
      .join('\0');
  const fields = compositeFields(composite, definition);
  const wanted = pairsOf(fields, keyFieldsOf(target));
  const foreignKey = found.foreignKeys.find(
    (one) => one.target === tableOf(target) && pairsOf(one.fields, one.targetFields) === wanted,
  );
  if (!foreignKey)
    return {
      text: `${fields.join(', ')} have no foreign key to ${keyFieldsOf(target).join(', ')} of ${tableOf(target)} in the database`,
    };
  if (foreignKey.onDelete === onDelete) return undefined;
  const clause = foreignKeyClause(fields, target, onDelete, nulledFields(composite, definition));
  return {
    text: `the foreign key of ${fields.join(', ')} has on delete ${foreignKey.onDelete} in the database, but ${onDelete} in the registry`,
    alter: foreignKeyReplacement(found.name, foreignKey.name, clause),
  };
}
