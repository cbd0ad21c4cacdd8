// Checks what the resources of a registry have in common: models, tables, owners and the user model.
import { fieldOf, firstOfTables, keyNamesOf, tableOf } from '../../db/schema/model-definition.ts';
import { faultIf, type Fault, type KeyFault } from '../../errors.ts';
import type { Resource } from '../definition/resource.ts';
import { hasLogins, LOGIN_COLUMNS, neededUserModel } from '../access/resource-view.ts';
import { OWNER_FAULT } from './registry-schema.ts';
import type { AccessSettings } from '../access/rights.ts';

/** What to do if the user model is an unrelated table. */
export function otherUserModel(userModel: string): string {
  const other = userModel === 'login' ? 'account' : 'login';
  return `If this table is not the users of Vitrine, add another model, such as ${other}, and set USER_MODEL=${other}`;
}

/** The faults that need all resources to be found. */
export function checkAcrossResources(resources: readonly Resource[], settings: AccessSettings): Fault[] {
  const { userModel } = settings;
  const firsts = firstOfTables(resources);
  const firstOf = (resource: Resource): Resource => firsts.get(tableOf(resource)) ?? resource;
  const users = hasLogins(resources, settings) ? find(resources, userModel) : undefined;
  const needed = neededUserModel(resources, settings);
  return [
    ...resources.flatMap((resource, index) =>
      [
        ...faultIf(
          resources.findIndex(({ model }) => model === resource.model) < index,
          'model',
          `another resource has this model${resource.model === userModel ? `. ${otherUserModel(userModel)}` : ''}`,
        ),
        ...checkSharedTable(resource, firstOf(resource), users),
        ...checkPasswords(resource, resources),
        ...checkTargets(resource, resources, firstOf),
        ...checkOwner(resource, userModel),
        ...checkUserRows(resource, userModel),
      ].map((fault) => ({ model: resource.model, ...fault })),
    ),
    ...(needed === undefined ? [] : checkUserModel(resources, needed, userModel)),
  ];
}

const find = (resources: readonly Resource[], name: string): Resource | undefined =>
  resources.find(({ model }) => model === name);

/**
 * The faults of a resource that is not the first of its table. Only the first may write, because checks, history and deletions
 * belong to it. The user model must be the first, because its checks also protect the logins.
 */
function checkSharedTable(resource: Resource, first: Resource, users: Resource | undefined): KeyFault[] {
  if (first === resource) return [];
  if (resource === users)
    return [
      {
        key: 'table',
        text: `the user model must be the first resource of its table: register it before ${first.model}`,
      },
    ];
  const isReadOnly =
    resource.primaryKey === false || (resource.methods?.length === 1 && resource.methods[0] === 'GET');
  return faultIf(
    !isReadOnly,
    'methods',
    `another resource has this table, and only the first one can write: set it to ['GET'], or register this resource before ${first.model}`,
  );
}

/** The faults of columns that are a password in another resource of the table. */
function checkPasswords(resource: Resource, resources: readonly Resource[]): KeyFault[] {
  const others = resources.filter((other) => other !== resource && tableOf(other) === tableOf(resource));
  return Object.entries(resource.columns).flatMap(([name, column]) => {
    const isSame = ([key, other]: [string, Resource['columns'][string]]): boolean =>
      other.type === 'password' && fieldOf(key, other) === fieldOf(name, column);
    const other = others.find(({ columns }) => Object.entries(columns).some(isSame));
    return faultIf(
      column.type !== 'password' && other !== undefined,
      `columns.${name}.type`,
      `must be password, as in the model ${other?.model}`,
    );
  });
}

/** The faults of foreign keys to a resource that is not the first of its table. */
function checkTargets(
  { columns, foreignKeys = {} }: Resource,
  resources: readonly Resource[],
  firstOf: (resource: Resource) => Resource,
): KeyFault[] {
  const links = [
    ...Object.entries(columns).map(
      ([name, column]) => [`columns.${name}`, 'references' in column ? column.references : ''] as const,
    ),
    ...Object.entries(foreignKeys).map(
      ([name, { references }]) => [`foreignKeys.${name}`, references] as const,
    ),
  ];
  return links.flatMap(([key, references]) => {
    const target = find(resources, references);
    return faultIf(
      target !== undefined && firstOf(target) !== target,
      `${key}.references`,
      `${references} is not the first resource of its table: use ${target && firstOf(target).model}`,
    );
  });
}

function checkOwner({ owner, columns }: Resource, userModel: string): KeyFault[] {
  if (owner === undefined) return [];
  const column = Object.hasOwn(columns, owner) ? columns[owner] : undefined;
  if (column?.type !== 'foreignKey') return [{ key: 'owner', text: OWNER_FAULT }];
  return faultIf(
    column.references !== userModel,
    'owner',
    `must be a foreign key to the user model, ${userModel}`,
  );
}

/** Changes to users must be confirmed with a password, which only their own form asks for. */
const checkUserRows = ({ admin }: Resource, userModel: string): KeyFault[] =>
  (admin?.inlines ?? []).flatMap(({ model, readonly }, index) =>
    faultIf(
      model === userModel && readonly !== true,
      `admin.inlines.${index}.readonly`,
      `must be true for the user model, ${userModel}`,
    ),
  );

/** @param needed why there must be a user model */
export function checkUserModel(resources: readonly Resource[], needed: string, userModel: string): Fault[] {
  const users = find(resources, userModel);
  if (!users)
    return [
      {
        model: 'the registry',
        key: '',
        text: `there is no user model "${userModel}" (USER_MODEL), and ${needed}: add a model "${userModel}" with the columns ${Object.keys(LOGIN_COLUMNS).join(', ')}, or set USER_MODEL to the model that has them`,
      },
    ];
  const keyFaults = faultIf(
    keyNamesOf(users) !== undefined,
    'primaryKey',
    'must have a type in the user model: { type, column } and not { columns }',
  );
  const columnFaults = Object.entries(LOGIN_COLUMNS).flatMap(([name, types]): KeyFault[] => {
    const column = users.columns[name];
    const key = `columns.${name}`;
    if (!column) return [{ key, text: 'the user model must have this column' }];
    if (!types.includes(column.type))
      return [{ key: `${key}.type`, text: `must be ${types.join(' or ')} in the user model` }];
    return faultIf(
      name === 'username' && column.unique !== true,
      `${key}.unique`,
      'must be true in the user model',
    );
  });
  const isOtherTable = columnFaults.some(({ key }) => !key.endsWith('.unique'));
  const faults = [...keyFaults, ...columnFaults];
  return faults.map(({ key, text }, index) => ({
    model: userModel,
    key,
    text: isOtherTable && index === faults.length - 1 ? `${text}. ${otherUserModel(userModel)}` : text,
  }));
}
