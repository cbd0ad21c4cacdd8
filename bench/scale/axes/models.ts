// Cost, start and memory by the number of models.
import { get, numbers, writing, type Request, type Row } from '../../rows.ts';
import type { Server } from '../../servers.ts';
import { median, whole } from '../../tables.ts';
import type { Axis, Line, Point } from '../axis.ts';
import type { Stage } from '../stage.ts';
import { createUsers, USER, WRITERS } from './resources.ts';

const COUNTS = [1, 10, 100, 1000];
const SHORT_COUNTS = [1, 10];
const RECORDS = 100;
const STARTS = 3;
/** Long enough for the garbage of the start to be collected. */
const IDLE = 3000;

const nameOf = (n: number): string => `model_${n}`;

const modelOf = (n: number): object => ({
  model: nameOf(n),
  columns: {
    name: { type: 'string' },
    number: { type: 'integer', index: true },
    note: { type: 'text' },
    created: { type: 'datetime', default: 'now' },
  },
  access: 'user',
});

/** Random models and records. */
function paths(connection: number, count: number, pathOf: (model: string, id: number) => string): string[] {
  const ids = numbers(connection + 1000, RECORDS);
  return numbers(connection, count).map((n, index) => pathOf(nameOf(n), ids[index] ?? 1));
}

const requestsOf = (count: number): readonly Row[] => {
  const record = (model: string, id: number): string => `/api/${model}/${id}/`;
  const collection = (model: string): string => `/api/${model}/`;
  const written = (connection: number, method: 'POST' | 'PUT', path: string, n: number): Request =>
    writing(method, connection % WRITERS, path, {
      name: `Written ${n} over ${connection}`,
      number: n,
      note: 'a note',
    });
  return [
    { name: 'by id', status: 200, requests: (c) => paths(c, count, record).map((path) => get(path)) },
    {
      name: 'first page',
      status: 200,
      requests: (c) => paths(c, count, collection).map((path) => get(path)),
    },
    {
      name: 'POST',
      status: 201,
      requests: (c) => paths(c, count, collection).map((path, n) => written(c, 'POST', path, n)),
    },
    {
      name: 'PUT',
      status: 200,
      requests: (c) => paths(c, count, record).map((path, n) => written(c, 'PUT', path, n)),
    },
  ];
};

interface Sizes {
  readonly count: number;
  readonly firstStart: number;
  readonly start: number;
  readonly idle: number;
  readonly loaded: number;
  readonly sessions: number;
}

async function measureCount(stage: Stage, count: number): Promise<{ points: Point[]; sizes: Sizes }> {
  const registry = await stage.writeRegistry([
    USER,
    ...Array.from({ length: count }, (_, index) => modelOf(index + 1)),
  ]);
  const environment = { RESOURCES: registry };
  return stage.withDatabase(async (database) => {
    const startOf = (): Promise<number> =>
      stage.withServer(database, environment, ({ start }: Server) => Promise.resolve(start));
    const firstStart = await startOf();
    await createUsers(database, registry);
    await database.query(`do $$ begin for n in 1..${count} loop
        execute format('insert into %I (name, number, note) select ''Name '' || n, n, ''a note'' from generate_series(1, ${RECORDS}) n', 'model_' || n);
      end loop; end $$`);
    await database.query('vacuum (analyze)');
    const starts: number[] = [];
    for (let index = 0; index < STARTS; index += 1) starts.push(await startOf());
    return stage.withServer(database, environment, async (server) => {
      await new Promise((done) => setTimeout(done, IDLE));
      const idle = await server.memory();
      const points = await stage.measureAll(database, server, count, requestsOf(count));
      const sizes = {
        count,
        firstStart,
        start: median(starts),
        idle,
        loaded: await server.memory(),
        sessions: await database.memory(),
      };
      return { points, sizes };
    });
  });
}

export const models: Axis = {
  name: 'models',
  title: 'Models',
  unit: 'models',
  text: `A generated registry: the users, and models with 4 columns and ${RECORDS} records each. 16 connections go to random models, and write with
credentials and history. "first start" creates the tables; "start" finds them (median of ${STARTS}). "idle MB" is the resident memory of the service after
the start, "MB after the load" the same after all requests. "sessions MB" is the private memory of PostgreSQL's sessions then, most of it prepared statements.`,
  async run(stage) {
    const points: Point[] = [];
    const sizes: Sizes[] = [];
    for (const count of stage.isShort ? SHORT_COUNTS : COUNTS) {
      const measured = await measureCount(stage, count);
      points.push(...measured.points);
      sizes.push(measured.sizes);
    }
    const line = (name: string, key: Exclude<keyof Sizes, 'count'>): Line => ({
      name,
      points: sizes.map((one) => [one.count, one[key]]),
    });
    const head = ['models', 'first start ms', 'start ms', 'idle MB', 'MB after the load', 'sessions MB'];
    const body = sizes.map((one) =>
      [one.count, one.firstStart, one.start, one.idle, one.loaded, one.sessions].map(whole),
    );
    const lines = [
      line('first start, ms', 'firstStart'),
      line('start, ms', 'start'),
      line('idle, MB', 'idle'),
      line('after the load, MB', 'loaded'),
    ];
    const plot = { name: 'start', title: 'Start and memory', xLabel: 'models', lines };
    return { points, facts: { head, body }, plots: [plot] };
  },
};
