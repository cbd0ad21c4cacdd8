import { hash } from '@node-rs/argon2';
import { delimiter, join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createVitrine, type Resource, type Vitrine, type VitrineOptions } from '../src/index.ts';
import shipped from '../src/resources/registry.ts';
import { CURRENT_COSTS } from '../src/resources/users/password-hashing.ts';
import { REPOSITORY } from './paths.ts';
import { closeIdleConnections, send } from './send.ts';
import { createDatabase, type Sql, type TestDatabase } from './server.ts';

export { createDatabase, MAJOR_VERSION, serverUrl, type Sql, type TestDatabase } from './server.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; undefined where it is no JSON. */
  readonly json: any; // eslint-disable-line @typescript-eslint/no-explicit-any -- whatever the service answers
}

export interface RequestOptions {
  readonly method?: string;
  readonly user?: string;
  readonly headers?: Record<string, string>;
  /** An object is sent as JSON, a text as it is. */
  readonly body?: unknown;
}

export interface TestService extends TestDatabase {
  readonly base: string;
  readonly lines: Record<string, unknown>[];
  readonly request: (path: string, options?: RequestOptions) => Promise<Answer>;
  /** The metrics, from their own port. */
  readonly metrics: () => Promise<string>;
  /** Adds a user whose password is `pw-` and the name. Gives the key. */
  readonly addUser: (name: string, columns?: Record<string, unknown>) => Promise<number>;
  readonly close: () => Promise<void>;
}

export const basic = (name: string, password = `pw-${name}`): string =>
  `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;

/** A request to a base address; `user` sends that user's credentials. */
export async function request(base: string, path: string, options: RequestOptions = {}): Promise<Answer> {
  const { method = 'GET', user, headers = {}, body } = options;
  const isText =
    typeof body === 'string' || body === undefined || body instanceof FormData || body instanceof Uint8Array;
  const {
    status,
    headers: received,
    text,
  } = await send(`${base}${path}`, {
    method,
    headers: {
      ...(user === undefined ? {} : { authorization: basic(user) }),
      ...(isText ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: isText ? body : JSON.stringify(body),
  });
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status, headers: received, text, json };
}

export type Send = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<Answer>;

/** Sends requests as a user, or as an anonymous client. */
export const sendAs =
  (service: Pick<TestService, 'request'>, user?: string): Send =>
  (method, path, body, headers = {}) =>
    service.request(path, { method, body, headers, ...(user !== undefined && { user }) });

/** The pages from a path on, which their links lead to. */
export async function pagesFrom(
  service: Pick<TestService, 'request'>,
  path: string,
  headers: Record<string, string> = { prefer: 'paging=cursor' },
): Promise<Answer['json'][]> {
  const pages: Answer['json'][] = [];
  for (let next = path; next !== '';) {
    const { status, json, text } = await service.request(next, { headers });
    if (status !== 200 || pages.length > 200) throw new Error(`page ${pages.length}, ${next}: ${text}`);
    pages.push(json);
    next = json.meta.next;
  }
  return pages;
}

/** This member of each element. */
export const pluck = (list: readonly object[], key: string): unknown[] =>
  list.map((one) => (one as Record<string, unknown>)[key]);

/** Waits up to a minute, or longer, for a condition, such as a log line that is written with a delay. */
export async function eventually<T>(
  condition: () => T | Promise<T>,
  label: string,
  seconds = 60,
): Promise<NonNullable<T>> {
  // Counts instead of looking at a clock, because tests replace clocks.
  for (let tries = 0; tries < seconds * 100; tries += 1) {
    const found = await condition();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`timeout: ${label}`);
}

/** How many statements of the service wait for a lock. */
export const waitingForLocks = async ({ sql }: Pick<TestDatabase, 'sql'>): Promise<number> => {
  const waiting = await sql`
    select from pg_stat_activity
    where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
  return waiting.count;
};

/** Waits until a statement of the service waits for a lock. */
export const lockedOut = (database: Pick<TestDatabase, 'sql'>, count = 1): Promise<unknown> =>
  eventually(async () => (await waitingForLocks(database)) >= count, 'a statement that waits for a lock');

/** Starts some work, and waits until the service has run a statement that contains this text. */
export async function untilRun(
  { sql }: Pick<TestDatabase, 'sql'>,
  text: string,
  work: () => unknown,
): Promise<void> {
  const [row] = await sql<{ now: string }[]>`select clock_timestamp()::text as now`;
  work();
  await eventually(async () => {
    const done = await sql`
      select from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' and state = 'idle'
        and query_start > ${row?.now ?? ''}::timestamptz and position(${text} in query) > 0`;
    return done.count > 0;
  }, `a statement with ${text}`);
}

export const REAL_COSTS = { ...CURRENT_COSTS };
export const CHEAP_COSTS = { memoryCost: 8, timeCost: 1, parallelism: 1 };

