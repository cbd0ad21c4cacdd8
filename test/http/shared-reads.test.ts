// Reads that arrive together share statements, and each reader has the answer to its own request.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { useService, type Answer, type TestService } from '../support.ts';
import { eventually, lockedOut, whenAdmitted } from './expect.ts';
import { describe, test } from 'node:test';

const KEYS: Record<string, readonly string[]> = {
  integer: ['1', '2', '-7', '2147483647'],
  bigint: ['1', '9223372036854775807', '-9007199254740993'],
  uuid: ['00000000-0000-0000-0000-00000000000a', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
  string: ['a', 'A', '{}', ',', '"', '\\', '\\"', 'null', "'", '{"a","b"}', ' a ', 'Zoë 🦉', '1'],
};
/** A key of each type that no record has. */
const NONE = { integer: '9', bigint: '9', uuid: '00000000-0000-0000-0000-000000000009', string: 'NULL' };

type KeyType = keyof typeof NONE;
const TYPES = Object.keys(KEYS) as KeyType[];

const RESOURCES: Resource[] = [
  user,
  ...TYPES.map((type): Resource => ({
    model: `by_${type}`,
    primaryKey: { type },
    columns: { text: { type: 'text' } },
  })),
  { model: 'counter', columns: { count: { type: 'integer' } }, access: 'user' },
  // Names that the statement of several readers uses, too.
  {
    model: 'ranked',
    columns: { position: { type: 'integer' }, json: { type: 'text' }, version: { type: 'text' } },
  },
];

const SIZE = 2 * 1024 * 1024;
/** The statements that were sent over the pipelined connection, those in all lanes, and those that wait for a connection. */
const SENT = /^vitrine_lane_\w*_count\{lane="keys"\} (\d+)$/m;
const SENT_IN_LANES = /^vitrine_lane_\w*_count\{lane="\w+"\} (\d+)$/gm;
const WAITING = /^vitrine_lane_waiting\{lane="slow"\} (\d+)$/m;

describe('reads that arrive together', () => {
  const service: TestService = useService(RESOURCES, {}, async () => {
    for (const type of TYPES)
      for (const key of KEYS[type] ?? [])
        await service.sql`insert into ${service.sql(`by_${type}`)} (id, text) values (${key}, ${`text of ${key}`})`;
    await service.sql`insert into counter (count) values (0)`;
    await service.sql`insert into ranked (position, json, version) select -n, 'json', 'version' from generate_series(1, 60) n`;
  });
  const read = (type: KeyType, key: string): Promise<Answer> =>
    service.request(`/api/by_${type}/${encodeURIComponent(key)}/`);
  const counter = (): Promise<Answer> => service.request('/api/counter/1/');
  const metric = async (line: RegExp): Promise<number> => Number(line.exec(await service.metrics())?.[1]);
  const count = (): Promise<number> => metric(SENT);
  const countInLanes = async (): Promise<number> => {
    const text = await service.metrics();
    return [...text.matchAll(SENT_IN_LANES)].reduce((sum, [, sent]) => sum + Number(sent), 0);
  };
  const waiting = (): Promise<number> => metric(WAITING);

  for (const type of TYPES) {
    test(`have their own records: keys of the type ${type}, some of them twice, some of none`, async () => {
      const keys = [...(KEYS[type] ?? []), NONE[type]];
      const asked = Array.from({ length: 60 }, (_, index) => keys[(index * 7) % keys.length] ?? '');
      const alone = new Map<string, Answer>();
      for (const key of keys) alone.set(key, await read(type, key));
      for (const [index, answer] of (await Promise.all(asked.map((key) => read(type, key)))).entries()) {
        const key = asked[index] ?? '';
        const expected = alone.get(key);
        assert.equal(answer.status, key === NONE[type] ? 404 : 200, key);
        if (answer.status === 404) continue;
        assert.equal(answer.json.text, `text of ${key}`);
        assert.deepEqual(
          [answer.text, answer.headers.get('etag')],
          [expected?.text, expected?.headers.get('etag')],
        );
      }
    });
  }

  test('take fewer statements than readers, of single records and of pages', async () => {
    for (const path of ['/api/by_integer/1/', '/api/by_integer/']) {
      await service.request(path);
      await service.request(path);
      const before = await count();
      const answers = await Promise.all(Array.from({ length: 200 }, () => service.request(path)));
      assert.ok(answers.every(({ status, text }) => status === 200 && text === answers[0]?.text));
      const statements = (await count()) - before;
      assert.ok(statements > 0 && statements < 150, `${statements} statements`);
    }
  });

  test('take fewer statements than readers of different records, also with a column named `position`', async () => {
    const paths = Array.from({ length: 60 }, (_, index) => `/api/ranked/${index + 1}/`);
    for (const path of paths.slice(0, 2)) await service.request(path);
    const before = await countInLanes();
    const answers = await Promise.all(paths.map((path) => service.request(path)));
    assert.deepEqual(
      answers.map(({ json }) => json.position),
      paths.map((_, index) => -1 - index),
    );
    const statements = (await countInLanes()) - before;
    assert.ok(statements > 0 && statements < 45, `${statements} statements`);
  });

  test('never have a state older than their request, while others read and write', async () => {
    await service.addUser('ada');
    let written = 0;
    let isOver = false;
    let reads = 0;
    const reader = async (): Promise<void> => {
      while (!isOver) {
        const least = written;
        const path = reads % 2 === 0 ? '/api/counter/1/' : '/api/counter/';
        const { json } = await service.request(path);
        const { count } = 'objects' in json ? json.objects[0] : json;
        assert.ok(count >= least, `${path}: ${count} after ${least} was written`);
        reads += 1;
      }
    };
    const readers = Array.from({ length: 24 }, reader);
    const others = Array.from({ length: 8 }, async () => {
      while (!isOver) assert.equal((await service.request('/api/counter/2/')).status, 404);
    });
    for (let value = 1; value <= 150; value += 1) {
      const answer = await service.request('/api/counter/1/', {
        method: 'PUT',
        user: 'ada',
        body: { count: value },
      });
      assert.equal(answer.status, 200);
      written = value;
    }
    isOver = true;
    await Promise.all([...readers, ...others]);
    assert.ok(reads > 150);
  });

  test('with a large record among them have it whole, and the others have theirs', async () => {
    await service.sql`insert into by_string (id, text) values ('large', ${'x'.repeat(SIZE)})`;
    for (let round = 0; round < 3; round += 1) {
      const keys = Array.from({ length: 30 }, (_, index) => (index % 10 === 3 ? 'large' : 'a'));
      const answers = await Promise.all(keys.map((key) => whenAdmitted(() => read('string', key))));
      for (const [index, { json }] of answers.entries())
        assert.equal(json.text.length, keys[index] === 'large' ? SIZE : 'text of a'.length);
    }
  });

  test('do not wait for a table that another transaction has locked', async () => {
    const sql = await service.sql.reserve();
    await sql`begin`;
    await sql`lock table by_integer in access exclusive mode`;
    const blocked = Array.from({ length: 60 }, (_, index) => read('integer', String((index % 2) + 1)));
    let answered = 0;
    const others = Array.from({ length: 30 }, async () => {
      const { status } = await read('string', 'a');
      answered += 1;
      return status;
    });
    try {
      // One of them may have been sent already, behind the one that waits for the lock.
      await eventually(() => answered >= 29, 'the answers of the others');
      assert.equal((await counter()).status, 200);
    } finally {
      await sql`rollback`;
      sql.release();
    }
    const statuses = [
      ...(await Promise.all(others)),
      ...(await Promise.all(blocked)).map(({ status }) => status),
    ];
    assert.deepEqual(statuses, Array<number>(90).fill(200));
  });

  test('leave a connection to other reads, also when they come after two tables have been locked', async () => {
    assert.equal((await read('string', 'a')).status, 200);
    const sql = await service.sql.reserve();
    await sql`begin`;
    await sql`lock table by_uuid, by_bigint in access exclusive mode`;
    const keys = KEYS['uuid'] ?? [];
    const blocked = [read('uuid', keys[0] ?? '')];
    try {
      await lockedOut(service);
      // An answer shows that reads no longer wait behind the one that waits for the lock. One of them may.
      const others = Array.from({ length: 8 }, () => read('string', 'a'));
      await Promise.any(others);
      blocked.push(
        ...others,
        ...Array.from({ length: 40 }, (_, index) =>
          index % 2 === 0 ? read('uuid', keys[index % 4 === 0 ? 0 : 1] ?? '') : read('bigint', '1'),
        ),
      );
      await eventually(async () => (await waiting()) > 0, 'reads that wait for a connection');
      for (let time = 0; time < 5; time += 1) assert.equal((await read('string', 'a')).status, 200);
    } finally {
      await sql`rollback`;
      sql.release();
    }
    await Promise.all(blocked);
    await eventually(async () => (await read('uuid', keys[0] ?? '')).status === 200, 'an answer');
  });

  test('are refused after a while when the lock stays, all but those whose statement was sent', async () => {
    const sql = await service.sql.reserve();
    await sql`begin`;
    await sql`lock table by_bigint in access exclusive mode`;
    const statuses: number[] = [];
    const blocked = Array.from({ length: 40 }, async () => {
      const { status } = await read('bigint', '1');
      statuses.push(status);
      return status;
    });
    try {
      await eventually(() => statuses.length >= 39, 'the refusals');
      assert.ok(
        statuses.slice(0, 39).every((status) => status === 429 || status === 503),
        statuses.join(),
      );
    } finally {
      await sql`rollback`;
      sql.release();
    }
    await Promise.all(blocked);
    await eventually(async () => (await read('bigint', '1')).status === 200, 'an answer');
  });

  test('are all answered when their connection ends', async () => {
    const sql = await service.sql.reserve();
    await sql`begin`;
    await sql`lock table by_uuid in access exclusive mode`;
    const keys = KEYS['uuid'] ?? [];
    const reads = Array.from({ length: 40 }, (_, index) => read('uuid', keys[index % keys.length] ?? ''));
    try {
      await eventually(async () => {
        const ended = await sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
        return ended.length > 0;
      }, 'a waiting connection');
    } finally {
      await sql`rollback`;
      sql.release();
    }
    const statuses = (await Promise.all(reads)).map(({ status }) => status);
    assert.deepEqual(statuses, Array<number>(40).fill(200));
    await eventually(async () => (await read('uuid', keys[0] ?? '')).status === 200, 'an answer');
  });
});
