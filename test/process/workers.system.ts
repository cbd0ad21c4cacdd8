// `vitrine serve` with WORKERS: several processes over one port, which share what they count.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fieldsOf, logIn, type AdminAnswer, type Fields } from '../admin/support.ts';
import { closeIdleConnections } from '../send.ts';
import { basic, createDatabase, request, useDatabase } from '../support.ts';
import { hammer } from './load.ts';
import {
  addressesOf,
  addUser,
  connections,
  EXECUTABLE,
  folderWith,
  freePort,
  INSTALLATION,
  listening,
  run,
  serve,
  start,
  temporaryFolder,
  until,
  type Serving,
} from './support.ts';
import { allEnded, ask, isRunning, lines, metric, whileAlone, workersOf } from './workers-support.ts';
import { describe, test } from 'node:test';

describe('WORKERS', () => {
  let record: number;
  const database = useDatabase('', async () => {
    await (await serve({ env: { DATABASE_URL: database.url } })).stop(); // makes the tables
    const user_id = await addUser(database.sql, 'ada');
    const message = { user_id, content: 'before' };
    const [row] = await database.sql`insert into message ${database.sql(message)} returning id`;
    record = Number(row?.['id']);
  });

  const serveWith = async (
    env: Record<string, string>,
    options: { cwd?: string; fromSource?: boolean } = {},
  ): Promise<Serving> => {
    const common = { DATABASE_URL: database.url, WORKERS: '3', METRICS: `127.0.0.1:${await freePort()}` };
    return serve({ ...options, env: { ...common, ...env } });
  };

  test('starts so many processes, prints the addresses once, and ends all of them with 0', async () => {
    const service = await serveWith({});
    const workers = workersOf(service);
    assert.equal(workers.length, 3);
    assert.equal(service.stdout(), addressesOf(service.base));
    for (const worker of workers)
      await whileAlone(worker, service, async () =>
        assert.equal((await ask(service.base, '/api/note/')).status, 200),
      );
    const { code, stderr } = await service.stop();
    assert.equal(code, 0, stderr);
    await allEnded(workers);
    const served = stderr.match(/"worker":\d,.*"path":"\/api\/note\/"/g) ?? [];
    assert.equal(new Set(served.map((line) => /"worker":(\d)/.exec(line)?.[1])).size, 3, stderr);
    assert.equal(lines(service, /shutting down/), 1);
    assert.equal(lines(service, /RESOURCES is not set/), 1);
  });

  test('creates the schema once', async (t) => {
    const empty = await createDatabase();
    t.after(() => empty.drop());
    const service = await serveWith({ DATABASE_URL: empty.url });
    assert.equal(lines(service, /"message":"created tables/), 1);
    assert.equal(lines(service, /no user may open the admin area/), 1);
    assert.equal((await service.stop()).code, 0);
  });

  test('a process that is killed is replaced, and the others serve meanwhile', async () => {
    const service = await serveWith({});
    const before = workersOf(service);
    process.kill(before[0] ?? 0, 'SIGKILL');
    await until('the crash to be noticed', () => lines(service, /has ended unexpectedly \(SIGKILL\)/) === 1);
    for (let count = 0; count < 9; count += 1)
      assert.equal((await ask(service.base, '/api/note/')).status, 200);
    await until('a replacement', async () => (await metric(service, 'vitrine_processes')) === 3);
    assert.equal(await metric(service, 'vitrine_process_restarts_total'), 1);
    assert.equal(workersOf(service).filter((pid) => before.includes(pid)).length, 2);
    assert.equal((await service.stop()).code, 0);
  });

  test('a process that is frozen takes no connections, and is replaced when it is killed', async () => {
    const service = await serveWith({ WORKERS: '2' });
    const [frozen = 0] = workersOf(service);
    process.kill(frozen, 'SIGSTOP');
    const askOften = (): Promise<void> =>
      Promise.all(Array.from({ length: 20 }, () => ask(service.base, '/api/note/'))).then((answers) =>
        answers.forEach(({ status }) => assert.equal(status, 200)),
      );
    await askOften();
    process.kill(frozen, 'SIGKILL');
    await askOften();
    await until('a replacement', async () => (await metric(service, 'vitrine_processes')) === 2);
    assert.equal((await service.stop()).code, 0);
  });

  test('processes that crash again and again are replaced more and more slowly', async () => {
    const service = await serveWith({ WORKERS: '2' });
    for (let count = 1; count <= 3; count += 1) {
      process.kill(workersOf(service).at(-1) ?? 0, 'SIGKILL');
      await until('the crash to be noticed', () => lines(service, /ended unexpectedly/) === count);
      await until('a replacement', () => workersOf(service).length === 2);
    }
    const delays = [...service.stderr().matchAll(/process (\d) has .* another in ([\d.]+) s/g)];
    const seconds = delays.map(([, , delay]) => Number(delay));
    assert.ok(Math.max(...seconds) > 0.25, String(seconds));
    assert.equal((await service.stop()).code, 0);
  });

  // Node.js emits the first of these errors, and throws the second one.
  for (const [error, spoil] of [
    ['ENOENT', () => Promise.resolve()],
    ['ELOOP', (path: string) => symlink(path, path)],
  ] as const)
    test(`a process that cannot be started (${error}) is tried again, and holds up no reload and no stop`, async () => {
      const cwd = await folderWith({ 'executable.cjs': `process.execPath = __dirname + '/node';` });
      const executable = join(cwd, 'node');
      await symlink(process.execPath, executable);
      const failures = new RegExp(
        `process \\d has .*cannot be started: spawn .*${error}\\); starting another`,
      );
      const program = await start(['--require', './executable.cjs', EXECUTABLE, 'serve'], {
        command: process.execPath,
        cwd,
        env: {
          DATABASE_URL: database.url,
          WORKERS: '2',
          PORT: '0',
          METRICS: `127.0.0.1:${await freePort()}`,
        },
      });
      const service = await listening(program);
      const [, second = 0] = workersOf(service);

      await rm(executable);
      await spoil(executable);
      process.kill(second, 'SIGKILL');
      await until('failed attempts', () => lines(service, failures) >= 2);
      service.child.kill('SIGHUP');
      const refusal = new RegExp(
        `not reloaded: .* then the new process has ended \\(cannot be started: .*${error}\\)`,
      );
      await until('the end of the reload', () => lines(service, refusal) === 1);
      assert.equal((await ask(service.base, '/api/note/')).status, 200);

      await rm(executable, { force: true });
      await symlink(process.execPath, executable);
      await until('a replacement', async () => (await metric(service, 'vitrine_processes')) === 2);

      await rm(executable);
      await spoil(executable);
      const known = lines(service, failures);
      process.kill(workersOf(service).at(-1) ?? 0, 'SIGKILL');
      await until('a failed attempt', () => lines(service, failures) > known);
      const { code, stderr } = await service.stop();
      assert.equal(code, 0, stderr);
    });

  test('a start that cannot start a process ends with the reason', async () => {
    for (const [path, error] of [
      ['/missing/node', 'ENOENT'],
      [`/dev/null/node`, 'ENOTDIR'],
    ]) {
      const cwd = await folderWith({ 'executable.cjs': `process.execPath = '${path}';` });
      const { code, stdout, stderr } = await run(['--require', './executable.cjs', EXECUTABLE, 'serve'], {
        command: process.execPath,
        cwd,
        env: { DATABASE_URL: database.url, WORKERS: '2', PORT: '0' },
      });
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(
        stderr,
        new RegExp(`^vitrine: Process 1 of WORKERS cannot be started: spawn .*${error}\\.`, 'm'),
      );
    }
  });

  test('all processes finish their requests and end when the first one is killed', async () => {
    const service = await serveWith({});
    const workers = workersOf(service);
    let answer: ReturnType<typeof request> | undefined;
    await database.sql.begin(async (transaction) => {
      await transaction`select from message where id = ${record} for update`;
      const body = { content: 'after' };
      answer = request(service.base, `/api/message/${record}/`, { method: 'PUT', user: 'ada', body });
      await until(
        'the PUT to wait',
        async () =>
          (await connections(database.sql, `wait_event_type = 'Lock' and query ilike '%message%'`)) > 0,
      );
      service.child.kill('SIGKILL');
      await until('the idle ones to end', () => workers.filter(isRunning).length === 1);
    });
    const { status, json } = (await answer)!;
    assert.deepEqual([status, json.content], [200, 'after']);
    await allEnded(workers);
  });

  test('SIGHUP reads .env again and replaces the processes one by one, without a failed request', async () => {
    const cwd = await temporaryFolder();
    await writeFile(join(cwd, '.env'), 'DATETIME_FORMAT=plain\n');
    const service = await serveWith({}, { cwd });
    const format = async (): Promise<string> => (await ask(service.base, `/api/message/${record}/`)).text;
    assert.match(await format(), /"pub_date": ?"\d{4}-\d\d-\d\d /);
    const client = hammer(service.base, 'ada');
    await until('the load to be on', () => client.tally().answered > 100);
    const before = workersOf(service);
    await writeFile(join(cwd, '.env'), 'DATETIME_FORMAT=iso\n');
    service.child.kill('SIGHUP');
    await until('the reload', () => lines(service, /"message":"reloaded"/) === 1, 90);
    const known = client.tally().answered;
    await until('the new processes to be asked', () => client.tally().answered > known + 100);
    const { sent, answered, faults, created } = await client.stop();
    assert.deepEqual(faults, []);
    assert.equal(answered, sent);
    assert.deepEqual(
      workersOf(service).filter((pid) => before.includes(pid)),
      [],
    );
    for (let count = 0; count < 3; count += 1) assert.match(await format(), /"pub_date": ?"[^" ]+T[^" ]+Z"/);
    const rows = await database.sql<{ content: string }[]>`select content from message where id <> ${record}`;
    assert.deepEqual(rows.map(({ content }) => content).sort(), [...created].sort());
    // What the processes that are gone have counted stays in the sums.
    assert.ok((await metric(service, COLLECTION_READS)) >= (sent - created.length) * 0.9);

    await writeFile(join(cwd, '.env'), 'DATETIME_FORMAT=wrong\n');
    const current = workersOf(service);
    service.child.kill('SIGHUP');
    await until('the refusal', () =>
      lines(
        service,
        /not reloaded: 0 of 3 processes were replaced, then the new process has ended \(exit code 1\)/,
      ),
    );
    await until('the reason', () => lines(service, /DATETIME_FORMAT must be one of plain, iso/) === 1);
    await until('the new process to be gone', () => workersOf(service).length === current.length);
    assert.deepEqual(workersOf(service), current);
    assert.match(await format(), /"pub_date": ?"[^" ]+T[^" ]+Z"/);
    assert.equal((await service.stop()).code, 0);
  });

  test('a reload that ends in the middle says how many processes it has replaced', async () => {
    const cwd = await folderWith({
      // Each process that loads it during the reload adds a letter to the file. The second one fails.
      'registry.mjs': `import { appendFileSync, existsSync, readFileSync } from 'node:fs';
        if (existsSync('reload')) appendFileSync('reload', 'x');
        if (existsSync('reload') && readFileSync('reload', 'utf8') === 'xx') throw new Error('not now');
        export default [{ model: 'thing', columns: {} }];`,
    });
    const env = { DATABASE_URL: database.url, RESOURCES: 'registry.mjs', WORKERS: '3' };
    const service = await serve({ cwd, env });
    const before = workersOf(service);
    await writeFile(join(cwd, 'reload'), '');
    service.child.kill('SIGHUP');
    const message = /not reloaded: 1 of 3 processes were replaced, then .*; reload again/;
    await until('the failure', () => lines(service, message) === 1);
    const kept = (): number => workersOf(service).filter((pid) => before.includes(pid)).length;
    await until('the new process to be gone', () => workersOf(service).length === 3);
    assert.equal(kept(), 2);
    service.child.kill('SIGHUP');
    await until('the reload', () => lines(service, /"message":"reloaded"/) === 1);
    assert.equal(kept(), 0);
    assert.equal((await service.stop()).code, 0);
  });

  test('SIGHUP during a reload that waits for its database takes the corrected .env', async () => {
    const cwd = await folderWith({ '.env': `DATABASE_URL=${database.url}\n` });
    const service = await serve({ cwd, env: { WORKERS: '2' } });
    const before = workersOf(service);
    await writeFile(join(cwd, '.env'), `DATABASE_URL=postgres://x@127.0.0.1:${await freePort()}/x\n`);
    service.child.kill('SIGHUP');
    await until('the wait', () => lines(service, /waiting for the database/) > 0);
    assert.equal((await ask(service.base, '/api/note/')).status, 200);

    await writeFile(join(cwd, '.env'), `DATABASE_URL=${database.url}\n`);
    service.child.kill('SIGHUP');
    await until('the reload', () => lines(service, /"message":"reloaded"/) === 1);
    assert.equal(lines(service, /SIGHUP: reloading one process after the other/), 2);
    assert.equal(lines(service, /not reloaded/), 0);
    const current = workersOf(service);
    assert.equal(current.length, 2);
    assert.ok(!current.some((pid) => before.includes(pid)), current.join());
    assert.equal((await ask(service.base, '/api/note/')).status, 200);
    assert.equal((await service.stop()).code, 0);
  });

  const COLLECTION_READS = 'vitrine_http_requests_total{route="/api/{model}/",method="GET",status="200"}';

  test('the metrics are those of all processes, whichever is asked', async () => {
    const service = await serveWith({});
    for (let count = 0; count < 30; count += 1) await ask(service.base, '/api/note/');
    // A process that takes more than a second to answer is there with its latest metrics.
    for (let count = 0; count < 6; count += 1)
      await until('the sum', async () => (await metric(service, COLLECTION_READS)) === 30);
    await until('three processes', async () => (await metric(service, 'vitrine_processes')) === 3);
    assert.equal(lines(service, /metrics at /), 1);
    assert.equal((await service.stop()).code, 0);
  });

  test('failed logins count together, and do not lock out a client that is at work', async () => {
    const service = await serveWith({ TRUST_PROXY: '1' });
    const login = (address: string, name: string, password?: string): Promise<number> =>
      ask(
        service.base,
        '/api/message/',
        {
          authorization: basic(name, password),
          'x-forwarded-for': address,
        },
        'POST',
        '{}',
      ).then(({ status }) => status);
    const tally = async (attempts: Promise<number>[]): Promise<Record<string, number>> => {
      const counts: Record<string, number> = {};
      for (const status of await Promise.all(attempts)) counts[status] = (counts[status] ?? 0) + 1;
      return counts;
    };
    const count = (total: Record<string, number>[], status: string): number =>
      total.reduce((sum, one) => sum + (one[status] ?? 0), 0);

    // Of one address, ten in a minute, and as many more as were on their way in the other processes: a round or two.
    const guesses: Record<string, number>[] = [];
    for (let round = 0; round < 8; round += 1)
      guesses.push(
        await tally(Array.from({ length: 6 }, (_, at) => login('192.0.2.1', `name ${round} ${at}`))),
      );
    assert.ok(count(guesses, '401') >= 10 && count(guesses, '401') <= 10 + 12, JSON.stringify(guesses));
    assert.ok(count(guesses, '429') >= 26, JSON.stringify(guesses));

    // Of one name from many addresses, fifty.
    assert.equal(await login('198.51.100.1', 'ada'), 400); // the right password, and an empty body
    const others: Record<string, number>[] = [];
    for (let round = 0; round < 14; round += 1)
      others.push(
        await tally(Array.from({ length: 6 }, (_, at) => login(`203.0.113.${round}`, 'ada', `wrong ${at}`))),
      );
    assert.ok(count(others, '401') >= 50 && count(others, '401') <= 50 + 12, JSON.stringify(others));
    assert.equal(await login('203.0.113.99', 'ada'), 429);
    for (let times = 0; times < 9; times += 1) assert.equal(await login('198.51.100.1', 'ada'), 400);

    // A process that starts later knows both.
    process.kill(workersOf(service)[0] ?? 0, 'SIGKILL');
    await until('the crash to be noticed', () => lines(service, /has ended unexpectedly/) === 1);
    await until('a replacement', async () => (await metric(service, 'vitrine_processes')) === 3);
    for (let times = 0; times < 6; times += 1) {
      assert.equal(await login('203.0.113.98', 'ada'), 429);
      assert.equal(await login('198.51.100.1', 'ada'), 400);
    }
    assert.equal((await service.stop()).code, 0);
  });

  test('a form whose session has expired comes back after the login, whichever processes get the two', async () => {
    const service = await serveWith({});
    await addUser(database.sql, 'boss');
    await database.sql`update "user" set admin = true where username = 'boss'`;
    const address = `/admin/message/${record}/`;
    const login = { username: 'boss', password: 'pw-boss' };
    const [first = 0, second = 0] = workersOf(service);
    for (const [before, after] of [
      [first, second],
      [second, first],
    ] as const) {
      const browser = await logIn(service, 'boss');
      const typed = { ...fieldsOf(await browser.get(address)), content: `typed before ${before}` };
      await database.sql`update vitrine_session set seen = seen - interval '13 hours'`;
      const postTo = (worker: number, path: string, fields: Fields): Promise<AdminAnswer> => {
        closeIdleConnections(service.base);
        return whileAlone(worker, service, () => browser.post(path, fields));
      };
      const loginPage = await postTo(before, address, typed);
      assert.equal(loginPage.status, 401);
      const back = await postTo(after, '/admin/-/login/', { ...fieldsOf(loginPage), ...login });
      assert.equal(fieldsOf(back)['content'], typed.content);
    }
    closeIdleConnections(service.base);
    assert.equal((await service.stop()).code, 0);
  });

  test('RATE_LIMIT counts the requests to all processes', async () => {
    const service = await serveWith({ RATE_LIMIT: '1,20' });
    const began = Date.now();
    let admitted = 0;
    for (const worker of workersOf(service)) {
      await whileAlone(worker, service, async () => {
        for (let count = 0; count < 60 && (await ask(service.base, '/api/note/')).status === 200; count += 1)
          admitted += 1;
      });
      await sleep(250); // longer than the processes take to tell each other
    }
    const seconds = (Date.now() - began) / 1000;
    assert.ok(admitted >= 20, String(admitted));
    // Without sharing, it would be 60 and 1 per second in each process.
    assert.ok(admitted <= 20 + seconds + 12, `${admitted} in ${seconds} s`);
    assert.equal((await service.stop()).code, 0);
  });

  test('an error of the start is reported once, and ends the service with its exit code', async () => {
    const cwd = await folderWith({ 'books.mjs': 'export default [{ model: 1 }];' });
    const env = { DATABASE_URL: database.url, WORKERS: '2', RESOURCES: 'books.mjs' };
    const { code, stderr, stdout } = await run(['serve'], { cwd, env });
    assert.deepEqual([code, stdout], [1, '']);
    assert.equal((stderr.match(/The registry cannot be used/g) ?? []).length, 1, stderr);
    const port = String(await freePort());
    const holder = await serve({ env: { DATABASE_URL: database.url, PORT: port } });
    const second = await run(['serve'], { env: { DATABASE_URL: database.url, WORKERS: '2', PORT: port } });
    assert.equal(second.code, 1);
    assert.match(second.stderr, /^vitrine: Cannot listen on 127\.0\.0\.1:\d+: /m);
    await holder.stop();
  });

  test('the embedded database is started and filled once, and stopped at the end', async () => {
    const service = await serve({ fromSource: true, env: { WORKERS: '2' } });
    const workers = workersOf(service);
    const passwords = [...service.stdout().matchAll(/"admin" with the password (\S+)$/gm)];
    assert.equal(passwords.length, 1);
    const authorization = basic('admin', passwords[0]?.[1]);
    for (let count = 0; count < 4; count += 1)
      assert.equal(
        (await ask(service.base, '/api/note/', { authorization }, 'POST', '{"message":"x"}')).status,
        201,
      );
    const { code, stderr } = await service.stop();
    assert.equal(code, 0, stderr);
    await allEnded(workers);
  });

  test('runs confined: only the first process may start others', async () => {
    const program = await start([join(INSTALLATION, 'bin/confined'), 'serve'], {
      command: 'sh',
      env: { DATABASE_URL: database.url, WORKERS: '2', PORT: '0', NODE: process.execPath },
    });
    const service = await listening(program);
    for (let count = 0; count < 4; count += 1)
      assert.equal((await ask(service.base, '/api/note/')).status, 200);
    assert.equal(workersOf(service).length, 2);
    assert.equal((await service.stop()).code, 0);
    const cwd = await folderWith({ '.env': 'WORKERS=2\n' });
    const other = await run([join(INSTALLATION, 'bin/confined'), 'serve'], {
      command: 'sh',
      cwd,
      env: { DATABASE_URL: database.url, NODE: process.execPath },
    });
    assert.equal(other.code, 1);
    assert.match(other.stderr, /^vitrine: WORKERS needs the flag --allow-child-process of Node\.js\./m);
  });

  test('SIGHUP while a single process loads its registry does not end the start', async () => {
    const cwd = await folderWith({
      // It is loaded until the test writes the file "go".
      'registry.mjs': `import { existsSync, writeFileSync } from 'node:fs';
        writeFileSync('loading', '');
        while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 20));
        export default [{ model: 'thing', columns: {} }];`,
    });
    const env = { DATABASE_URL: database.url, RESOURCES: 'registry.mjs', PORT: '0' };
    const program = await start(['serve'], { cwd, env });
    await until('the registry to be loaded', () => existsSync(join(cwd, 'loading')));
    program.child.kill('SIGHUP');
    await writeFile(join(cwd, 'go'), '');
    const service = await listening(program);
    assert.equal((await ask(service.base, '/api/thing/')).status, 200);
    assert.equal((await service.stop()).code, 0);
  });

  test('a single process without a terminal ignores SIGHUP, and says so', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url } });
    service.child.kill('SIGHUP');
    await until('the warning', () => lines(service, /SIGHUP: nothing is reloaded/) === 1);
    assert.equal((await ask(service.base, '/api/note/')).status, 200);
    assert.equal((await service.stop()).code, 0);
  });
});
