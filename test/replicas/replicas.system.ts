// Reads on standbys of real streaming replication: what a client has written is never missing.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import postgres from 'postgres';
import { runPairs } from '../../bench/replicas/pairs.ts';
import { createClient } from '../../src/client.ts';
import { StartError } from '../../src/index.ts';
import { startProxy } from '../process/proxy.ts';
import { until } from '../process/support.ts';
import { createDatabase, type Answer } from '../support.ts';
import {
  configure,
  createReplicatedDatabase,
  pauseReplay,
  RESOURCES,
  resumeReplay,
  type ReplicatedDatabase,
  type ReplicatedService,
} from './support.ts';
import { after, afterEach, before, describe, test } from 'node:test';

const sum = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0);

const post = (service: ReplicatedService, text: string): Promise<Answer> =>
  service.request('/api/note/', { method: 'POST', user: 'ada', body: { text } });

const positionOf = ({ headers }: Answer): string => headers.get('vitrine-position') ?? '';

describe('with a standby', () => {
  let database: ReplicatedDatabase;
  let service: ReplicatedService;
  const rotation = (): Promise<unknown> =>
    until('the standby to be in the rotation', async () => sum(await service.metric('in_rotation')) === 1);
  before(async () => {
    database = await createReplicatedDatabase(1);
    service = await database.serve();
    // It may not have replayed the tables yet.
    await rotation();
  });
  afterEach(async () => {
    const [standby] = database.standbys;
    if (standby) await resumeReplay(standby);
    await rotation();
  });
  after(async () => {
    await service.close();
    await database.drop();
  });

  const standby = () => database.standbys[0]!;
  const reads = async (): Promise<number> => sum(await service.metric('reads_total'));
  /** Whether a request was answered by the standby. */
  const isOnStandby = async (path: string, headers: Record<string, string> = {}): Promise<boolean> => {
    const first = await reads();
    const { status, text } = await service.request(path, { headers });
    assert.equal(status, 200, text);
    return (await reads()) > first;
  };

  test('reads without a position run there: by key, filtered, as CSV, as a page and as a stream', async () => {
    const written = await post(service, 'one');
    const key = `/api/note/${written.json.id}/`;
    // Not by its status: the primary may have answered.
    await until('the replay', () => isOnStandby(key, { 'Vitrine-Position': positionOf(written) }));
    for (const [path, headers] of [
      [key, {}],
      ['/api/note/', {}],
      ['/api/note/?text__like=o%25&ordering=-text', {}],
      ['/api/note/', { Accept: 'text/csv' }],
      ['/api/note/', { Accept: 'text/html' }],
      [key, { Accept: 'text/html' }],
      ['/api/note/', { Accept: 'application/x-ndjson' }],
      ['/api/note/', { Prefer: 'count=exact' }],
      ['/api/note/', { Prefer: 'count=estimated' }],
      ['/api/note/', { Prefer: 'paging=cursor' }],
    ] satisfies [string, Record<string, string>][])
      assert.ok(
        await isOnStandby(path, headers),
        `${path} ${JSON.stringify(headers)}: in rotation: ${(await service.metric('in_rotation')).join(', ')}`,
      );
  });

  test('a write answers with a position, and a read, an invalid write and a login do not', async () => {
    const written = await post(service, 'x');
    assert.match(positionOf(written), /^[\w-]{64}$/);
    const key = `/api/note/${written.json.id}/`;
    const changed = await service.request(key, { method: 'PUT', user: 'ada', body: { text: 'y' } });
    const deleted = await service.request(key, { method: 'DELETE', user: 'ada' });
    assert.notEqual(positionOf(changed), positionOf(written));
    assert.match(positionOf(deleted), /^[\w-]{64}$/);
    const refused = await service.request('/api/note/', { method: 'POST', user: 'ada', body: { no: 1 } });
    assert.equal(refused.status, 400);
    assert.equal((await service.request(key, { method: 'DELETE' })).headers.get('vitrine-position'), null);
    const read = await service.request('/api/user/', { user: 'ada' });
    assert.deepEqual([positionOf(refused), positionOf(read)], ['', '']);
  });

  test('a read with the position of a write shows it while the replay is paused, and others run on the standby', async () => {
    await pauseReplay(standby());
    const written = await post(service, 'paused');
    const path = `/api/note/${written.json.id}/`;
    const headers = { 'Vitrine-Position': positionOf(written) };
    assert.equal((await service.request(path, { headers })).status, 200);
    assert.equal((await service.request(path)).status, 404);
    await resumeReplay(standby());
    await until('the standby to have it', () => isOnStandby(path, headers));
  });

  test('a write that the primary refused answers with a position, and what refused it is there', async () => {
    const written = await post(service, 'first');
    const path = `/api/note/${written.json.id}/`;
    await until('the replay', () => isOnStandby(path, { 'Vitrine-Position': positionOf(written) }));
    await pauseReplay(standby());
    const headers = { 'If-Match': written.headers.get('etag') ?? '' };
    const put = (): Promise<Answer> =>
      service.request(path, { method: 'PUT', user: 'ada', body: { text: 'second' }, headers });
    const remove = (): Promise<Answer> => service.request(path, { method: 'DELETE', user: 'ada' });
    const seen = async (refused: Answer): Promise<[refusal: number, status: number, text: unknown]> => {
      const { status, json } = await service.request(path, {
        headers: { 'Vitrine-Position': positionOf(refused) },
      });
      return [refused.status, status, json.text];
    };
    assert.equal((await put()).status, 200);
    assert.deepEqual(await seen(await put()), [412, 200, 'second']);
    assert.equal((await remove()).status, 200);
    assert.deepEqual(await seen(await remove()), [404, 404, undefined]);
    assert.equal((await service.request(path)).status, 200, 'the replay was not paused');
  });

  test('a write that is refused because of the owner answers with a position, and the new owner is there', async (t) => {
    const letter = {
      model: 'letter',
      columns: { text: { type: 'text' }, user: { type: 'foreignKey', references: 'user' } },
      access: 'user',
      owner: 'user',
    } as const;
    const sql = database.primary.open();
    const other = await database.serve({ resources: [...RESOURCES, letter] });
    t.after(async () => {
      await resumeReplay(standby());
      await other.close();
      await sql`drop table letter`;
      await sql.end();
    });
    await until('the standby', async () => sum(await other.metric('in_rotation')) === 1);
    const written = await other.request('/api/letter/', {
      method: 'POST',
      user: 'bob',
      body: { text: 'x' },
    });
    assert.equal(written.status, 201, written.text);
    const path = `/api/letter/${written.json.id}/`;
    const ownerAt = async (position: string): Promise<unknown> =>
      (await other.request(path, { headers: { 'Vitrine-Position': position } })).json.user_id;
    const bob = await ownerAt(positionOf(written));
    await until('the replay', async () => {
      const first = sum(await other.metric('reads_total'));
      await ownerAt(positionOf(written));
      return sum(await other.metric('reads_total')) > first;
    });
    await pauseReplay(standby());
    await sql`update letter set user_id = (select id from "user" where username = 'ada')`;
    const refused = await other.request(path, { method: 'PUT', user: 'bob', body: { text: 'y' } });
    assert.equal(refused.status, 403);
    assert.notEqual(await ownerAt(positionOf(refused)), bob);
    assert.equal(await ownerAt(positionOf(written)), bob, 'the replay was not paused');
  });

  test('the typed client sees what it has written, also when answers are lost or hundreds come at once', async () => {
    const loss = { next: false };
    // A browser, too, sends at most 6 requests to a server at once, and the others wait.
    let free = 6;
    const waiting: (() => void)[] = [];
    const { note } = createClient<typeof RESOURCES>({
      baseUrl: service.base,
      credentials: { username: 'ada', password: 'pw-ada' },
      async fetch(input, init) {
        if (free > 0) free -= 1;
        else await new Promise<void>((resolve) => waiting.push(resolve));
        const response = await fetch(input, init);
        const next = waiting.shift();
        if (next) next();
        else free += 1;
        if (!loss.next) return response;
        loss.next = false;
        await response.arrayBuffer();
        throw new TypeError('the answer was lost');
      },
    });
    const first = await note.create({ text: 'before' });
    await until('the replay', async () => {
      const earlier = await reads();
      await note.get(first.id);
      return (await reads()) > earlier;
    });
    await pauseReplay(standby());
    loss.next = true;
    await assert.rejects(note.update(first.id, { text: 'after' }), /the answer was lost/);
    assert.equal((await note.get(first.id)).text, 'after');
    loss.next = true;
    await assert.rejects(note.create({ text: 'once' }), /the answer was lost/);
    assert.equal(await note.count({ text: 'once' }), 1);
    const texts = Array.from({ length: 800 }, (_, turn) => `at once ${turn}`);
    await Promise.all(texts.map((text) => note.create({ text })));
    assert.equal(await note.count({ text__like: 'at once%' }), 800);
    // From the next write on, only its position counts, so that the standby may answer again.
    const last = await note.create({ text: 'last' });
    await resumeReplay(standby());
    await until('the replay', async () => {
      const earlier = await reads();
      await note.get(last.id);
      return (await reads()) > earlier;
    });
    const sql = database.primary.open();
    await sql`delete from note where text like 'at once%'`;
    await sql.end();
  });

  test('positions of writes at the same time count together, whichever came last', async () => {
    const first = positionOf(await post(service, 'first'));
    await until('the replay', async () => isOnStandby('/api/note/', { 'Vitrine-Position': first }));
    await pauseReplay(standby());
    const last = await post(service, 'last');
    for (const both of [`${first},${positionOf(last)}`, `${positionOf(last)}, ${first}`]) {
      const headers = { 'Vitrine-Position': both };
      assert.equal((await service.request(`/api/note/${last.json.id}/`, { headers })).status, 200);
    }
    assert.ok(await isOnStandby('/api/note/', { 'Vitrine-Position': first }));
  });

  test('a forged, malformed or foreign position leads to the primary', async () => {
    const position = positionOf(await post(service, 'x'));
    await until('the replay', () => isOnStandby('/api/note/', { 'Vitrine-Position': position }));
    const other = await createReplicatedDatabase(0);
    const foreign = await other.serve({ databaseReadUrl: [other.primary.url] });
    const fromOther = positionOf(await post(foreign, 'x'));
    await foreign.close();
    await other.drop();
    assert.match(fromOther, /^[\w-]{64}$/);
    const zero = Buffer.alloc(32).toString('base64url');
    const texts = ['x', zero, fromOther, `${position}x`, `${position},`, `,${position}`, 'é', '0/0'];
    const many = Array.from({ length: 100 }, () => position).join();
    for (const text of [...texts, many, 'a'.repeat(8_000)])
      assert.ok(
        !(await isOnStandby('/api/note/', { 'Vitrine-Position': encodeURI(text) })),
        text.slice(0, 50),
      );
    await fc.assert(
      fc.asyncProperty(fc.nat(42), fc.constantFrom(...'AZaz09_-'), async (at, letter) => {
        const forged = position.slice(0, at) + letter + position.slice(at + 1);
        // The last two bits of the text are unused.
        fc.pre(!Buffer.from(forged, 'base64url').equals(Buffer.from(position, 'base64url')));
        assert.ok(!(await isOnStandby('/api/note/', { 'Vitrine-Position': forged })));
      }),
      { numRuns: 40 },
    );
  });

  test('a standby that lags more than MAX_LAG leaves the rotation and comes back, with one log line each', async () => {
    const strict = await database.serve({ maxLag: 1 });
    const logged = (text: string): number =>
      strict.lines.filter(({ message }) => String(message).includes(text)).length;
    await pauseReplay(standby());
    await post(strict, 'late');
    await until('it to leave', () => logged('does not answer reads: it lags more than 1 s behind') === 1);
    assert.deepEqual(await strict.metric('in_rotation'), [0]);
    assert.ok(sum(await strict.metric('lag_bytes')) > 0);
    const { json } = await post(strict, 'later');
    assert.equal((await strict.request(`/api/note/${json.id}/`)).status, 200);
    await resumeReplay(standby());
    await until('it to come back', async () => sum(await strict.metric('in_rotation')) === 1);
    await until('the line', () => logged('answers reads') === 2); // the first one at the start
    assert.equal(logged('does not answer'), 1);
    await strict.close();
  });

  test('a view that writes is read on the primary, and the standby keeps its connections', async (t) => {
    const sql = database.primary.open();
    await sql`create sequence ticket`;
    await sql`create view ticketed as select id, nextval('ticket') as ticket from note`;
    const ticketed = {
      model: 'ticketed',
      primaryKey: { type: 'integer', column: 'id' },
      columns: { ticket: { type: 'bigint' } },
    } as const;
    const { json } = await post(service, 'ticketed');
    const other = await database.serve({ resources: [...RESOURCES, ticketed] });
    const sessions = async (): Promise<unknown[]> => [
      ...(await standby()
        .sql`select pid from pg_stat_activity where application_name = 'vitrine' order by pid`),
    ];
    t.after(async () => {
      await other.close();
      await sql`drop view ticketed`;
      await sql`drop sequence ticket`;
      await sql.end();
    });
    await until('the standby', async () => sum(await other.metric('in_rotation')) === 1);
    const read = async (): Promise<void> => {
      for (const path of [`/api/ticketed/${json.id}/`, `/api/note/${json.id}/`])
        assert.equal((await other.request(path)).status, 200);
    };
    await read();
    const before = await sessions();
    assert.ok(before.length > 0);
    for (let tries = 0; tries < 5; tries += 1) await read();
    assert.ok(sum(await other.metric('failed_reads_total')) >= 5);
    assert.deepEqual(await sessions(), before);
  });

  test('a session is read on the primary: a deactivated admin loses access although the replay is paused', async () => {
    const cookies = await logIn(service);
    assert.equal((await service.request('/admin/', { headers: { Cookie: cookies } })).status, 200);
    const sql = database.primary.open();
    await pauseReplay(standby());
    await sql`update "user" set active = false where username = 'ada'`;
    assert.equal((await service.request('/admin/', { headers: { Cookie: cookies } })).status, 303);
    assert.equal((await service.request('/api/user/', { user: 'ada' })).status, 401);
    await sql`update "user" set active = true where username = 'ada'`;
    await sql.end();
  });

  test('the admin area keeps the position in a cookie, and shows what its admin has saved', async () => {
    const cookies = await logIn(service);
    const form = await service.request('/admin/note/-/add/', { headers: { Cookie: cookies } });
    const csrf = /name="_csrf" value="([^"]+)"/.exec(form.text)?.[1] ?? '';
    const once = /name="_once" value="([^"]+)"/.exec(form.text)?.[1];
    await pauseReplay(standby());
    const saved = await service.request('/admin/note/-/add/', {
      method: 'POST',
      headers: { Cookie: cookies, 'Content-Type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        _csrf: csrf,
        text: 'from a form',
        ...(once && { _once: once }),
      }).toString(),
    });
    assert.equal(saved.status, 303, saved.text);
    assert.equal(positionOf(saved), '');
    const cookie = saved.headers.getSetCookie().find((one) => one.startsWith('admin-position=')) ?? '';
    assert.match(cookie, /^admin-position=[\w-]{64}; Path=\/admin\/; HttpOnly; SameSite=Lax; Max-Age=70$/);
    const [position = ''] = cookie.split(';');
    const list = (Cookie: string): Promise<Answer> =>
      service.request('/admin/note/', { headers: { Cookie } });
    assert.match((await list(`${cookies}; ${position}`)).text, /from a form/);
    assert.doesNotMatch((await list(cookies)).text, /from a form/);
    for (const ambiguous of [
      `admin-position=x; ${position}`,
      `${position}; admin-position=`,
      'admin-position=x; admin-position=y',
      'admin-position=',
      '__Secure-admin-position=x; __Secure-admin-position=y',
    ])
      assert.match((await list(`${cookies}; ${ambiguous}`)).text, /from a form/, ambiguous);
  });

  test('the admin area shows what has refused a form, and what a repeated form had saved', async () => {
    const session = await logIn(service);
    const { json } = await post(service, 'before');
    const key = `/admin/note/${json.id}/`;
    await until('the replay', () => isOnStandby(key, { Cookie: session }).catch(() => false));
    const { text: page } = await service.request(key, { headers: { Cookie: session } });
    const field = (name: string): string =>
      new RegExp(`name="${name}" value="([^"]*)"`).exec(page)?.[1] ?? '';
    const save = (path: string, fields: Record<string, string>): Promise<Answer> =>
      service.request(path, {
        method: 'POST',
        headers: { Cookie: session, 'Content-Type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({
          _csrf: field('_csrf'),
          _version: field('_version'),
          ...fields,
        }).toString(),
      });
    /** What the browser gets with the cookies of a response. */
    const next = ({ headers }: Answer): Promise<Answer> => {
      const set = headers.getSetCookie().map((one) => one.split(';')[0]);
      return service.request(key, { headers: { Cookie: [session, ...set].join('; ') } });
    };
    await pauseReplay(standby());
    const saved = await save(key, { text: 'after' });
    assert.equal(saved.status, 303, saved.text);

    const repeated = await save(key, { text: 'after' });
    assert.equal(repeated.status, 303, repeated.text);
    assert.match((await next(repeated)).text, /after/, 'repeated');

    const conflict = await save(key, { text: 'mine' });
    assert.equal(conflict.status, 409, conflict.text);
    assert.match((await next(conflict)).text, /after/, 'conflict');

    const kept = await save(`${key}delete/`, {});
    assert.equal(kept.status, 412, kept.text);
    assert.match((await next(kept)).text, /after/, 'deletion');

    await service.request(`/api/note/${json.id}/`, { method: 'DELETE', user: 'ada' });
    const gone = await save(key, { text: 'mine' });
    assert.equal(gone.status, 409, gone.text);
    assert.equal((await next(gone)).status, 404, 'gone');
  });

  test('every page of the admin area is served while the standby answers reads', async () => {
    const cookies = await logIn(service);
    const { json } = await post(service, 'page');
    const key = `/admin/note/${json.id}/`;
    await until('the replay', () => isOnStandby(key, { Cookie: cookies }).catch(() => false));
    const pages = ['/admin/', '/admin/note/', '/admin/note/?text__ilike=p%25', '/admin/user/', key];
    const more = [`${key}delete/`, `${key}history/`, '/admin/note/-/export.csv', '/admin/-/account/'];
    for (const path of [...pages, ...more, '/admin/vitrine_history/']) {
      const { status, text } = await service.request(path, { headers: { Cookie: cookies } });
      assert.equal(status, 200, `${path}: ${text.slice(0, 300)}`);
    }
    assert.deepEqual(await service.metric('failed_reads_total'), [0]);
  });

  test('a read on a connection to the standby that went silent runs on the primary, and the standby answers again', async (t) => {
    const proxy = await startProxy(standby().url);
    const other = await database.serve({ databaseReadUrl: [proxy.url] });
    const metric = async (name: string): Promise<number> => sum(await other.metric(name));
    /** Reads with the position of a write, which the standby must have reached. */
    const readOn = async (name: string, what: string): Promise<void> => {
      const before = await metric(name);
      const written = await post(other, what);
      const headers = { 'Vitrine-Position': positionOf(written) };
      await until(what, async () => {
        const { status, text } = await other.request(`/api/note/${written.json.id}/`, { headers });
        assert.equal(status, 200, text);
        return (await metric(name)) > before;
      });
    };
    t.after(async () => {
      await other.close();
      await proxy.close();
    });
    await readOn('reads_total', 'the first read');
    assert.ok(proxy.silence() > 0);
    await readOn('failed_reads_total', 'the read without an answer');
    await readOn('reads_total', 'the standby to answer again');
  });

  test('a read that the standby ends for a conflict runs there once, and then on the primary', async (t) => {
    const sql = database.primary.open();
    await sql.unsafe(`
      create function conflict() returns int language plpgsql as $$ begin
        if pg_is_in_recovery() then
          raise 'canceling statement due to conflict with recovery' using errcode = '40001';
        end if;
        return 1;
      end $$;
      create view conflicted as select id, conflict() as conflict from note`);
    const conflicted = {
      model: 'conflicted',
      primaryKey: { type: 'integer', column: 'id' },
      columns: { conflict: { type: 'integer' } },
    } as const;
    const { json } = await post(service, 'conflicted');
    const other = await database.serve({ resources: [...RESOURCES, conflicted] });
    const attempts = async (): Promise<number> =>
      (await database.standbyLog()).match(/ERROR: {2}canceling statement due to conflict/g)?.length ?? 0;
    t.after(async () => {
      await other.close();
      await sql.unsafe('drop view conflicted; drop function conflict');
      await sql.end();
    });
    await until('the standby', async () => sum(await other.metric('in_rotation')) === 1);
    const before = await attempts();
    for (let reads = 1; reads <= 3; reads += 1) {
      const { text } = await other.request(`/api/conflicted/?id=${json.id}`);
      assert.match(text, /"conflict":1/);
      assert.equal((await attempts()) - before, reads);
    }
  });

  test('a read on a canceled statement of the standby runs on the primary', async () => {
    // A conflict with the replay ends a statement like this: FATAL and 57P01, or 40001.
    let isOver = false;
    const ending = (async () => {
      while (!isOver)
        await standby().sql.unsafe(
          "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'vitrine'",
        );
    })();
    for (let turn = 0; turn < 200; turn += 1) {
      const { status } = await service.request(`/api/note/?ordering=-text&limit=${1 + (turn % 9)}`);
      assert.equal(status, 200);
    }
    isOver = true;
    await ending;
  });
});

