// The warnings that the start of the service logs. `vitrine check` reports them and more.
import { apiSubjects, whoMay } from '../access/who-may.ts';
import type { Settings } from '../../config.ts';
import { ignoredParameters, parseAddress } from '../../database-address.ts';
import { VIEW_KINDS } from '../../db/schema/catalog.ts';
import type { Database } from '../../db/connection/database.ts';
import { ENGINE, engineWarnings } from '../../db/schema/engine.ts';
import { unknownConstraintsStatement } from '../../db/schema/relations.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import { missingIndexes } from '../../db/schema/missing-schema.ts';
import {
  EVENT,
  HISTORY,
  REQUEST_KEY,
  SEAL,
  SECOND_FACTOR,
  SECRET,
  SESSION,
  TOKEN,
  VIEW,
} from '../definition/system-tables.ts';
import type { Resource } from '../definition/resource.ts';
import { missingHistoryColumns, type Schema } from './schema-setup.ts';
import type { ResourceView, ResourceViews } from '../access/resource-view.ts';

/** @param names the system tables that are missing or that the database role may not use */
export function missingTablesWarning(names: readonly string[]): string {
  const effects = [
    [HISTORY.model, SESSION.model].some((name) => names.includes(name)) &&
      `The admin area needs ${HISTORY.model} and ${SESSION.model}; without ${HISTORY.model}, changes are not recorded`,
    names.includes(SECRET.model) &&
      `Without ${SECRET.model}, the key of cursors and digests is derived from the identity of the database cluster, which its other users can read, and there are no links to set a password`,
    names.includes(TOKEN.model) && `Without ${TOKEN.model}, the API takes no tokens`,
    names.includes(REQUEST_KEY.model) &&
      `Without ${REQUEST_KEY.model}, requests with an Idempotency-Key are refused`,
    names.includes(EVENT.model) && `Without ${EVENT.model}, events are only logged`,
    names.includes(SEAL.model) && `Without ${SEAL.model}, the history cannot be sealed`,
    names.includes(SECOND_FACTOR.model) &&
      `Without ${SECOND_FACTOR.model}, users cannot have a second factor`,
    names.includes(VIEW.model) && `Without ${VIEW.model}, users cannot save views of lists`,
  ];
  return [
    `missing, or not usable by the database role: ${names.join(' and ')}`,
    ...effects.filter((effect) => effect !== false),
  ].join('. ');
}

/** Warns of a history that an earlier version created, and that the start could not complete. */
export function historyWarning({ catalog, models }: Schema): string | undefined {
  const lacking = models.has(HISTORY.model) ? missingHistoryColumns(catalog) : [];
  if (lacking.length === 0) return undefined;
  return `${HISTORY.model} has no ${lacking.join(', ')}: changes are recorded without, and those by cascades not at all if cause is missing. \`npx vitrine schema --diff\` prints the SQL that adds them`;
}

/** Warns when a resource outputs password hashes to anyone. */
export function passwordOutputWarning(resource: ResourceView): string | undefined {
  const { name, model, roles } = resource;
  const views = apiSubjects(roles).map(({ access }) => resource.for(access));
  const columns = model.columns
    .filter((column) => column.isPassword && views.some(({ output }) => output.includes(column)))
    .map((column) => column.name);
  return columns.length === 0
    ? undefined
    : `${name} outputs the password hashes in ${columns.join(', ')}: exclude them`;
}

/** Warns when the response to a write shows a record to users who may not read it. */
export function writeShowsWarning(resource: ResourceView): string | undefined {
  const { name, roles } = resource;
  const subjects = apiSubjects(roles);
  const readers = whoMay(subjects, ({ access }) => resource.for(access).rights.read);
  const others = whoMay(subjects, ({ access }) => {
    const { isReadable, rights } = resource.for(access);
    return isReadable ? [] : rights.update;
  }).map(({ who }) => who);
  if (readers.length === 0 || others.length === 0) return undefined;
  const writers = others.includes('users') ? 'any user' : `users of ${others.join(', ')}`;
  const only = readers.map(({ who }) => who).join(', ');
  return `${name} can only be read by ${only}, but the response to a PUT shows the record to ${writers} who may write it`;
}

/** Warns of views that the registry does not say, and so takes for missing tables where they are gone, and of those without data. */
export const viewWarnings = (resources: readonly Resource[], { catalog }: Schema): string[] =>
  resources.flatMap((resource) => {
    const { model, view, methods = ['GET'] } = resource;
    const found = catalog.get(tableOf(resource));
    const kind = found && VIEW_KINDS[found.kind];
    if (!kind) return [];
    // One that is written to cannot say it.
    const isUnsaid = !view && methods.every((method) => method === 'GET');
    return [
      ...(isUnsaid
        ? [`${model}: ${found.name} is ${kind}: add view: true, so that no start makes a table in its place`]
        : []),
      ...(found.isPopulated
        ? []
        : [
            `${model}: the materialized view ${found.name} has no data yet, so it cannot be read: refresh it`,
          ]),
    ];
  });

/** Warns of parameters in the addresses of databases that have no effect. */
export const addressWarnings = ({
  databaseUrl,
  databaseReadUrl,
}: Pick<Settings, 'databaseUrl' | 'databaseReadUrl'>): string[] =>
  Object.entries({ DATABASE_URL: [databaseUrl ?? ''], DATABASE_READ_URL: databaseReadUrl }).flatMap(
    ([setting, addresses]) => {
      const parsed = addresses.map(parseAddress).filter((address) => address !== undefined);
      const names = [...new Set(parsed.flatMap(ignoredParameters))];
      return names.length > 0 ? [`${setting}: the service ignores the parameters ${names.join(', ')}`] : [];
    },
  );

/** Warns of an engine on which the service was not tested. */
export const warningsOfEngine = async (database: Pick<Database, 'run'>): Promise<string[]> =>
  engineWarnings(await database.run(ENGINE, 'read'));

/** Warns of each text in `constraints` that no rule of the database can show. */
export async function constraintWarnings(
  database: Pick<Database, 'run'>,
  resources: readonly Resource[],
): Promise<string[]> {
  const all = resources.flatMap((resource) =>
    Object.keys(resource.constraints ?? {}).map((name) => ({
      model: resource.model,
      table: tableOf(resource),
      name,
    })),
  );
  if (all.length === 0) return [];
  const unknown = await database.run(unknownConstraintsStatement(all), 'read');
  return unknown.flatMap((index) => {
    const one = all[index];
    return one
      ? [`${one.model}: constraints.${one.name}: ${one.table} has no constraint or unique index of this name`]
      : [];
  });
}

/** The warnings for which the database is read once more. */
export const databaseWarnings = async (
  database: Pick<Database, 'run'>,
  resources: readonly Resource[],
): Promise<string[]> => [
  ...(await warningsOfEngine(database)),
  ...(await constraintWarnings(database, resources)),
];

export function startWarnings(
  resources: readonly Resource[],
  served: ResourceViews,
  schema: Schema,
): string[] {
  const { catalog, missing } = schema;
  const warnings = [
    historyWarning(schema),
    ...[...served.values()].flatMap((resource) => [
      writeShowsWarning(resource),
      passwordOutputWarning(resource),
    ]),
  ];
  // Without the secret, everything works; `vitrine check` says what differs.
  const needed = missing.filter((name) => name !== SECRET.model);
  return [
    ...(needed.length > 0 ? [missingTablesWarning(needed)] : []),
    ...warnings.filter((warning) => warning !== undefined),
    ...viewWarnings(resources, schema),
    ...missingIndexes(resources, catalog),
  ];
}
