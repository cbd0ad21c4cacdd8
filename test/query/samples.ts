// Resources and rows for tests of reads: columns of each type, and foreign keys with each read level.
import { request as httpRequest, type Agent } from 'node:http';
import type { ColumnDefinition } from '../../src/index.ts';
import type { Resource } from '../../src/index.ts';
import { startService, type Answer, type Sql, type TestService } from '../support.ts';
import { LOGIN_COLUMNS } from '../login-columns.ts';

export const scalars = (nullable: boolean) =>
  ({
    string: { type: 'string', null: nullable },
    text: { type: 'text', null: nullable },
    integer: { type: 'integer', null: nullable },
    bigint: { type: 'bigint', null: nullable },
    float: { type: 'float', null: nullable },
    decimal: { type: 'decimal', precision: 12, scale: 4, null: nullable },
    boolean: { type: 'boolean', null: nullable },
    datetime: { type: 'datetime', null: nullable },
    date: { type: 'date', null: nullable },
    time: { type: 'time', null: nullable },
    uuid: { type: 'uuid', null: nullable },
    json: { type: 'json', null: nullable },
    password: { type: 'password', null: nullable },
  }) as const satisfies Record<string, ColumnDefinition>;

const to = (references: string) => ({ type: 'foreignKey', references, null: true }) as const;

export const samples = [
  {
    model: 'user',
    columns: { ...LOGIN_COLUMNS, email: { type: 'string' } },
    exclude: ['password', 'email'],
  },
  {
    model: 'thing',
    columns: {
      ...scalars(true),
      box: to('box'),
      spare: to('box'),
      vault: to('vault'),
      safe: to('safe'),
      well: to('well'),
      secret: { type: 'text', null: true },
      hidden: to('box'),
    },
    exclude: ['secret', 'hidden'],
  },
  { model: 'solid', columns: scalars(false) },
  {
    model: 'box',
    columns: {
      name: { type: 'string' },
      // Named like operators.
      in: { type: 'integer', null: true },
      like: { type: 'string', null: true },
      secret: { type: 'text', null: true },
      owner: to('user'),
    },
    exclude: ['secret'],
  },
  { model: 'node', columns: { name: { type: 'string' }, parent: to('node') } },
  { model: 'vault', columns: { name: { type: 'string' }, box: to('box') }, read: 'user', access: 'user' },
  { model: 'safe', columns: { name: { type: 'string' } }, read: 'admin', access: 'admin' },
  { model: 'well', columns: { name: { type: 'string' } }, methods: ['POST'], access: 'user' },
  {
    model: 'shelf',
    columns: { name: { type: 'string' }, rank: { type: 'integer', null: true } },
    limit: 3,
    maxLimit: 5,
    ordering: '-rank,name',
  },
] as const satisfies readonly Resource[];

export const TYPES = Object.keys(scalars(true));

export const uuid = (digit: string): string => `${digit.repeat(8)}-0000-4000-8000-${digit.repeat(12)}`;

/** The rows of `thing` and `solid`. `thing` has one more row, with only NULLs. */
const values = [
  {
    string: 'apple',
    text: 'red, as apples are',
    integer: 1,
    bigint: '9007199254740993',
    float: 1.5,
    decimal: '10.5',
    boolean: true,
    datetime: '2024-01-31 10:00:00',
    date: '2024-01-31',
    time: '10:00:00',
    uuid: uuid('1'),
    json: { a: [1, 2] },
    password: 'hash one',
  },
  {
    string: 'Banana',
    text: '50% off_now',
    integer: -2,
    bigint: '-5',
    float: -0.25,
    decimal: '-3.25',
    boolean: false,
    datetime: '2024-02-29 23:59:59',
    date: '2024-02-29',
    time: '23:59:59',
    uuid: uuid('2'),
    json: 'text',
    password: 'hash two',
  },
  {
    string: 'a,b "c"',
    text: 'back\\slash',
    integer: 2147483647,
    bigint: '9223372036854775807',
    float: 1e300,
    decimal: '99999999.9999',
    boolean: true,
    datetime: '1999-12-31 00:00:00',
    date: '1999-12-31',
    time: '00:00:00',
    uuid: uuid('a'),
    json: [null, 0.5],
    password: 'hash three',
  },
];

