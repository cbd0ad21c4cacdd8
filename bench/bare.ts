// What is left when everything is left out: node:http and postgres.js, without validation, routing or errors to speak of.
// It runs compiled, on its own, and so imports nothing from here.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import postgres from 'postgres';

const sql = postgres(process.env['DATABASE_URL'] ?? '', {
  max: 10,
  types: {
    timestamp: { to: 1114, from: [1114], serialize: (text: string) => text, parse: (text: string) => text },
  },
});

const BASE = '/api/message/';
const LIMIT = 20;

async function readJson(request: IncomingMessage): Promise<{ user_id: number; content: string }> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString()) as { user_id: number; content: string };
}

function select(user: string | null, username: string | null, offset: number) {
  if (user !== null) {
    return sql`select id, user_id, content, pub_date from message
      where user_id = ${user} order by id limit ${LIMIT + 1} offset ${offset}`;
  }
  if (username !== null) {
    return sql`select m.id, m.user_id, m.content, m.pub_date from message m join "user" u on u.id = m.user_id
      where u.username = ${username} order by m.id limit ${LIMIT + 1} offset ${offset}`;
  }
  return sql`select id, user_id, content, pub_date from message
    order by id limit ${LIMIT + 1} offset ${offset}`;
}

async function list(query: string): Promise<object> {
  let user: string | null = null;
  let username: string | null = null;
  let page = 1;
  let filters = '';
  for (const parameter of query === '' ? [] : query.split('&')) {
    const [name, value = ''] = parameter.split('=');
    if (name === 'page') page = Number(value);
    else filters += `${parameter}&`;
    if (name === 'user') user = value;
    if (name === 'user__username') username = value;
  }
  const rows = await select(user, username, (page - 1) * LIMIT);
  const link = (to: number): string => `${BASE}?${filters}limit=${LIMIT}&page=${to}`;
  const next = rows.length > LIMIT ? link(page + 1) : '';
  const previous = page > 1 ? link(page - 1) : '';
  return { meta: { model: 'message', page, next, previous }, objects: rows.slice(0, LIMIT) };
}

async function answer(request: IncomingMessage): Promise<[status: number, body: object | undefined]> {
  const [path = '', query = ''] = (request.url ?? '').split('?');
  const id = path.slice(BASE.length, -1);
  if (request.method === 'GET') {
    if (id === '') return [200, await list(query)];
    const [found] = await sql`select id, user_id, content, pub_date from message where id = ${id}`;
    return [200, found];
  }
  const { user_id, content } = await readJson(request);
  if (request.method === 'POST') {
    const [created] = await sql`insert into message (user_id, content) values (${user_id}, ${content})
      returning id, user_id, content, pub_date`;
    return [201, created];
  }
  const owner = String(request.headers['x-user-id']);
  const [updated] = await sql`update message set content = ${content}
    where id = ${id} and user_id = ${owner} returning id, user_id, content, pub_date`;
  return [200, updated];
}

function send(response: ServerResponse, status: number, value: object | undefined): void {
  const body = JSON.stringify(value ?? null);
  response.writeHead(value ? status : 404, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}

createServer((request, response) => {
  answer(request).then(
    ([status, body]) => send(response, status, body),
    () => response.writeHead(500).end(),
  );
}).listen(Number(process.env['PORT']), '127.0.0.1');
