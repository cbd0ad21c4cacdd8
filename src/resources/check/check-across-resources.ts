// Checks the names by which the resources of a registry refer to each other.
import type { Settings } from '../../config.ts';
import { fieldOf, keyFieldsOf, keyNamesOf, tableOf, typeOf } from '../../db/schema/model-definition.ts';
import { faultIf, type Fault, type FieldErrors, type KeyFault } from '../../errors.ts';
import { checkOrderingLength } from '../../query/parse/grammar.ts';
import { checkValues } from './check-column.ts';
import { checkForeignKeysAcrossResources } from './check-composite-keys.ts';
import type { Resource } from '../definition/resource.ts';
import { hasLogins, LOGIN_COLUMNS, neededUserModel } from '../serve/served-resource.ts';
import { isKeyTypeKnown, isTableKnown, type PartialResource } from './partial-resource.ts';

export type AccessSettings = Pick<Settings, 'access' | 'userModel'>;

export const OWNER_FAULT = 'must name a foreign key';

/** What to do if the user model is an unrelated table. */
export function otherUserModel(userModel: string): string {
  const other = userModel === 'login' ? 'account' : 'login';
  return `If this table is not the users of Vitrine, add another model, such as ${other}, and set USER_MODEL=${other}`;
}

/** The faults that need all resources to be found: of tables, foreign keys, owners and the user model. */
export function checkAcrossResources(parts: readonly PartialResource[], settings: AccessSettings): Fault[] {
  const resources = parts.map(({ resource }) => resource);
  const isKeyKnown = new Map(parts.map((part) => [part.resource.model, isKeyTypeKnown(part)]));
  const tables = tablesOf(parts);
  const users = hasLogins(resources, settings)
    ? resources.find(({ model }) => model === settings.userModel)
    : undefined;
  const faults = parts.flatMap((part) =>
    [
      ...checkSharedTable(part.resource, tables.get(part.resource)?.first, users),
      ...checkPasswords(part, tables.get(part.resource)),
      ...checkOrdering(part.resource),
      ...checkFields(part),
      ...checkForeignKeys(part, resources, isKeyKnown),
      ...checkForeignKeysAcrossResources(part.resource, resources),
      ...checkTargets(part.resource, resources, tables),
      ...checkOwner(part, settings.userModel, isKeyKnown),
    ].map((fault) => ({ model: part.resource.model, ...fault })),
  );
  const needed = neededUserModel(resources, settings);
  return needed === undefined ? faults : [...faults, ...checkUserModel(parts, needed, settings.userModel)];
}

/** What the resources of one table have in common. */
interface Table {
  readonly first: Resource;
  /** The model with the password, by the name of the database column. */
  readonly passwords: Map<string, string>;
}

/** The table of each resource, if its name is known. */
function tablesOf(parts: readonly PartialResource[]): ReadonlyMap<Resource, Table> {
  const byName = new Map<string, Table>();
  const tables = new Map<Resource, Table>();
  for (const { resource } of parts.filter(isTableKnown)) {
    const name = tableOf(resource);
    const table = byName.get(name) ?? { first: resource, passwords: new Map<string, string>() };
    byName.set(name, table);
    tables.set(resource, table);
    for (const [key, column] of Object.entries(resource.columns))
      if (column.type === 'password') table.passwords.set(fieldOf(key, column), resource.model);
  }
  return tables;
}

/**
 * The faults of a resource that is not the first of its table. Only the first may write, because checks, history and deletions
 * belong to it. The user model must be the first, because its checks also protect the logins.
 */
function checkSharedTable(
  resource: Resource,
  first: Resource | undefined,
  users: Resource | undefined,
): KeyFault[] {
  if (first === undefined || first === resource) return [];
  if (resource === users)
    return [
      {
        key: 'table',
        text: `the user model must be the first resource of its table: register it before ${first.model}`,
      },
    ];
  const isReadOnly = resource.methods?.length === 1 && resource.methods[0] === 'GET';
  return faultIf(
    !isReadOnly,
    'methods',
    `another resource has this table, and only the first one can write: set it to ['GET'], or register this resource before ${first.model}`,
  );
}

/** The faults of columns that are a password in another resource of the table. */
const checkPasswords = ({ resource, untyped }: PartialResource, table: Table | undefined): KeyFault[] =>
  Object.entries(resource.columns).flatMap(([name, column]) => {
    const other = table?.passwords.get(fieldOf(name, column));
    return faultIf(
      column.type !== 'password' && !untyped.has(name) && other !== undefined && other !== resource.model,
      `columns.${name}.type`,
      `must be password, as in the model ${other}`,
    );
  });

/** The faults of foreign keys to a resource that is not the first of its table. */
function checkTargets(
  resource: Resource,
  resources: readonly Resource[],
  tables: ReadonlyMap<Resource, Table>,
): KeyFault[] {
  const keys = [
    ...Object.entries(resource.columns).map(
      ([name, column]) =>
        [`columns.${name}`, 'references' in column ? column.references : undefined] as const,
    ),
    ...Object.entries(resource.foreignKeys ?? {}).map(
      ([name, { references }]) => [`foreignKeys.${name}`, references] as const,
    ),
  ];
  return keys.flatMap(([key, references]) => {
    const target = resources.find(({ model }) => model === references);
    const first = target && tables.get(target)?.first;
    return faultIf(
      first !== undefined && first !== target,
      `${key}.references`,
      `${references} is not the first resource of its table: use ${first?.model}`,
    );
  });
}