/** Inserts rows, which PostgreSQL reads from JSON. Columns that a row leaves out are NULL. */
export async function insert(sql: Sql, table: string, rows: readonly object[]): Promise<void> {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].map((name) => `"${name}"`).join(', ');
  await sql.unsafe(
    `insert into "${table}" (${columns}) select ${columns} from json_populate_recordset(null::public."${table}", $1::text::json)`,
    [JSON.stringify(rows)],
  );
}

async function fill(sql: Sql): Promise<void> {
  await insert(sql, 'box', [
    { id: 1, name: 'oak', in: 7, like: 'x', secret: 's1' },
    { id: 2, name: 'pine', in: 8, secret: 's2' },
    { id: 3, name: 'elm', like: 'y' },
  ]);
  await insert(sql, 'vault', [
    { id: 1, name: 'deep', box_id: 2 },
    { id: 2, name: 'low' },
  ]);
  await insert(sql, 'safe', [{ id: 1, name: 'iron' }]);
  await insert(sql, 'well', [{ id: 1, name: 'dry' }]);
  await insert(sql, 'solid', values);
  const links = [
    { box_id: 1, spare_id: 2, vault_id: 1, safe_id: 1, well_id: 1, secret: 'sesame', hidden_id: 3 },
    { box_id: 2, spare_id: 2, vault_id: 2 },
    { box_id: 3, spare_id: 1 },
  ];
  await insert(sql, 'thing', [
    ...values.map((row, index) => ({ ...row, ...links[index] })),
    { box_id: null },
  ]);
  const names = ['root', 'trunk', 'branch', 'twig', 'leaf', 'dew'];
  await insert(
    sql,
    'node',
    names.map((name, index) => ({ id: index + 1, name, parent_id: index || null })),
  );
  const ranks = [3, 1, null, 2, 3, null, 1, 2];
  await insert(
    sql,
    'shelf',
    ranks.map((rank, index) => ({ name: `s${index + 1}`, rank })),
  );
}

/** Starts a service with these resources and rows, and the users `ada` (an admin) and `bob`. */
export async function startSamples(): Promise<TestService> {
  const service = await startService(samples);
  try {
    await fill(service.sql);
    const ada = await service.addUser('ada', { admin: true });
    await service.addUser('bob');
    await service.sql`update box set owner_id = ${ada} where id = 1`;
  } catch (error) {
    await service.close();
    throw error;
  }
  return service;
}

/** Percent-encodes a readable query, such as `text__in="a,b"&integer=1`. */
export function encode(query: string): string {
  const parts = query === '' ? [] : query.split('&');
  const pairs = parts.map((pair) => /^(?<name>[^=]*)=?(?<value>.*)$/s.exec(pair)?.groups ?? {});
  return pairs
    .map(({ name = '', value = '' }) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join('&');
}

/** Sends a GET with exactly this path, one byte for each character. `fetch` would normalize it. */
export function rawGet(base: string, path: string, agent: Agent | false = false): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(base);
    const outgoing = httpRequest({ hostname, port, path, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        let json: unknown;
        try {
          json = JSON.parse(text);
        } catch {
          json = undefined;
        }
        const pairs = Object.entries(response.headersDistinct).map(([name, list]): [string, string] => [
          name,
          list?.join(', ') ?? '',
        ]);
        resolve({ status: response.statusCode ?? 0, headers: new Headers(pairs), text, json });
      });
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}

export const idsOf = ({ json }: Answer): number[] => json.objects.map(({ id }: { id: number }) => id);
