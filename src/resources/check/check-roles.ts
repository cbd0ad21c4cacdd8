// Checks the meaning of the roles of a registry: the names in grants, lists of roles and rules about rows.
import type { Level, Settings } from '../../config.ts';
import type { Model } from '../../db/schema/model.ts';
import { faultIf, type Fault, type FieldErrors, type KeyFault } from '../../errors.ts';
import { parseRule } from '../../query/row-rules.ts';
import type { Visibility } from '../../query/plan.ts';
import { ofRole } from '../access/access.ts';
import { ALL_COLUMNS, sampleOfMe, type Views } from '../access/resource-view.ts';
import { limitsOf, listOf, type AccessSettings } from '../access/rights.ts';
import type { Resource } from '../definition/resource.ts';
import { isIn, isObject } from '../definition/validators.ts';
import { LEVEL } from './registry-schema.ts';
import {
  ALL_MODELS,
  BUILT_IN_ROLES,
  GRANTED,
  namedRoles,
  type GrantLimits,
  type Roles,
} from '../definition/roles.ts';

const isBuiltIn = isIn(BUILT_IN_ROLES);

/** The types of a column that can hold the name of a role, or several. */
const ROLE_TYPES = ['string', 'text', 'array'];

/** The lists of roles in a resource, by their key. */
export function listsOf({
  access,
  read,
  costly,
  countLevel,
  columns,
  admin,
}: Resource): [key: string, Level | undefined][] {
  const byMethod = isObject(access)
    ? Object.entries(access).map(([method, level]): [string, Level | undefined] => [
        `access.${method}`,
        level,
      ])
    : [['access', access] as [string, Level | undefined]];
  return [
    ...byMethod,
    ['read', read],
    ['costly', costly],
    ['countLevel', countLevel],
    ...(admin?.actions ?? []).map(({ level }, index): [string, Level | undefined] => [
      `admin.actions.${index}.level`,
      level,
    ]),
    ...Object.entries(columns).flatMap(([name, column]): [string, Level | undefined][] => [
      [`columns.${name}.read`, column.read],
      [`columns.${name}.write`, column.write],
    ]),
  ];
}

const unknownRoles = (resource: Resource, roles: Roles): KeyFault[] =>
  listsOf(resource).flatMap(([key, level]) =>
    typeof level === 'object'
      ? level.flatMap((role) =>
          faultIf(!namedRoles(roles).includes(role), key, `there is no role ${JSON.stringify(role)}`),
        )
      : [],
  );

/** The faults of the export `changes`, which may be anything. */
export function checkChanges(changes: unknown, roles: unknown): Fault[] {
  const faults = LEVEL(changes, '');
  const known = isObject(roles) ? namedRoles(roles as Roles) : [];
  const listed = faults.length === 0 && typeof changes === 'object' ? (changes as string[]) : [];
  const unknown = listed.filter((role) => !known.includes(role));
  return [
    ...faults.map(({ text }) => text),
    ...unknown.map((role) => `there is no role ${JSON.stringify(role)}`),
  ].map((text) => ({ model: 'changes', key: '', text }));
}

function checkGrant(
  key: string,
  action: (typeof GRANTED)[number],
  { columns, exclude, rows }: GrantLimits,
  { columns: known, model }: Resource,
): KeyFault[] {
  const names = { columns, exclude };
  const hasColumns = action === 'read' || action === 'create' || action === 'update';
  const hasRows = hasColumns || action === 'delete';
  const ofRows = faultIf(rows !== undefined && !hasRows, `${key}.rows`, 'has no effect on this action');
  const ofColumns = Object.entries(names).flatMap(([name, listed]) => [
    ...faultIf(listed !== undefined && !hasColumns, `${key}.${name}`, 'has no effect on this action'),
    ...(listed ?? []).flatMap((column) => [
      ...faultIf(
        !Object.hasOwn(known, column),
        `${key}.${name}`,
        `there is no column ${JSON.stringify(column)} in ${model}`,
      ),
      ...faultIf(
        action === 'read' && name === 'columns' && known[column]?.type === 'password',
        `${key}.${name}`,
        'a password cannot be read',
      ),
    ]),
  ]);
  return [...ofRows, ...ofColumns];
}