/** Sets what new hashes of this process cost. Tests log in so often that it is next to nothing, unless they are about hashing. */
export const hashAt = (costs: object): void => void Object.assign(CURRENT_COSTS, costs);
hashAt(CHEAP_COSTS);

/** A hash that costs next to nothing, so that tests with many users are quick. */
export const cheapHash = (password: string): Promise<string> => hash(password, CHEAP_COSTS);

/** The address of the metrics, which the start logs. */
export async function metricsAddress(lines: readonly Record<string, unknown>[]): Promise<string> {
  for (let tries = 0; tries < 1000; tries += 1) {
    for (const { message } of lines) {
      const [, address] = /^metrics at (.*)$/.exec(String(message)) ?? [];
      if (address !== undefined) return address;
    }
    await sleep(5);
  }
  throw new Error('The service has not logged the address of its metrics.');
}

/** Starts the real service with a database and a port of its own; without resources, the shipped registry. */
export async function startService(
  resources: readonly Resource[] = shipped,
  options: Partial<Omit<VitrineOptions, 'resources'>> & {
    prepare?: (sql: Sql) => Promise<unknown> | undefined;
    /** Parameters of the service's database address. */
    parameters?: Record<string, string>;
  } = {},
): Promise<TestService> {
  const { prepare, parameters = {}, ...settings } = options;
  const database = await createDatabase();
  const lines: Record<string, unknown>[] = [];
  const log = (text: string): void => {
    for (const line of text.trimEnd().split('\n')) lines.push(JSON.parse(line) as Record<string, unknown>);
  };
  const databaseUrl = new URL(database.url);
  for (const [name, value] of Object.entries(parameters)) databaseUrl.searchParams.set(name, value);
  const create = async (): Promise<Vitrine> => {
    await prepare?.(database.sql);
    return createVitrine({
      databaseUrl: databaseUrl.href,
      resources,
      port: 0,
      metrics: '127.0.0.1:0',
      log,
      slowTimeout: 10, // a busy machine may be slow
      ...settings,
    });
  };
  const vitrine = await create().catch(async (error: unknown) => {
    await database.drop();
    throw error;
  });
  const { url: base } = await vitrine.start();
  return {
    ...database,
    base,
    lines,
    request: (path, requestOptions) => request(base, path, requestOptions),
    metrics: async () => (await request(await metricsAddress(lines), '')).text,
    addUser: async (username, columns = {}) => {
      const row = {
        username,
        password: await cheapHash(`pw-${username}`),
        email: `${username}@example.org`,
        ...columns,
      };
      const [added] = await database.sql<
        { id: number }[]
      >`insert into "user" ${database.sql(row)} returning id`;
      return added?.id ?? 0;
    },
    close: async () => {
      closeIdleConnections(base); // the service would wait for further requests
      await vitrine.close();
      await database.drop();
    },
  };
}

/** What is started before the tests of this block, and closed after them. It has its members only then. */
export function useStarted<T extends { close: () => unknown } | { drop: () => unknown }>(
  start: () => Promise<T>,
  fill?: () => unknown,
): T {
  const started = {} as T;
  before(async () => {
    Object.assign(started, await start());
    await fill?.();
  });
  after(() => ('close' in started ? started.close() : started.drop()));
  return started;
}

/** A service for the tests of this block. */
export const useService = (
  resources?: Parameters<typeof startService>[0],
  options?: Parameters<typeof startService>[1],
  fill?: () => unknown,
): TestService => useStarted(() => startService(resources, options), fill);

/** Starts a service on an existing database, or with another address of it. It logs nothing. */
export async function startBeside(
  databaseUrl: string,
  resources: readonly Resource[],
  options: Partial<VitrineOptions> = {},
): Promise<Pick<TestService, 'base' | 'request' | 'close'>> {
  const vitrine = await createVitrine({
    databaseUrl,
    resources,
    port: 0,
    log: () => undefined,
    ...options,
  });
  const { url: base } = await vitrine.start();
  const close = async (): Promise<void> => {
    closeIdleConnections(base);
    await vitrine.close();
  };
  return { base, request: (path, requestOptions) => request(base, path, requestOptions), close };
}

/** The address of a database for another role. */
export function addressOf({ url }: Pick<TestDatabase, 'url'>, role: string): string {
  const address = new URL(url);
  [address.username, address.password] = [role, 'x'];
  return address.href;
}

/** Closes a service, or drops a database, after the test. */
export function closedAfter<T extends { close: () => unknown } | { drop: () => unknown }>(
  t: TestContext,
  one: T,
): T {
  t.after(() => ('close' in one ? one.close() : one.drop()));
  return one;
}

/** A database with this schema for the tests of this block. */
export const useDatabase = (schema = '', fill?: () => unknown): TestDatabase =>
  useStarted(async () => {
    const database = await createDatabase();
    await database.sql.unsafe(schema).simple();
    return database;
  }, fill);

/** The PATH for commands of the documentation: at its end stands a small curl for machines that have none. */
export const commandPath = (): string => [process.env['PATH'], join(REPOSITORY, 'test/bin')].join(delimiter);
