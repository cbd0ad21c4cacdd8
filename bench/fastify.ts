// The same endpoints, written by hand with Fastify and postgres.js. Like a service that trusts its network it does not
// authenticate: a header names the caller. With DUTIES=1 it serves only POST and PUT, and has the duties that Vitrine has:
// credentials, the caller's state at each request, ownership, a history entry in the same statement and an ETag.
// It runs compiled, on its own, and so imports nothing from here.
import { verify } from '@node-rs/argon2';
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { createHmac, randomBytes } from 'node:crypto';
import postgres from 'postgres';

interface Message {
  id: number;
  user_id: number;
  content: string;
  pub_date: string;
}

interface User {
  id: number;
  username: string;
  password: string;
  active: boolean;
}

/** The version becomes the ETag. */
type Written = Message & { version: string };

declare module 'fastify' {
  interface FastifyRequest {
    user: User;
  }
}

interface Query {
  user?: number;
  user__username?: string;
  limit: number;
  page: number;
}

const sql = postgres(process.env['DATABASE_URL'] ?? '', {
  max: 10,
  // A timestamp stays the text that PostgreSQL sends, which is the format of the API already.
  types: {
    timestamp: { to: 1114, from: [1114], serialize: (text: string) => text, parse: (text: string) => text },
  },
});