/** The faults of roles that need only the definitions. */
export function checkRoles(
  resources: readonly Resource[],
  roles: Roles,
  { userModel }: Pick<Settings, 'userModel'>,
): Fault[] {
  const users = resources.find(({ model }) => model === userModel);
  const role = users?.columns['role'];
  const ofRoles = Object.entries(roles).flatMap(([name, { admin, grants = {} } = {}]) => {
    const faults = [
      ...faultIf(isBuiltIn(name) && admin !== undefined, 'admin', 'has no effect on a built-in role'),
      ...Object.entries(grants).flatMap(([model, actions = {}]) => {
        const resource = resources.find((one) => one.model === model);
        const key = `grants.${model}`;
        if (!resource && model !== ALL_MODELS) return [{ key, text: 'there is no such model' }];
        return GRANTED.flatMap((action) => {
          const limits = limitsOf(actions[action]);
          if (!limits) return [];
          return [
            ...faultIf(
              name === 'anyone' && action !== 'read',
              `${key}.${action}`,
              'is not possible without a login',
            ),
            ...(resource
              ? checkGrant(`${key}.${action}`, action, limits, resource)
              : faultIf(Object.keys(limits).length > 0, `${key}.${action}`, 'must be true for all models')),
          ];
        });
      }),
    ];
    return faults.map((fault) => ({ model: `role ${name}`, ...fault }));
  });
  return [
    ...resources.flatMap((resource) =>
      unknownRoles(resource, roles).map((fault) => ({ model: resource.model, ...fault })),
    ),
    ...ofRoles,
    ...faultIf(
      namedRoles(roles).length > 0 && users !== undefined && !ROLE_TYPES.includes(role?.type ?? ''),
      'columns',
      'roles need a column role of type string, text or array in the user model',
    ).map((fault) => ({ model: userModel, ...fault })),
  ];
}

/** The faults of rules about rows. A rule of a role may name only what the role may read. */
export function checkRules(
  resources: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  views: Views,
  settings: AccessSettings,
): Fault[] {
  const sample = sampleOfMe(resources, models, settings);
  const errorsOf = (text: string, model: Model, visibility: Visibility): FieldErrors => {
    const errors: FieldErrors = {};
    parseRule(text, model, visibility, sample, errors);
    return errors;
  };
  const faultsOf = (text: string, model: string, visibility: Visibility): string[] => {
    const found = models.get(model);
    if (!found) return [];
    const withAll = errorsOf(text, found, ALL_COLUMNS);
    return Object.entries(errorsOf(text, found, visibility)).flatMap(([name, texts]) => {
      const reasons = Object.hasOwn(withAll, name) ? texts : ['names a column that the role may not read'];
      return reasons.map((one) => `${JSON.stringify(text)}: ${name === '' ? '' : `${name} `}${one}`);
    });
  };
  const ofResources = resources.flatMap(({ model, rows = {} }) =>
    (['read', 'write'] as const).flatMap((action) =>
      listOf(rows[action]).flatMap((text) =>
        faultsOf(text, model, ALL_COLUMNS).map((fault) => ({ model, key: `rows.${action}`, text: fault })),
      ),
    ),
  );
  const ofRoles = Object.entries(settings.roles ?? {}).flatMap(([name, { grants = {} } = {}]) =>
    Object.entries(grants).flatMap(([model, actions = {}]) =>
      GRANTED.flatMap((action) => {
        const visibility = views(ofRole(name)).get(model)?.visibility;
        const texts = listOf(limitsOf(actions[action])?.rows);
        const found = visibility ? texts.flatMap((text) => faultsOf(text, model, visibility)) : [];
        return found.map((text) => ({ model: `role ${name}`, key: `grants.${model}.${action}.rows`, text }));
      }),
    ),
  );
  return [...ofResources, ...ofRoles];
}
