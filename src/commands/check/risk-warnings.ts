import type { Settings } from '../../config.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import { findColumn, type Column, type Model } from '../../db/schema/model.ts';
import type { DatabaseInfo } from '../../db/schema/relations.ts';
import { missingIndexes } from '../../db/schema/missing-schema.ts';
import type { AdminResources } from '../../resources/serve/admin-resource.ts';
import { HISTORY } from '../../resources/definition/system-tables.ts';
import type { Resource } from '../../resources/definition/resource.ts';
import type { Schema } from '../../resources/serve/schema-setup.ts';
import {
  hasLogins,
  type ServedResource,
  type ServedResources,
} from '../../resources/serve/served-resource.ts';

/** Something that works and is dangerous all the same; scripts know it by its kind. */
export interface Warning {
  readonly kind:
    | 'superuser'
    | 'history-open'
    | 'own-tables'
    | 'default-access'
    | 'password-output'
    | 'write-shows'
    | 'self-promotion'
    | 'history-off'
    | 'foreign-key-index'
    | 'slow-filter';
  readonly text: string;
}

/** Everything that warnings are made of. */
export interface Circumstances {
  readonly settings: Settings;
  readonly resources: readonly Resource[];
  readonly served: ServedResources;
  readonly people: AdminResources;
  readonly schema: Schema;
  readonly surroundings: DatabaseInfo;
  /** The database was made by this program, for trying things out. */
  readonly isEmbedded: boolean;
}

/** Columns called like this say what people may do: whoever may set them may do everything. */
const POWER =
  /(^|_)(admin|administrator|active|enabled|roles?|staff|superuser|permissions?|privileges?)(_|$)/;
/** From so many rows on a look at all of them takes too long. */
const LARGE = 100_000;

const wordsOf = (name: string): string => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase();
const namesOf = (columns: readonly Column[]): string => columns.map(({ name }) => name).join(', ');
const writes = ({ access, methods }: ServedResource): boolean =>
  access !== 'default' && ['POST', 'PUT', 'DELETE'].some((method) => methods.has(method as 'POST'));

/** The resources whose tables are not there yet. */
const absent = (resources: readonly Resource[], { catalog }: Schema): Resource[] =>
  resources.filter((resource) => !catalog.has(tableOf(resource)));

function aboutDatabase({ settings, resources, schema, surroundings, isEmbedded }: Circumstances): Warning[] {
  const warnings: Warning[] = [];
  const { isSuperuser, tables } = surroundings;
  const hasUsers = hasLogins(resources, settings);
  if (isSuperuser && !isEmbedded) {
    const text =
      'the database role is a superuser, whom no grant holds back: vitrine schema --role NAME prints what a role needs';
    warnings.push({ kind: 'superuser', text });
  }
  if (
    !isSuperuser &&
    hasUsers &&
    tables.some(({ name, isChangeable }) => name === HISTORY.model && isChangeable)
  ) {
    const text = `the database role may change or delete what stands in ${HISTORY.model}`;
    warnings.push({ kind: 'history-open', text });
  }
  // Where tables of the registry are not there either, all of it is still to be made.
  if (hasUsers && schema.missing.length > 0 && absent(resources, schema).length === 0) {
    const names = schema.missing.join(' and ');
    const text = `no table ${names} that the database role may use: without both there is no admin area, and without ${HISTORY.model} no change is written down`;
    warnings.push({ kind: 'own-tables', text });
  }
  return warnings;
}

function aboutAccess({ settings, resources, served, people }: Circumstances): Warning[] {
  const warnings: Warning[] = [];
  const bare = resources.filter(({ access }) => access === undefined).map(({ model }) => model);
  if (settings.access !== 'default' && bare.length > 0) {
    const who = settings.access === 'user' ? 'every user' : 'every admin';
    const text = `ACCESS=${settings.access} lets ${who} write where the registry says nothing: ${bare.join(', ')}`;
    warnings.push({ kind: 'default-access', text });
  }
  for (const resource of served.values()) {
    const { name, output, access, read, methods, model, readonly } = resource;
    const shown = output.filter(({ isPassword }) => isPassword);
    if (shown.length > 0)
      warnings.push({
        kind: 'password-output',
        text: `${name} outputs the password hashes in ${namesOf(shown)}: exclude them`,
      });
    if (access === 'user' && read === 'admin' && methods.has('PUT')) {
      const text = `${name} can be read by admins alone, but a PUT shows its record to any user who may write it`;
      warnings.push({ kind: 'write-shows', text });
    }
    const powerful = model.columns.filter(
      (column) => POWER.test(wordsOf(column.name)) && !readonly.has(column),
    );
    if (access === 'user' && (methods.has('POST') || methods.has('PUT')) && powerful.length > 0) {
      const text = `${name} lets users set ${namesOf(powerful)}: make it readonly, unless that is meant`;
      warnings.push({ kind: 'self-promotion', text });
    }
    if (!resource.recorded && (writes(resource) || (people.get(name)?.may.size ?? 0) > 0)) {
      warnings.push({
        kind: 'history-off',
        text: `${name} can be changed without a trace: its history is off`,
      });
    }
  }
  return warnings;
}

/** The column at the end of a path, and the model that has it. */
function follow(model: Model, path: readonly string[]): { model: Model; column: Column } | undefined {
  const [head = '', ...rest] = path;
  const column = findColumn(model, head);
  if (!column) return undefined;
  if (rest.length === 0) return { model, column };
  return column.references && follow(column.references, rest);
}

function aboutSpeed({ resources, served, people, schema, surroundings }: Circumstances): Warning[] {
  const rowsOf = ({ table }: Model) => surroundings.tables.find(({ name }) => name === table);
  const slow = (model: Model, paths: readonly (readonly string[])[], isSearch = false): string[] =>
    paths.flatMap((path) => {
      const end = follow(model, path);
      const table = end && rowsOf(end.model);
      if (!end || !table || table.rows <= LARGE) return [];
      const { column } = end;
      const isFast = isSearch ? table.searchable.includes(column.field) : column.indexed;
      return isFast ? [] : [path.join('__')];
    });
  const there = resources.filter((resource) => !absent(resources, schema).includes(resource));
  const warnings = missingIndexes(there, schema.catalog).map((text): Warning => ({
    kind: 'foreign-key-index',
    text,
  }));
  for (const { model: name, ordering, admin = {} } of resources) {
    const model = served.get(name)?.model;
    if (!model) continue;
    const split = (paths: readonly string[]): string[][] => paths.map((path) => path.split('__'));
    // The rows are sorted by the first column; the others only sort those that are alike.
    const [first = ''] = (ordering ?? '').replace(/^-/, '').split(',');
    const tell = (what: string, paths: readonly string[], index: string): void => {
      if (paths.length === 0) return;
      const text = `${name}: ${what} ${paths.join(', ')} looks at every row of a large table: no index ${index}`;
      warnings.push({ kind: 'slow-filter', text });
    };
    tell('ordering', slow(model, first === '' ? [] : split([first])), 'begins with it');
    const face = people.get(name);
    if (!face) continue;
    tell('admin.filters', slow(model, split(admin.filters ?? [])), 'begins with it');
    tell('admin.search', slow(model, face.search, true), 'finds parts of texts (pg_trgm)');
  }
  return warnings;
}

/** Everything that is dangerous, the worst first; what is plainly wrong is not here, but in the differences. */
export const warningsOf = (circumstances: Circumstances): Warning[] => [
  ...aboutDatabase(circumstances),
  ...aboutAccess(circumstances),
  ...aboutSpeed(circumstances),
];
