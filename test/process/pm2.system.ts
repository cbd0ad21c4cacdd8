// What PM2 does with the ecosystem file, done by Node's own cluster, on which PM2's cluster mode is built.
import assert from 'node:assert/strict';
import cluster, { type Worker } from 'node:cluster';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createDatabase, request, type TestDatabase } from '../support.ts';
import { hammer, type Load } from './load.ts';
import { addUser, freePort, INSTALLATION, serve, temporaryFolder, until } from './support.ts';
import { after, before, describe, test } from 'node:test';

interface App {
  readonly script: string;
  readonly args: string;
  readonly node_args: readonly string[];
  readonly exec_mode: string;
  readonly instances: number;
  readonly wait_ready: boolean;
  readonly listen_timeout: number;
  readonly kill_timeout: number;
  readonly env: Readonly<Record<string, string>>;
}

const ecosystem = createRequire(import.meta.url)(join(INSTALLATION, 'deploy/ecosystem.config.cjs')) as {
  readonly apps: readonly App[];
};

/** Processes in cluster mode. */
const INSTANCES = 2;

describe('the ecosystem file for PM2', () => {
  const [app] = ecosystem.apps as [App];
  let database: TestDatabase;
  let env: Record<string, string>;
  let base: string;
  let output = '';
  const workers = new Set<Worker>();
  let load: Load | undefined;

  /** Starts a process under a number, and waits for the message that it is ready, as `wait_ready` does. */
  async function launch(instance: number): Promise<Worker> {
    const worker = cluster.fork({ ...env, NODE_APP_INSTANCE: String(instance) });
    workers.add(worker);
    for (const stream of [worker.process.stdout, worker.process.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
    const [message] = (await Promise.race([once(worker, 'message'), once(worker, 'exit')])) as unknown[];
    assert.equal(message, 'ready', output);
    return worker;
  }

  async function stop(worker: Worker): Promise<number | null> {
    const ended = once(worker, 'exit', { signal: AbortSignal.timeout(40_000) });
    worker.process.kill('SIGINT');
    const [code] = await ended;
    workers.delete(worker);
    return code as number | null;
  }

  before(async () => {
    database = await createDatabase();
    await (await serve({ env: { DATABASE_URL: database.url } })).stop(); // makes the tables
    await addUser(database.sql, 'ada');
    const port = await freePort();
    base = `http://127.0.0.1:${port}`;
    const metrics = await freePort(INSTANCES); // one of each process
    env = { DATABASE_URL: database.url, PORT: String(port), METRICS: `127.0.0.1:${metrics}` };
    cluster.setupPrimary({
      exec: join(INSTALLATION, app.script),
      args: app.args.split(' '),
      execArgv: [...app.node_args],
      cwd: await temporaryFolder(),
      silent: true,
    });
  });
  after(async () => {
    for (const worker of workers) worker.process.kill('SIGKILL');
    await load?.stop();
    await database.drop();
  });

  test('asks for one process in fork mode, and for the time that a start and a stop need', () => {
    assert.equal(app.exec_mode, 'fork');
    assert.equal(app.instances, 1);
    assert.ok(app.env['WORKERS']);
    assert.equal(app.wait_ready, true);
    // A database may need its time at the start, and the last requests theirs at the end.
    assert.ok(app.listen_timeout >= 30_000);
    assert.ok(app.kill_timeout >= 15_000);
    assert.equal(app.env['NODE_ENV'], 'production');
  });

  test('in cluster mode, a reload of every process under load drops no request, and does no write twice', async () => {
    const running = await Promise.all(Array.from({ length: INSTANCES }, (_, at) => launch(at)));
    const client = hammer(base, 'ada');
    load = client;
    for (const [at, old] of running.entries()) {
      const known = client.tally().answered;
      await until('the load to be on', () => client.tally().answered > known + 100);
      running[at] = await launch(at);
      assert.equal(await stop(old), 0);
    }
    const known = client.tally().answered;
    await until('the new processes to be asked', () => client.tally().answered > known + 100);
    const { sent, answered, faults, created } = await client.stop();
    assert.deepEqual(faults, []);
    assert.equal(answered, sent);
    const rows = await database.sql<{ content: string }[]>`select content from message`;
    assert.deepEqual(rows.map(({ content }) => content).sort(), [...created].sort());

    // Each counts for itself, at a port of its own, and not where any of them may answer.
    const [host = '', port = ''] = (env['METRICS'] ?? '').split(':');
    const starts = new Set<string>();
    for (const at of running.keys()) {
      const metrics = await until('the metrics of the new process', async () => {
        const { text } = await request(`http://${host}:${Number(port) + at}`, '/metrics');
        return text;
      });
      starts.add(/^process_start_time_seconds (.*)$/m.exec(metrics)?.[1] ?? '');
    }
    assert.equal(starts.size, running.length);
    assert.equal((await request(base, '/metrics')).status, 404);
    for (const worker of running) assert.equal(await stop(worker), 0);
    // Said by the first process, at its start and at its reload.
    assert.equal(
      (output.match(/each process of this cluster counts failed logins/g) ?? []).length,
      2,
      output,
    );
  });

  test('in cluster mode, WORKERS is refused', async () => {
    const worker = cluster.fork({ ...env, WORKERS: '2' });
    let errors = '';
    worker.process.stderr?.setEncoding('utf8').on('data', (text: string) => (errors += text));
    const [code] = await once(worker, 'exit');
    assert.equal(code, 1);
    assert.match(errors, /WORKERS must be 1 in a process that another program has started as one of several/);
  });

  test('in fork mode, it is ready when all processes serve, and SIGHUP replaces them', async (t) => {
    const { PATH = '', HOME = '' } = process.env;
    const child = fork(join(INSTALLATION, app.script), app.args.split(' '), {
      cwd: await temporaryFolder(),
      execArgv: [...app.node_args],
      env: { PATH, HOME, ...env, NODE_ENV: 'production', WORKERS: '2' },
      silent: true,
    });
    let log = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (log += text));
    t.after(() => child.kill('SIGKILL'));
    const [message] = (await Promise.race([once(child, 'message'), once(child, 'exit')])) as unknown[];
    assert.equal(message, 'ready', log);
    const client = hammer(base, 'ada');
    load = client;
    child.kill('SIGHUP');
    await until('the reload', () => log.includes('"message":"reloaded"'));
    const { sent, answered, faults } = await client.stop();
    assert.deepEqual([faults, answered], [[], sent]);
    child.kill('SIGINT');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });
});