function checkOrdering({ ordering }: Resource): KeyFault[] {
  const errors: FieldErrors = {};
  checkOrderingLength(ordering?.split(',').length ?? 0, errors);
  return (errors['ordering'] ?? []).map((text) => ({ key: 'ordering', text }));
}

const checkForeignKeys = (
  { resource, isFaulty }: PartialResource,
  resources: readonly Resource[],
  isKeyKnown: ReadonlyMap<string, boolean>,
): KeyFault[] =>
  Object.entries(resource.columns).flatMap(([name, column]) => {
    if (column.type !== 'foreignKey') return [];
    const { references } = column;
    const key = `columns.${name}.references`;
    const type = isKeyKnown.get(references) ? typeOf(column, resources) : undefined;
    return [
      ...faultIf(
        !isKeyKnown.has(references) && !isFaulty(key),
        key,
        `there is no model ${JSON.stringify(references)}`,
      ),
      ...faultIf(
        resources.some((other) => other.model === references && keyNamesOf(other) !== undefined),
        key,
        `${references} has primaryKey.columns: use foreignKeys`,
      ),
      ...checkValues({ ...column }, type).map((fault) => ({ ...fault, key: `columns.${name}.${fault.key}` })),
    ];
  });

/** PostgreSQL's system columns, which every table has. */
const SYSTEM_FIELDS = ['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid'];

/** The faults of columns that share one column of the database. */
function checkFields({ resource, isFaulty, untyped }: PartialResource): KeyFault[] {
  const users = new Map(SYSTEM_FIELDS.map((field) => [field, 'PostgreSQL itself']));
  const [keyField = ''] = keyFieldsOf(resource);
  const isKeyFieldKnown = !isFaulty('primaryKey') && !isFaulty('primaryKey.column') && !keyNamesOf(resource);
  const keyFaults = faultIf(
    isKeyFieldKnown && users.has(keyField),
    'primaryKey.column',
    `${keyField} is a system column of PostgreSQL`,
  );
  if (isKeyFieldKnown) users.set(keyField, 'the primary key');
  const columnFaults = Object.entries(resource.columns).flatMap(([name, column]) => {
    // Without a valid name and a type, or an explicit `column`, the column's name in the database is unknown.
    const isUnnamed = isFaulty(`columns.${name}`) || untyped.has(name);
    if ((isUnnamed && column.column === undefined) || isFaulty(`columns.${name}.column`)) return [];
    const field = fieldOf(name, column);
    const other = users.get(field);
    users.set(field, name);
    return faultIf(
      other !== undefined,
      `columns.${name}`,
      `its database column ${field} is already used by ${other}`,
    );
  });
  return [...keyFaults, ...columnFaults];
}

function checkOwner(
  { resource, isFaulty, untyped }: PartialResource,
  userModel: string,
  models: ReadonlyMap<string, unknown>,
): KeyFault[] {
  const { owner, columns } = resource;
  const column = owner === undefined || isFaulty('owner') ? undefined : columns[owner];
  if (!column || untyped.has(owner ?? '')) return [];
  if (column.type !== 'foreignKey') return [{ key: 'owner', text: OWNER_FAULT }];
  return faultIf(
    column.references !== userModel && models.has(column.references),
    'owner',
    `must be a foreign key to the user model, ${userModel}`,
  );
}

function checkUserModel(parts: readonly PartialResource[], needed: string, userModel: string): Fault[] {
  const users = parts.find(({ resource }) => resource.model === userModel);
  if (!users)
    return [
      {
        model: 'the registry',
        key: '',
        text: `there is no user model "${userModel}" (USER_MODEL), and ${needed}: add a model "${userModel}" with the columns ${Object.keys(LOGIN_COLUMNS).join(', ')}, or set USER_MODEL to the model that has them`,
      },
    ];
  if (users.isFaulty('columns')) return [];
  const keyFaults = faultIf(
    keyNamesOf(users.resource) !== undefined,
    'primaryKey',
    'must have a type in the user model: { type, column } and not { columns }',
  ).map((fault) => ({ model: userModel, ...fault }));
  const columnFaults = Object.entries(LOGIN_COLUMNS).flatMap(([name, types]): Fault[] => {
    const column = users.resource.columns[name];
    const fault = (key: string, text: string): Fault[] => [
      { model: userModel, key: `columns.${name}${key}`, text },
    ];
    if (!column) return fault('', 'the user model must have this column');
    if (users.untyped.has(name)) return [];
    if (!types.includes(column.type))
      return fault('.type', `must be ${types.join(' or ')} in the user model`);
    const isUnique = column.unique === true || users.isFaulty(`columns.${name}.unique`);
    return name === 'username' && !isUnique ? fault('.unique', 'must be true in the user model') : [];
  });
  const isOtherTable = columnFaults.some(({ key }) => !key.endsWith('.unique'));
  const faults = [...keyFaults, ...columnFaults];
  return faults.map((fault, index) =>
    isOtherTable && index === faults.length - 1
      ? { ...fault, text: `${fault.text}. ${otherUserModel(userModel)}` }
      : fault,
  );
}
