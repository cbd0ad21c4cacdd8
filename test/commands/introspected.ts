// Prints the registry of a database, and serves it as it is printed.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { REPOSITORY, temporaryFolder, type Ended } from '../process/support.ts';
import { createDatabase, request, startService, type TestDatabase, type TestService } from '../support.ts';
import { run, serve } from './support.ts';

interface Column {
  readonly type: string;
  readonly [key: string]: unknown;
}
export interface Printed {
  readonly model: string;
  readonly table?: string;
  readonly primaryKey?: unknown;
  readonly columns: Readonly<Record<string, Column>>;
  readonly readonly?: readonly string[];
  readonly exclude?: readonly string[];
  readonly read?: string;
  readonly identity?: boolean;
}

/** Prints the registry of a database, and keeps it in a file. */
export async function introspect(
  { url }: TestDatabase,
  ...words: string[]
): Promise<Ended & { file: string; resources: Map<string, Printed> }> {
  const ended = await run(['introspect', ...words], { env: { DATABASE_URL: url } });
  assert.equal(ended.code, 0, ended.stderr);
  const file = join(await temporaryFolder(), 'resources.mjs');
  writeFileSync(file, ended.stdout);
  const module = (await import(pathToFileURL(file).href)) as { default: Printed[] };
  return { ...ended, file, resources: new Map(module.default.map((one) => [one.model, one])) };
}

/** Gives resources without a key the one that their comment proposes. Its columns lose `null: true`. */
export async function withProposedKeys(text: string): Promise<Printed[]> {
  const file = join(await temporaryFolder(), 'proposed.mjs');
  writeFileSync(file, text.replaceAll(/^ {4}\/\/ (primaryKey: .*)\n {4}primaryKey: false,$/gm, '    $1'));
  const { default: resources } = (await import(pathToFileURL(file).href)) as { default: Printed[] };
  return resources.map((one) => {
    const { columns: parts = [] } = (one.primaryKey ?? {}) as { columns?: readonly string[] };
    const columns = Object.entries(one.columns).map(([name, { null: isNullable, ...column }]) => [
      name,
      isNullable === undefined || parts.includes(name) ? column : { ...column, null: isNullable },
    ]);
    return { ...one, columns: Object.fromEntries(columns) as Printed['columns'] };
  });
}

/** Starts the service on a printed file, as it is, and reads every resource. */
export async function readAll(
  { url }: TestDatabase,
  file: string,
  names: Iterable<string>,
): Promise<Map<string, unknown[]>> {
  const service = await serve(url, file);
  const objects = new Map<string, unknown[]>();
  for (const name of names) {
    const { status, json, text } = await request(service.base, `/api/${name}/`);
    assert.equal(status, 200, `${name}: ${text}`);
    objects.set(name, json.objects);
    for (const { id } of json.objects as { id?: string | number }[]) {
      if (id === undefined) continue;
      const one = await request(service.base, `/api/${name}/${encodeURIComponent(id)}/`);
      assert.equal(one.status, 200, `${name}/${id}: ${one.text}`);
    }
    const { status: added } = await request(service.base, `/api/${name}/`, { method: 'POST', body: {} });
    assert.equal(added, 401, `nobody may write ${name}`);
  }
  await service.stop();
  return objects;
}

/** Prints the registry of a schema, and starts a service with it that users may write. */
export async function serveIntrospected(
  schema: string,
): Promise<{ text: string; resources: Resource[]; service: TestService }> {
  const database = await createDatabase();
  await database.sql.unsafe(schema).simple();
  const printed = await introspect(database);
  await database.drop();
  const resources = [...printed.resources.values()] as Resource[];
  const service = await startService(
    [user, ...resources.map((one) => ({ ...one, access: 'user' as const }))],
    {
      prepare: (sql) => sql.unsafe(schema).simple(),
    },
  );
  await service.addUser('ada', { admin: true });
  return { text: printed.stdout, resources, service };
}

export const sqlOf = (name: string): string =>
  readFileSync(join(REPOSITORY, `test/commands/schemas/${name}.sql`), 'utf8');
