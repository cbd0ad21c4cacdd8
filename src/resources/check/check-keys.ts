// Checks keys and unique sets of several columns, the foreign keys to them, and resources without a key.
import { keyNamesOf, typeOf, type CompositeForeignKey } from '../../db/schema/model-definition.ts';
import { faultIf, type KeyFault } from '../../errors.ts';
import type { Resource } from '../definition/resource.ts';

/** Types whose values cannot be a part of a key or unique set. */
const NOT_IN_KEYS: readonly unknown[] = ['password', 'json', 'array'];

/** The faults of a list of columns that make up a key. */
function checkParts(names: readonly string[], { columns }: Resource, key: string): KeyFault[] {
  if (new Set(names).size < names.length) return [{ key, text: 'must not name a column twice' }];
  return names.flatMap((name) => {
    const column = Object.hasOwn(columns, name) ? columns[name] : undefined;
    if (!column) return [{ key, text: `there is no column ${name}` }];
    const { type } = column;
    return faultIf(NOT_IN_KEYS.includes(type), key, `${name} is ${type}, which cannot be a part of a key`);
  });
}

/** The faults of `unique`. */
export const checkUniques = (resource: Resource): KeyFault[] =>
  (resource.unique ?? []).flatMap((names) => checkParts(names, resource, 'unique'));

/** The faults of `primaryKey: { columns }`. */
export function checkCompositeKey(resource: Resource): KeyFault[] {
  const key = 'primaryKey.columns';
  const names = keyNamesOf(resource) ?? [];
  const faults = checkParts(names, resource, key);
  if (faults.length > 0) return faults;
  const hidden = [...(resource.exclude ?? []), ...(resource.admin?.exclude ?? [])];
  return names.flatMap((name) => [
    ...faultIf(resource.columns[name]?.null === true, key, `${name} may be NULL`),
    ...faultIf(hidden.includes(name), key, `${name} is excluded, and the id would show it`),
  ]);
}

/** The faults of a view, of which nothing says which column identifies a row, and which is only read. */
export const checkView = ({ view, primaryKey, methods = [] }: Resource): KeyFault[] => {
  const refused = methods.filter((method) => method !== 'GET');
  return view
    ? [
        ...faultIf(
          primaryKey === undefined,
          'primaryKey',
          "is missing: name the column that identifies a row of the view, such as { type: 'integer', column: 'id' }, or set it to false",
        ),
        ...faultIf(refused.length > 0, 'methods', `a view: true is only read: remove ${refused.join(', ')}`),
      ]
    : [];
};

/** The faults of what needs a key in a resource that has none. */
export function checkKeyless({ primaryKey, methods, owner, version, history, admin }: Resource): KeyFault[] {
  if (primaryKey !== false) return [];
  const used = {
    methods: methods?.some((method) => method !== 'GET'),
    owner: owner !== undefined,
    version: version !== undefined,
    history: history === true,
    'admin.allow': admin?.allow?.length,
    'admin.label': admin?.label !== undefined,
  };
  return Object.entries(used).flatMap(([key, isUsed]) =>
    faultIf(Boolean(isUsed), key, 'needs a primaryKey: without one, the records can only be listed'),
  );
}

/** The faults of `foreignKeys`. */
export function checkCompositeForeignKeys(resource: Resource, resources: readonly Resource[]): KeyFault[] {
  const { columns } = resource;
  const isTaken = (name: string): boolean =>
    Object.entries(columns).some(
      ([other, { type }]) => other === name || (type === 'foreignKey' && `${other}_id` === name),
    );
  return Object.entries(resource.foreignKeys ?? {}).flatMap(([name, foreignKey]) => {
    const key = `foreignKeys.${name}`;
    const { columns: names, onDelete } = foreignKey;
    const isFixed = names.every((part) => columns[part]?.null !== true);
    const parts = checkParts(names, resource, `${key}.columns`);
    return [
      ...faultIf(isTaken(name), key, 'this is the name of a column'),
      ...parts,
      ...(parts.length > 0 ? [] : checkTarget(resource, foreignKey, resources, `${key}.references`)),
      ...faultIf(
        onDelete === 'setNull' && isFixed,
        `${key}.onDelete`,
        `setNull requires null: true of ${names.join(' or ')}`,
      ),
    ];
  });
}

function checkTarget(
  { columns }: Resource,
  { columns: names, references }: CompositeForeignKey,
  resources: readonly Resource[],
  key: string,
): KeyFault[] {
  const target = resources.find(({ model }) => model === references);
  if (!target) return [{ key, text: `there is no model ${JSON.stringify(references)}` }];
  const keys = keyNamesOf(target);
  if (keys?.length !== names.length)
    return [
      {
        key,
        text: `must be a model whose primaryKey.columns has as many columns (${names.length}): ${target.model} has ${keys?.length ?? 'none'}`,
      },
    ];
  return keys.flatMap((part, index) => {
    const name = names[index] ?? '';
    const types = [columns[name], target.columns[part]].map((column) => column && typeOf(column, resources));
    const isSame = types[0]?.accepts.some((accepted) => types[1]?.accepts.includes(accepted));
    // A missing part of the other key is a fault there.
    return faultIf(types[1] !== undefined && !isSame, key, `${name} does not have the type of ${part}`);
  });
}
