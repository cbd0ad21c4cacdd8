// Tries one schema: loads, introspects, checks, serves, browses and fills it.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser } from 'playwright-core';
import postgres, { type Sql } from 'postgres';
import type { Resource } from '../../src/resources/definition/resource.ts';
import { withProposedKeys } from '../commands/introspected.ts';
import { browse, read } from './browse.ts';
import { openAdmin, openApi } from './doors.ts';
import { accepts, fill, mayAdd, type Filled } from './fill.ts';
import { BY_HAND, SETUP } from './by-hand.ts';
import { createService, runCommand, type Ended, type Service, type Settings } from '../../bench/service.ts';
import { load, unpack, type Source } from './sources.ts';
import { inOrder, readSchema, USER } from './values.ts';
import { LOGIN_TEXT } from '../login-columns.ts';

export interface Trial {
  readonly name: string;
  readonly packages: string;
  /** Statements of the schema that PostgreSQL refused. */
  readonly failed: number;
  readonly tables: number;
  readonly views: number;
  readonly servedTables: number;
  readonly servedViews: number;
  /** Tables and views that are served without a key. */
  readonly keyless: number;
  /** Why tables are not served, one sentence each. */
  readonly notes: readonly string[];
  /** Tables that the API, and the admin area, can add records to. */
  readonly writable: { readonly api: number; readonly admin: number };
  readonly api: Filled;
  readonly admin: Filled;
  readonly pages: number;
  readonly faults: readonly string[];
}

const ENVIRONMENT = { SCHEMA: 'check', LOG_LEVEL: 'error' };
const command = (words: readonly string[], settings: Settings, input?: string): Promise<Ended> =>
  runCommand(words, { ...ENVIRONMENT, ...settings }, input);

async function startService(settings: Settings): Promise<Service> {
  const databaseUrl = settings['DATABASE_URL'] ?? '';
  const service = await createService({ databaseUrl, settings: { ...ENVIRONMENT, ...settings } });
  await service.start();
  return service;
}

/** The users of the admin area. No schema has a table of this name. */
const LOGIN = `{
  model: 'bench_login',
  columns: ${LOGIN_TEXT},
  read: 'admin', access: 'admin', exclude: ['password'],
}`;

async function loadRegistryFile(file: string): Promise<Resource[]> {
  const module = (await import(pathToFileURL(file).href)) as { default: Resource[] };
  return module.default;
}

/** The number of tables and views, without partitions. */
async function countRelations(sql: Sql): Promise<{ tables: number; views: number }> {
  const [row] = await sql<{ tables: number; views: number }[]>`
    select count(*) filter (where relkind in ('r', 'p'))::int as tables,
      count(*) filter (where relkind in ('v', 'm'))::int as views
    from pg_class where relnamespace = 'public'::regnamespace and not relispartition`;
  return row ?? { tables: 0, views: 0 };
}

export interface Workshop {
  readonly directory: string;
  /** Creates an empty database. */
  readonly createDatabase: (name: string) => Promise<string>;
  readonly chromium: Browser;
  readonly say: (text: string) => void;
}

export async function tryOut(source: Source, workshop: Workshop): Promise<Trial> {
  const { directory, chromium } = workshop;
  const { name } = source;
  const say = (text: string): void => workshop.say(`${name}: ${text}`);
  const url = await workshop.createDatabase(name);
  const packages = await unpack(source, directory);
  const failed = await load(source, directory, url);
  const sql = postgres(url, { max: 1, onnotice: () => undefined });
  try {
    await sql.unsafe(SETUP[name] ?? '');
    const faults: string[] = [];
    const settings = { DATABASE_URL: url, RESOURCES: join(directory, `${name}.mjs`) };
    const printed = await command(['introspect'], settings);
    if (printed.code !== 0) throw new Error(`introspect: ${printed.stderr}`);
    await writeFile(settings.RESOURCES, printed.stdout);
    const { tables, views } = await countRelations(sql);
    const resources = await loadRegistryFile(settings.RESOURCES);
    const isView = await viewsOf(sql);
    say(`${resources.length} of ${tables + views} served`);
    faults.push(...(await serveToAll(settings, printed.stdout, join(directory, `${name}-views.mjs`))));
    const users = await addUsers(settings, join(directory, `${name}-users.mjs`), sql);
    // PostgreSQL can write to some views, but a registry says so explicitly.
    const writable = resources.map((one) => (isView(one) ? { ...one, methods: ['GET'] as const } : one));
    const filled = await writeAll(users, writable, { sql, name, chromium, say });
    return {
      name,
      packages,
      failed,
      tables,
      views,
      servedTables: resources.filter((one) => !isView(one)).length,
      servedViews: resources.filter(isView).length,
      keyless: resources.filter(({ primaryKey }) => primaryKey === false).length,
      notes: [...printed.stdout.matchAll(/^\/\/ (.* is not served: .*)$/gm)].map(([, note = '']) => note),
      writable: {
        api: resources.filter((one) => accepts(one, 'POST') && !isView(one)).length,
        admin: resources.filter((one) => mayAdd(one) && !isView(one)).length,
      },
      ...filled,
      faults: [...faults, ...filled.faults],
    };
  } finally {
    await sql.end();
  }
}

