import assert from 'node:assert/strict';
import {
  createVitrine,
  StartError,
  type ColumnDefinition,
  type Resource,
  type VitrineOptions,
} from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import {
  startService,
  type Answer,
  type Sql,
  type TestDatabase,
  type TestService,
  useStarted,
} from '../support.ts';

/** The user model that every registry with a writable resource needs. */
export const users: Resource = user;

type Settings = Partial<Omit<VitrineOptions, 'resources'>>;

export interface WritableService extends TestService {
  /** Sends a request as `ada`. A string body is sent as it is. */
  readonly send: (
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) => Promise<Answer>;
  /** The key of `ada`. */
  readonly ada: number;
}

/** Starts a service with these resources, a user model and the admin `ada`. `ddl` runs before the start: SQL, or a function. */
export async function startWith(
  resources: readonly Resource[],
  ddl?: string | ((sql: Sql) => Promise<unknown>),
  settings: Settings & { parameters?: Record<string, string> } = {},
): Promise<WritableService> {
  const prepare = (sql: Sql): Promise<unknown> | undefined =>
    typeof ddl === 'string' ? sql.unsafe(ddl) : ddl?.(sql);
  const service = await startService([users, ...resources], { ...settings, prepare });
  const ada = await service.addUser('ada', { admin: true });
  const send: WritableService['send'] = (method, path, body, headers = {}) =>
    service.request(path, {
      method,
      user: 'ada',
      headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  return { ...service, send, ada };
}

/** Such a service for the tests of this block. It has its members only while they run. */
export const useWritable = (
  resources: readonly Resource[],
  ddl?: Parameters<typeof startWith>[1],
  fill?: () => unknown,
  settings?: Parameters<typeof startWith>[2],
): WritableService => useStarted(() => startWith(resources, ddl, settings), fill);

/** Starts a service on an existing database, and closes it. */
export async function startOnce(
  { url }: Pick<TestDatabase, 'url'>,
  resources: readonly Resource[],
  settings: Settings = {},
): Promise<void> {
  const vitrine = await createVitrine({ databaseUrl: url, resources, log: () => undefined, ...settings });
  await vitrine.close();
}

/** Starts a service, which must fail. Gives the lines of the error message after the first, without the hint at `schema --diff`. */
export async function startFaults(
  database: Pick<TestDatabase, 'url'>,
  resources: readonly Resource[],
  settings: Settings = {},
): Promise<string[]> {
  let message: string | undefined;
  try {
    await startOnce(database, resources, settings);
  } catch (error) {
    assert.ok(error instanceof StartError, `a StartError, and not ${String(error)}`);
    message = error.message;
  }
  assert.ok(message !== undefined, 'the start must be refused');
  return message
    .split('\n')
    .slice(1)
    .filter((line) => !line.startsWith('Change the registry, or the database: '));
}

/** Every row of a table. `xmin` and `ctid` show whether PostgreSQL has rewritten it. */
export async function rowsOf(sql: Sql, table: string): Promise<string[]> {
  const rows = await sql.unsafe(`select t::text as all, xmin::text, ctid::text from ${table} t order by 1`);
  return rows.map((row) => `${row['all']} ${row['xmin']} ${row['ctid']}`);
}

/** Sends a record back byte for byte, and checks that nothing changes. */
export async function assertRoundTrip(service: WritableService, path: string, table: string): Promise<void> {
  const read = await service.request(path);
  assert.equal(read.status, 200, read.text);
  const before = await rowsOf(service.sql, table);
  const written = await service.send('PUT', path, read.text);
  assert.equal(written.status, 200, `PUT of ${read.text} answers ${written.text}`);
  assert.equal(written.text, read.text);
  assert.deepEqual(await rowsOf(service.sql, table), before);
  assert.equal(written.headers.get('etag'), read.headers.get('etag'));
  const again = await service.request(path, { headers: { 'if-none-match': read.headers.get('etag') ?? '' } });
  assert.equal(again.status, 304);
}

/** Quotes a value for the list of an `in` filter. */
const csv = (text: string): string => (/[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Filters by a value as the output shows it (its JSON), and checks that only records with this value are found. */
export async function assertFindable(
  service: TestService,
  model: string,
  column: string,
  id: number | string,
  shown: string,
  type: ColumnDefinition['type'],
): Promise<void> {
  const parsed: unknown = JSON.parse(shown);
  // The value of a json column is JSON in a filter too, so that "1" and 1 differ.
  const value = typeof parsed === 'string' && type !== 'json' ? parsed : shown;
  const filters = [
    [[column, value]],
    [[`${column}__eq`, value]],
    // A list needs a value, so an empty string is quoted.
    [[`${column}__in`, value === '' ? '""' : csv(value)]],
    ...(type !== 'json' && type !== 'boolean'
      ? [
          [
            [`${column}__gte`, value],
            [`${column}__lte`, value],
          ],
        ]
      : []),
  ] as [string, string][][];
  for (const filter of filters) {
    const query = new URLSearchParams(filter).toString();
    const { status, json, text } = await service.request(`/api/${model}/?${query}`);
    assert.equal(status, 200, `${query}: ${text}`);
    const found = json.objects as Record<string, unknown>[];
    assert.ok(
      found.some((record) => record['id'] === id),
      `${query} must find record ${id}: ${text}`,
    );
    for (const record of found) assert.deepEqual(record[column], parsed, query);
  }
}
