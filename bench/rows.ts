// What is measured. Every server gets the very same requests: the two that do not authenticate ignore the credentials,
// and Vitrine ignores `X-User-Id`.

export const USERS = 10_000;
export const MESSAGES = 500_000;
export const CONNECTIONS = 16;
export const PASSWORD = 'bench password';

export const PAGE = 20;
/** How many different requests a connection goes through, over and over. */
const VARIETY = 500;
export const BASE = '/api/message/';

export interface Request {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface Row {
  readonly name: string;
  readonly status: number;
  /** A page whose link to the next one is given to `requests`. */
  readonly linkOn?: string;
  /** Connections, if not as many as usual. */
  readonly connections?: number;
  /** The requests of one connection, which are the same in every run. */
  readonly requests: (connection: number, link: string) => readonly Request[];
}

export const methodOf = (row: Row): string => row.requests(0, '')[0]?.method ?? '';

/** Whole numbers from 1 to `most` that look random (a linear congruential generator). */
export function numbers(seed: number, most: number): number[] {
  let state = seed + 1;
  return Array.from({ length: VARIETY }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return 1 + Math.floor((state / 2 ** 32) * most);
  });
}

export const get = (path: string, headers: Request['headers'] = {}): Request => ({
  method: 'GET',
  path,
  headers,
});

const reading = (name: string, paths: (connection: number) => string[]): Row => ({
  name,
  status: 200,
  requests: (connection) => paths(connection).map((path) => get(`${BASE}${path}`)),
});

/** Each connection writes as a user of its own, so that they never wait for each other's rows. */
export const writerOf = (connection: number): number => 1 + connection;

export function writing(method: 'POST' | 'PUT', connection: number, path: string, fields: object): Request {
  const credentials = Buffer.from(`user${writerOf(connection)}:${PASSWORD}`).toString('base64');
  const headers = {
    Authorization: `Basic ${credentials}`,
    'X-User-Id': String(writerOf(connection)),
    'Content-Type': 'application/json',
  };
  return { method, path, headers, body: JSON.stringify(fields) };
}

export const post = (connection: number): Request[] =>
  Array.from({ length: VARIETY }, (_, n) =>
    writing('POST', connection, BASE, {
      user_id: writerOf(connection),
      content: `Posted ${n} over connection ${connection}, of about the same length as the messages that are there.`,
    }),
  );

/** Goes round some messages of the user of `writer`, with a text that differs from the one that is there. */
function put(connection: number, writer = connection, records = MESSAGES / USERS): Request[] {
  return Array.from({ length: VARIETY }, (_, n) =>
    writing('PUT', writer, `${BASE}${writerOf(writer) + (n % records) * USERS}/`, {
      content: `Edited ${n} over connection ${connection}, of about the same length as the messages that are there.`,
    }),
  );
}

/** Records that all connections change, as one user: they wait for each other's locks. */
export const CONTESTED = 40;

const byId = (connection: number): string[] => numbers(connection, MESSAGES).map((id) => `${id}/`);

export const ROWS: readonly Row[] = [
  reading('first page', () => ['']),
  reading('by id', byId),
  { ...reading('by id over 64 connections', byId), connections: 64 },
  reading('by foreign key', (connection) => numbers(connection, USERS).map((id) => `?user=${id}`)),
  reading('by joined column', (connection) =>
    numbers(connection, USERS).map((id) => `?user__username=user${id}`),
  ),
  reading('last page', () => [`?page=${MESSAGES / PAGE}`]),
  { name: 'POST', status: 201, requests: post },
  { name: 'PUT', status: 200, requests: (connection) => put(connection) },
  {
    name: `PUT over ${CONTESTED} records`,
    status: 200,
    requests: (connection) => put(connection, 0, CONTESTED),
  },
];