async function viewsOf(sql: Sql): Promise<(resource: Resource) => boolean> {
  const rows = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('v', 'm')`;
  const names = new Set(rows.map(({ name }) => name));
  return ({ model, table = model }) => names.has(table);
}

/** Serves what was printed to everyone, with the keys that its comments propose. @returns what failed */
async function serveToAll(settings: Settings, text: string, file: string): Promise<string[]> {
  const faults: string[] = [];
  const check = await command(['check'], settings);
  if (check.code !== 0) faults.push(`check: ${check.stderr}`);
  let resources = (await withProposedKeys(text)) as Resource[];
  await writeFile(file, `export default ${JSON.stringify(resources)};\n`);
  const all = { ...settings, RESOURCES: file };
  const checked = await command(['check'], all);
  // The likely key of a view may be wrong.
  const wrong = [...checked.stderr.matchAll(/^ {2}- (\w+): primaryKey: .+ is (?:not unique|NULL)/gm)].map(
    ([, one]) => one,
  );
  if (wrong.length > 0) {
    resources = resources.filter(({ model }) => !wrong.includes(model));
    await writeFile(file, `export default ${JSON.stringify(resources)};\n`);
  }
  const again = wrong.length > 0 ? await command(['check'], all) : checked;
  if (again.code !== 0) return [...faults, `check with all views: ${again.stderr.slice(0, 1000)}`];
  const service = await startService(all);
  try {
    faults.push(...(await read(service.base, resources)));
    if (service.errors() !== '') faults.push(`the service logged ${service.errors().slice(0, 1000)}`);
  } finally {
    await service.stop();
  }
  return faults;
}

/** Adds a user model to the registry, its tables to the database, and an admin. */
async function addUsers(settings: Settings, file: string, sql: Sql): Promise<Settings> {
  const tables = JSON.stringify(pathToFileURL(settings['RESOURCES'] ?? '').href);
  const shown = "tables.map((one) => ({ ...one, databaseErrors: 'shown' }))";
  await writeFile(file, `import tables from ${tables};\nexport default [${LOGIN}, ...${shown}];\n`);
  const users = { ...settings, RESOURCES: file, USER_MODEL: 'bench_login', ACCESS: 'admin' };
  const steps = [await command(['schema', '--diff'], users)];
  await sql.unsafe(steps[0]?.stdout ?? '');
  steps.push(await command(['user', 'add', USER.name, '--admin'], users, `${USER.password}\n`));
  steps.push(await command(['check'], users));
  for (const { code, stderr } of steps) if (code !== 0) throw new Error(stderr);
  return users;
}

/** Lets sequences go on after the rows of the schema, which often set their keys themselves. */
async function advanceSequences(sql: Sql): Promise<void> {
  const columns = await sql<{ table: string; field: string; sequence: string }[]>`
    select quote_ident(c.relname) as table, quote_ident(a.attname) as field, s.oid::regclass::text as sequence
    from pg_attrdef d join pg_depend p on p.objid = d.oid and p.classid = 'pg_attrdef'::regclass
    join pg_class s on s.oid = p.refobjid and s.relkind = 'S'
    join pg_class c on c.oid = d.adrelid join pg_attribute a on a.attrelid = c.oid and a.attnum = d.adnum
    where c.relnamespace = 'public'::regnamespace`;
  for (const { table, field, sequence } of columns)
    await sql.unsafe(
      `select setval('${sequence}', m) from (select max(${field})::bigint m from ${table}) x where m > 0`,
    );
}

interface Writing {
  readonly sql: Sql;
  readonly name: string;
  readonly chromium: Browser;
  readonly say: (text: string) => void;
}

/** Fills the tables through the API and the admin area, and browses them while they have records. */
async function writeAll(
  settings: Settings,
  resources: readonly Resource[],
  { sql, name, chromium, say }: Writing,
): Promise<Pick<Trial, 'api' | 'admin' | 'pages' | 'faults'>> {
  const service = await startService(settings);
  try {
    const stored = await readSchema(sql);
    await advanceSequences(sql);
    const common = { sql, resources: inOrder(resources, stored), stored, byHand: BY_HAND[name] ?? {} };
    const door = openApi(service.base);
    const finish = await fill({ ...common, door });
    const { pages, faults: found } = await browse(chromium, service.base, resources);
    let faults = found;
    say(`${pages} pages`);
    const api = await finish();
    const admin = await (await fill({ ...common, door: await openAdmin(service.base), other: door }))();
    const errors = [...api.refused, ...admin.refused].filter(({ status }) => status >= 500).length;
    const lines = service.errors().split('\n').filter(Boolean);
    // An answer of 500 has a line.
    if (lines.length > errors) faults = [...faults, `the service logged ${lines.join('\n').slice(0, 3000)}`];
    return { api, admin, pages, faults };
  } finally {
    await service.stop();
  }
}
