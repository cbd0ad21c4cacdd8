// Checks keys that are made of columns, and foreign keys to them.
import { keyNamesOf, typeOf, type CompositeForeignKey } from '../../db/schema/model-definition.ts';
import { ON_DELETE } from '../../db/schema/model.ts';
import { faultIf, type KeyFault } from '../../errors.ts';
import { checkKeys, isIn, isObject, unknownKeys, type Loose } from '../definition/check-keys.ts';
import type { Resource } from '../definition/resource.ts';

/** Maximum columns of a key. */
const MAX_PARTS = 8;

/** Types whose values cannot be a part of a key. */
const NOT_IN_KEYS: readonly unknown[] = ['password', 'json', 'array'];

/** The faults of a list of columns that make up a key. */
function checkParts(names: unknown, columns: Loose | undefined, key: string): KeyFault[] {
  const list = Array.isArray(names) ? Array.from(names as unknown[]) : [];
  if (list.length < 1 || list.length > MAX_PARTS || !list.every((name) => typeof name === 'string'))
    return [{ key, text: `must be an array of 1 to ${MAX_PARTS} columns` }];
  if (new Set(list).size < list.length) return [{ key, text: 'must not name a column twice' }];
  return list.flatMap((name) => {
    const column = columns?.[name];
    if (columns && !Object.hasOwn(columns, name)) return [{ key, text: `there is no column ${name}` }];
    const type = isObject(column) ? column['type'] : undefined;
    return faultIf(
      NOT_IN_KEYS.includes(type),
      key,
      `${name} is ${String(type)}, which cannot be a part of a key`,
    );
  });
}

/** The faults of `primaryKey: { columns }`. */
export function checkCompositeKey(
  primaryKey: Loose,
  columns: Loose | undefined,
  hidden: readonly unknown[],
): KeyFault[] {
  const key = 'primaryKey.columns';
  const names = primaryKey['columns'];
  const faults = [
    ...unknownKeys(primaryKey, ['columns'], 'primaryKey.', 'must not be given beside columns'),
    ...checkParts(names, columns, key),
  ];
  if (faults.length > 0) return faults;
  return (names as string[]).flatMap((name) => {
    const column = columns?.[name];
    return [
      ...faultIf(isObject(column) && column['null'] === true, key, `${name} may be NULL`),
      ...faultIf(hidden.includes(name), key, `${name} is excluded, and the id would show it`),
    ];
  });
}

/** The faults of `foreignKeys` that do not depend on other resources. */
export function checkForeignKeysShape(
  foreignKeys: unknown,
  columns: Loose | undefined,
  nameFault: (name: string) => string | undefined,
): KeyFault[] {
  if (foreignKeys === undefined) return [];
  if (!isObject(foreignKeys)) return [{ key: 'foreignKeys', text: 'must be an object of foreign keys' }];
  return Object.entries(foreignKeys).flatMap(([name, one]) => {
    const key = `foreignKeys.${name}`;
    if (!isObject(one))
      return [{ key, text: 'must be an object such as { columns: ["film", "actor"], references: "cast" }' }];
    const text = nameFault(name);
    const isTaken = Object.entries(columns ?? {}).some(
      ([other, column]) =>
        other === name || (isObject(column) && column['type'] === 'foreignKey' && `${other}_id` === name),
    );
    const names = Array.isArray(one['columns']) ? (one['columns'] as unknown[]) : [];
    const isNullable = (column: unknown): boolean => !isObject(column) || column['null'] === true;
    const isFixed =
      columns !== undefined &&
      names.length > 0 &&
      names.every((part) => typeof part === 'string' && !isNullable(columns[part]));
    return [
      ...(text === undefined ? [] : [{ key, text }]),
      ...faultIf(isTaken, key, 'this is the name of a column'),
      ...unknownKeys(one, ['columns', 'references', 'onDelete'], `${key}.`),
      ...checkParts(one['columns'], columns, `${key}.columns`),
      ...faultIf(typeof one['references'] !== 'string', `${key}.references`, 'must be the name of a model'),
      ...checkKeys(one, ['onDelete'], isIn(ON_DELETE), `must be one of ${ON_DELETE.join(', ')}`, `${key}.`),
      ...faultIf(
        one['onDelete'] === 'setNull' && isFixed,
        `${key}.onDelete`,
        `setNull requires null: true of ${names.join(' or ')}`,
      ),
    ];
  });
}

/** The faults of `foreignKeys` that depend on the resources that they refer to. */
export function checkForeignKeysAcrossResources(
  resource: Resource,
  resources: readonly Resource[],
): KeyFault[] {
  return Object.entries(resource.foreignKeys ?? {}).flatMap(([name, foreignKey]) => {
    const key = `foreignKeys.${name}.references`;
    const target = resources.find(({ model }) => model === foreignKey.references);
    if (!target) return [{ key, text: `there is no model ${JSON.stringify(foreignKey.references)}` }];
    const names = keyNamesOf(target);
    if (names?.length !== foreignKey.columns.length)
      return [
        {
          key,
          text: `must be a model whose primaryKey.columns has as many columns (${foreignKey.columns.length}): ${target.model} has ${names?.length ?? 'none'}`,
        },
      ];
    return differentTypes(resource, foreignKey, target, resources).map((text) => ({ key, text }));
  });
}

function differentTypes(
  resource: Resource,
  { columns: names }: CompositeForeignKey,
  target: Resource,
  resources: readonly Resource[],
): string[] {
  return (keyNamesOf(target) ?? []).flatMap((part, index) => {
    const name = names[index] ?? '';
    const [own, other] = [resource.columns[name], target.columns[part]];
    if (!own || !other) return [];
    const types = [own, other].map((column) => typeOf(column, resources));
    const isSame = types[0]?.accepts.some((accepted) => types[1]?.accepts.includes(accepted));
    return isSame ? [] : [`${name} does not have the type of ${part}`];
  });
}