const record = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    user_id: { type: 'integer' },
    content: { type: 'string' },
    pub_date: { type: 'string' },
  },
};
const page = {
  type: 'object',
  properties: {
    meta: {
      type: 'object',
      properties: {
        model: { type: 'string' },
        page: { type: 'integer' },
        next: { type: 'string' },
        previous: { type: 'string' },
      },
    },
    objects: { type: 'array', items: record },
  },
};
const key = { type: 'integer', minimum: 1, maximum: 2_147_483_647 };
const params = { type: 'object', properties: { id: key } };
const querystring = {
  type: 'object',
  additionalProperties: false,
  properties: {
    user: key,
    user__username: { type: 'string', maxLength: 255 },
    limit: { type: 'integer', minimum: 1, maximum: 1000, default: 20 },
    page: { ...key, default: 1 },
  },
};
const content = { type: 'string' };
const pub_date = { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d$' };
const newRecord = {
  type: 'object',
  additionalProperties: false,
  required: ['user_id', 'content'],
  properties: { user_id: key, content, pub_date },
};
const changes = {
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  properties: { content, pub_date },
};
const owner = { type: 'object', required: ['x-user-id'], properties: { 'x-user-id': key } };

const notFound = (reply: FastifyReply): FastifyReply => reply.code(404).send({ message: 'No such message' });

function linkTo({ user, user__username: username, limit }: Query, number: number): string {
  let link = '/api/message/?';
  if (user !== undefined) link += `user=${user}&`;
  if (username !== undefined) link += `user__username=${encodeURIComponent(username)}&`;
  return `${link}limit=${limit}&page=${number}`;
}

function select({ user, user__username: username, limit, page: number }: Query) {
  const rows = limit + 1;
  const offset = (number - 1) * limit;
  if (username !== undefined) {
    const and = user === undefined ? sql`` : sql`and m.user_id = ${user}`;
    return sql<Message[]>`
      select m.id, m.user_id, m.content, m.pub_date from message m join "user" u on u.id = m.user_id
      where u.username = ${username} ${and} order by m.id limit ${rows} offset ${offset}`;
  }
  if (user !== undefined) {
    return sql<Message[]>`
      select id, user_id, content, pub_date from message
      where user_id = ${user} order by id limit ${rows} offset ${offset}`;
  }
  return sql<Message[]>`
    select id, user_id, content, pub_date from message order by id limit ${rows} offset ${offset}`;
}

const app = Fastify({ logger: false });

app.setErrorHandler((error: { code?: string; statusCode?: number; message: string }, _request, reply) => {
  if (error.code === '23503') return reply.code(400).send({ message: 'No such user' });
  const status = error.statusCode ?? 500;
  return reply.code(status).send({ message: status < 500 ? error.message : 'Something went wrong' });
});

const ownRecord = { ...newRecord, required: ['content'] };

const REMEMBERED_FOR = 5 * 60_000;
const MAX_REMEMBERED = 10_000;
const secret = randomBytes(32);
/** Verified credentials by their keyed digest: the hash that they matched, and until when that counts. */
const remembered = new Map<string, { hash: string; until: number }>();

async function isRight(authorization: string, password: string, { password: hash }: User): Promise<boolean> {
  const digest = createHmac('sha256', secret).update(authorization).digest('base64');
  const known = remembered.get(digest);
  if (known?.hash === hash && known.until > Date.now()) return true;
  if (!(await verify(hash, password))) return false;
  if (remembered.size >= MAX_REMEMBERED) remembered.clear();
  remembered.set(digest, { hash, until: Date.now() + REMEMBERED_FOR });
  return true;
}

async function authenticate(authorization = ''): Promise<User | undefined> {
  if (!authorization.startsWith('Basic ')) return undefined;
  const credentials = Buffer.from(authorization.slice(6), 'base64').toString();
  const colon = credentials.indexOf(':');
  if (colon < 0) return undefined;
  const [user] = await sql<User[]>`
    select id, username, password, active from "user" where username = ${credentials.slice(0, colon)}`;
  if (!user?.active) return undefined;
  return (await isRight(authorization, credentials.slice(colon + 1), user)) ? user : undefined;
}

const sendWritten = (reply: FastifyReply, status: number, { version, ...message }: Written): FastifyReply =>
  reply.code(status).header('etag', `"${version}"`).send(message);

function servePlainly(): void {
  app.get<{ Querystring: Query }>(
    '/api/message/',
    { schema: { querystring, response: { 200: page } } },
    async ({ query }) => {
      const rows = await select(query);
      const next = rows.length > query.limit ? linkTo(query, query.page + 1) : '';
      const previous = query.page > 1 ? linkTo(query, query.page - 1) : '';
      return {
        meta: { model: 'message', page: query.page, next, previous },
        objects: next === '' ? rows : rows.slice(0, query.limit),
      };
    },
  );

  app.get<{ Params: { id: number } }>(
    '/api/message/:id/',
    { schema: { params, response: { 200: record } } },
    async ({ params: { id } }, reply) => {
      const [found] = await sql<Message[]>`
        select id, user_id, content, pub_date from message where id = ${id}`;
      return found ?? notFound(reply);
    },
  );

  app.post<{ Body: Partial<Message> }>(
    '/api/message/',
    { schema: { body: newRecord, response: { 201: record } } },
    async ({ body }, reply) => {
      const [created] = await sql<Message[]>`
        insert into message ${sql(body)} returning id, user_id, content, pub_date`;
      return reply.code(201).header('location', `/api/message/${created?.id}/`).send(created);
    },
  );

  app.put<{ Params: { id: number }; Body: Partial<Message>; Headers: { 'x-user-id': number } }>(
    '/api/message/:id/',
    { schema: { params, headers: owner, body: changes, response: { 200: record } } },
    async ({ params: { id }, body, headers }, reply) => {
      const [updated] = await sql<Message[]>`
        update message set ${sql(body)} where id = ${id} and user_id = ${headers['x-user-id']}
        returning id, user_id, content, pub_date`;
      if (updated) return updated;
      const [found] = await sql`select 1 from message where id = ${id}`;
      if (!found) return notFound(reply);
      return reply.code(403).send({ message: 'Not yours' });
    },
  );
}

function serveWithDuties(): void {
  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const user = await authenticate(request.headers.authorization);
    if (user) request.user = user;
    else await reply.code(401).header('www-authenticate', 'Basic').send({ message: 'Authentication failed' });
  }

  app.post<{ Body: Partial<Message> }>(
    '/api/message/',
    { onRequest, schema: { body: ownRecord, response: { 201: record } } },
    async ({ body, user }, reply) => {
      const [created] = await sql<[Written]>`
        with created as (
          insert into message ${sql({ ...body, user_id: user.id })}
          returning id, user_id, content, pub_date, xmin::text as version
        ), logged as (
          insert into vitrine_history (user_key, user_name, door, action, model, record, after)
          select ${user.id}, ${user.username}, 'api', 'create', 'message', id::text, json_build_object(
            'id', id, 'user_id', user_id, 'content', content, 'pub_date', pub_date::text)::text
          from created
        )
        select * from created`;
      return sendWritten(reply.header('location', `/api/message/${created.id}/`), 201, created);
    },
  );

  app.put<{ Params: { id: number }; Body: Partial<Message> }>(
    '/api/message/:id/',
    { onRequest, schema: { params, body: changes, response: { 200: record } } },
    async ({ params: { id }, body, user }, reply) => {
      const [updated] = await sql<Written[]>`
        with present as (
          select * from message where id = ${id} and user_id = ${user.id} for no key update
        ), updated as (
          update message m
          set content = coalesce(${body.content ?? null}, p.content), pub_date = coalesce(${body.pub_date ?? null}, p.pub_date)
          from present p where m.id = p.id
          returning m.id, m.user_id, m.content, m.pub_date, m.xmin::text as version,
            p.content as old_content, p.pub_date as old_pub_date
        ), logged as (
          insert into vitrine_history (user_key, user_name, door, action, model, record, before, after)
          select ${user.id}, ${user.username}, 'api', 'update', 'message', id::text,
            json_build_object('content', old_content, 'pub_date', old_pub_date::text)::text,
            json_build_object('content', content, 'pub_date', pub_date::text)::text
          from updated
        )
        select id, user_id, content, pub_date, version from updated`;
      if (updated) return sendWritten(reply, 200, updated);
      const [found] = await sql`select 1 from message where id = ${id}`;
      if (!found) return reply.code(404).send({ message: 'No such message' });
      return reply.code(403).send({ message: 'Not yours' });
    },
  );
}

// The benchmark waits until this is 200.
app.get('/healthz', () => ({}));
if (process.env['DUTIES'] === '1') serveWithDuties();
else servePlainly();
await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) });