/** Logs ada in. @returns the cookie of the session */
async function logIn(service: ReplicatedService): Promise<string> {
  const page = await service.request('/admin/-/login/');
  const [, csrf = ''] = /name="_csrf" value="([^"]+)"/.exec(page.text) ?? [];
  const [login = ''] = (page.headers.getSetCookie()[0] ?? '').split(';');
  const { headers, status } = await service.request('/admin/-/login/', {
    method: 'POST',
    headers: { Cookie: login, 'Content-Type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ _csrf: csrf, username: 'ada', password: 'pw-ada', next: '' }).toString(),
  });
  assert.equal(status, 303);
  return headers
    .getSetCookie()
    .map((one) => one.split(';')[0])
    .join('; ');
}

describe('with two standbys', () => {
  let database: ReplicatedDatabase;
  before(async () => (database = await createReplicatedDatabase(2)));
  after(() => database.drop());

  test('thousands of reads after writes show the write, while one is delayed and the other pauses and restarts', async () => {
    const [delayed] = database.standbys;
    await configure(delayed!, 'recovery_min_apply_delay', '300ms');
    const counts = await runPairs(database, { pairs: 3_000, clients: 16, hasFaults: true });
    assert.deepEqual([counts.stale, counts.violations, counts.failed], [0, [], []]);
    assert.ok(counts.pairs >= 3_000);
    assert.ok(counts.onStandby > 0 && counts.controlStale > 0);
    assert.ok(counts.othersOnStandby > counts.others / 2);
    await configure(delayed!, 'recovery_min_apply_delay', '0');
  });

  test('no read fails while standbys freeze, die and are promoted, nor without any', async () => {
    const again = await createReplicatedDatabase(2);
    const service = await again.serve();
    const statuses = new Map<number, number>();
    let isOver = false;
    const client = async (): Promise<void> => {
      while (!isOver) {
        const { status } = await service.request('/api/note/?ordering=text');
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    };
    const clients = Promise.all([client(), client(), client()]);
    const inRotation = (count: number): Promise<unknown> =>
      until(`${count} in the rotation`, async () => sum(await service.metric('in_rotation')) === count);
    const [first, second] = [again.standbys[0]!, again.standbys[1]!];
    await inRotation(2);
    await first.signal('SIGSTOP', true);
    await inRotation(1);
    await first.signal('SIGCONT', true);
    await inRotation(2);
    await first.stop();
    await inRotation(1);
    await second.sql.unsafe('select pg_promote()');
    await inRotation(0);
    await first.start();
    await inRotation(1);
    isOver = true;
    await clients;
    assert.deepEqual([...statuses.keys()], [200]);
    const messages = service.lines.map(({ message }) => String(message));
    assert.ok(messages.some((message) => message.endsWith('it is not a standby')));
    await service.close();
    await again.drop();
  });

  test('anonymous reads go on without the primary until MAX_LAG has passed', async () => {
    const again = await createReplicatedDatabase(1);
    const service = await again.serve({ maxLag: 5 });
    await until('the standby', async () => sum(await service.metric('in_rotation')) === 1);
    assert.equal((await service.request('/api/note/')).status, 200);
    await again.primary.stop();
    assert.equal((await service.request('/api/note/')).status, 200);
    assert.equal((await service.request('/api/user/', { user: 'ada' })).status, 503);
    assert.equal((await service.request('/readyz')).status, 503);
    const lost = await post(service, 'lost');
    assert.equal(lost.status, 503);
    await until('MAX_LAG', async () => (await service.request('/api/note/')).status === 503);
    await service.close();
    await again.drop();
  });
});

describe('DATABASE_READ_URL', () => {
  let database: ReplicatedDatabase;
  before(async () => (database = await createReplicatedDatabase(1)));
  after(() => database.drop());

  const refusal = async (url: string): Promise<string> => {
    const error: unknown = await database.serve({ databaseReadUrl: [url] }).then(
      async (service) => service.close(),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof StartError);
    return error.message;
  };

  test('with a server of another system stops the start with that reason', async () => {
    const other = await createDatabase();
    const message = await refusal(other.url);
    await other.drop();
    assert.match(
      message,
      /^DATABASE_READ_URL cannot be used:\n {2}- [\d.:]+: it belongs to another system \(system identifier \d+, not \d+\)$/,
    );
  });

  test('with a server that refuses the service stops the start', async () => {
    const [standby] = database.standbys;
    const url = new URL(standby!.url);
    url.username = 'nobody';
    assert.match(await refusal(url.href), /password authentication failed/);
  });

  test('with an unreachable server, or with the primary itself, is a warning', async () => {
    const urls = ['postgres://a:b@127.0.0.1:1/vitrine', database.primary.url];
    const service = await database.serve({ databaseReadUrl: urls });
    assert.deepEqual(await service.metric('in_rotation'), [0, 0]);
    const warnings = (): string =>
      service.lines
        .filter(({ level }) => level === 'warn')
        .map(({ message }) => String(message))
        .join('\n');
    await until('the warnings', () => Promise.resolve(/ not a standby/.test(warnings())));
    assert.match(warnings(), /127\.0\.0\.1:1 does not answer reads: connect ECONNREFUSED/);
    assert.match(warnings(), /does not answer reads: it is not a standby/);
    assert.equal((await service.request('/api/note/')).status, 200);
    await service.close();
  });

  test('with a replica that comes later uses it then', async () => {
    const [standby] = database.standbys;
    await standby!.stop('fast');
    const service = await database.serve();
    assert.deepEqual(await service.metric('in_rotation'), [0]);
    await standby!.start();
    await until('the standby', async () => sum(await service.metric('in_rotation')) === 1);
    await service.close();
  });

  test('with a standby of another system is not used when it is ahead, if the role may not see the system', async () => {
    const other = await createReplicatedDatabase(1);
    const [standby] = other.standbys;
    for (const { primary } of [database, other]) {
      const url = new URL(primary.superuserUrl);
      url.pathname = new URL(primary.url).pathname;
      const sql = postgres(url.href, { max: 1 });
      await sql.unsafe('revoke execute on function pg_control_system() from public');
      await sql.end();
    }
    await (await other.serve()).close(); // creates the tables
    for (let segments = 0; segments < 5; segments += 1)
      await other.primary.sql.unsafe(`select pg_switch_wal() from pg_logical_emit_message(false, 'a', 'b')`);
    const [written] = await other.primary.sql`select pg_current_wal_flush_lsn()::text as position`;
    await until('the replay', async () => {
      const rows = await standby!.sql`
        select where pg_last_wal_replay_lsn() >= ${String(written?.['position'])}::pg_lsn`;
      return rows.length > 0;
    });
    const service = await database.serve({ databaseReadUrl: [standby!.url] });
    const isAhead = (): boolean =>
      service.lines.some(({ message }) => String(message).endsWith('it is ahead of the primary'));
    await until('the line of the log', isAhead);
    assert.equal((await service.request('/api/note/')).status, 200);
    assert.deepEqual([await service.metric('in_rotation'), await service.metric('reads_total')], [[0], [0]]);
    await service.close();
    await other.drop();
  });
});
