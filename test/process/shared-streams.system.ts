// The streams of a client count in all processes of WORKERS together.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, request as send, type IncomingMessage } from 'node:http';
import { basic, createDatabase, type TestDatabase } from '../support.ts';
import { addUser, serve, until, type Serving } from './support.ts';
import { isRunning, workersOf } from './workers-support.ts';
import { after, afterEach, before, describe, test } from 'node:test';

describe('with WORKERS, the streams of a client', () => {
  let database: TestDatabase;
  let service: Serving;
  const open: IncomingMessage[] = [];
  const agents: Agent[] = [];
  before(async () => {
    database = await createDatabase();
    service = await serve({ env: { DATABASE_URL: database.url, WORKERS: '3', TRUST_PROXY: '1' } });
    const user_id = await addUser(database.sql, 'ada');
    await database.sql`
      insert into message (user_id, content) select ${user_id}, repeat('x', 10000) from generate_series(1, 5000)`;
  });
  afterEach(() => {
    for (const stream of open.splice(0)) stream.destroy();
    for (const agent of agents.splice(0)) agent.destroy();
  });
  after(async () => {
    assert.equal((await service.stop()).code, 0);
    await database.drop();
  });

  /** A connection that one of the processes has accepted. That process knows the user afterwards. */
  async function connect(pid: number, headers: Record<string, string> = {}): Promise<Agent> {
    const others = workersOf(service).filter((other) => other !== pid);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    agents.push(agent);
    for (const other of others) process.kill(other, 'SIGSTOP');
    try {
      const response = await request(agent, '/api/user/?limit=1', headers);
      await once(response.resume(), 'end');
    } finally {
      for (const other of others) process.kill(other, 'SIGCONT');
    }
    return agent;
  }

  /** A connection to each process. */
  async function connectAll(headers = {}): Promise<Agent[]> {
    const connected: Agent[] = [];
    for (const pid of workersOf(service)) connected.push(await connect(pid, headers));
    return connected;
  }

  async function request(
    agent: Agent | false | undefined,
    path: string,
    headers: Record<string, string>,
  ): Promise<IncomingMessage> {
    const outgoing = send(`${service.base}${path}`, { agent, headers });
    outgoing.on('error', () => undefined).end();
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    return response.on('error', () => undefined);
  }

  /** Asks for a stream, and reads it only if it is refused. */
  async function ask(
    agent: Agent | false | undefined,
    address: string,
    headers = {},
  ): Promise<IncomingMessage> {
    const response = await request(agent, '/api/message/', {
      accept: 'application/x-ndjson',
      'x-forwarded-for': address,
      ...headers,
    });
    if (response.statusCode !== 200) await once(response.resume(), 'end');
    else open.push(response);
    return response;
  }

  const cases = [
    ['of an address', {}],
    ['of a user', { authorization: basic('ada') }],
  ] as const;
  for (const [index, [whose, headers]] of cases.entries())
    test(`are limited together, ${whose}: one more is 429 in each process until the first ends`, async () => {
      const address = `198.51.100.${10 + index}`;
      const [first, ...others] = await connectAll(headers);
      const stream = await ask(first, address, headers);
      assert.equal(stream.statusCode, 200);
      for (const other of others) {
        const refused = await ask(other, address, headers);
        assert.equal(refused.statusCode, 429);
        assert.equal(refused.headers['retry-after'], '10');
      }
      assert.equal((await ask(false, '198.51.100.2')).statusCode, 200, 'another client');
      stream.destroy();
      assert.equal((await ask(others[0], address, headers)).statusCode, 200, 'after the first');
    });

  test('are one of those that it asks all processes for at once', async () => {
    const all = await Promise.all(Array.from({ length: 9 }, () => ask(false, '198.51.100.3')));
    const statuses = all.map(({ statusCode }) => statusCode).sort();
    assert.deepEqual(statuses, [200, ...Array.from({ length: 8 }, () => 429)]);
  });

  test('are free again when their process is killed', async () => {
    const [first = 0] = workersOf(service);
    const [one, two] = await connectAll();
    assert.equal((await ask(one, '198.51.100.4')).statusCode, 200);
    assert.equal((await ask(two, '198.51.100.4')).statusCode, 429);
    process.kill(first, 'SIGKILL');
    await until('the end of the process', () => !isRunning(first));
    assert.equal((await ask(two, '198.51.100.4')).statusCode, 200);
  });

  test('are 503 while the process that counts them is frozen, and others are answered', async () => {
    const parent = service.child.pid ?? 0;
    process.kill(parent, 'SIGSTOP');
    try {
      const refused = await ask(false, '198.51.100.5');
      assert.equal(refused.statusCode, 503);
      assert.equal(refused.headers['retry-after'], '10');
      const page = await request(false, '/api/message/?limit=1', {});
      assert.equal(page.statusCode, 200);
      page.destroy();
    } finally {
      process.kill(parent, 'SIGCONT');
    }
    assert.equal((await ask(false, '198.51.100.5')).statusCode, 200);
  });
});
