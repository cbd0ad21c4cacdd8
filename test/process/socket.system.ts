import assert from 'node:assert/strict';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { get } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request, useDatabase } from '../support.ts';
import { hammer } from './load.ts';
import {
  addressesOf,
  addUser,
  EXECUTABLE,
  freePort,
  run,
  serve,
  start,
  temporaryFolder,
  until,
} from './support.ts';
import { ask, workersOf } from './workers-support.ts';
import { describe, test } from 'node:test';

/** Stands for systemd: holds a listening socket, never accepts anything, and starts services that get it as their first. */
interface Holder {
  readonly base: string;
  readonly output: () => string;
  /** Starts one more service. Gives its process id. */
  readonly launch: () => Promise<number>;
  /** Waits until a service has said for the n-th time that it listens. */
  readonly ready: (count: number) => Promise<unknown>;
  /** Ends a service. Gives its exit code. */
  readonly stop: (pid: number) => Promise<number>;
  /** Waits for the end of a service. Gives its exit code. */
  readonly ended: (pid: number) => Promise<number>;
  readonly close: () => void;
}

const holders = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of holders) if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
});

/** A shell does it: what it starts inherits its open files. */
async function hold(env: Record<string, string>): Promise<Holder> {
  const socket = createServer().listen(0, '127.0.0.1', 4096);
  await once(socket, 'listening');
  const { port } = socket.address() as AddressInfo;
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn('sh', [], {
    cwd: await temporaryFolder(),
    // Node has no public name for the number of a server's socket.
    stdio: ['pipe', 'pipe', 'pipe', (socket as unknown as { _handle: { fd: number } })._handle.fd],
    env: { PATH, HOME, NODE: process.execPath, EXECUTABLE, ...env },
    detached: true,
  });
  holders.add(child);
  socket.close(); // from here on the shell alone has it
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  const say = (line: string): void => void child.stdin?.write(`${line}\n`);
  const ended = async (pid: number): Promise<number> => {
    say(`wait ${pid}; echo "ended ${pid} $?"`);
    return Number(await until('the end', () => new RegExp(`^ended ${pid} (\\d+)$`, 'm').exec(output)?.[1]));
  };
  let launched = 0;
  return {
    base: `http://127.0.0.1:${port}`,
    output: () => output,
    launch: async () => {
      launched += 1;
      const mark = `launched ${launched} `;
      say(`sh -c 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$NODE" "$EXECUTABLE" serve' & echo "${mark}$!"`);
      const found = await until('the process id', () => new RegExp(`^${mark}(\\d+)$`, 'm').exec(output)?.[1]);
      return Number(found);
    },
    ready: (count) =>
      until('the service to listen', () => (output.match(/^listening on /gm) ?? []).length === count),
    stop: (pid) => {
      say(`kill -TERM ${pid}`);
      return ended(pid);
    },
    ended,
    close: () => {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      holders.delete(child);
    },
  };
}

describe('a socket that is passed as systemd passes it', () => {
  let env: Record<string, string>;
  const database = useDatabase('', async () => {
    env = { DATABASE_URL: database.url, LOG_LEVEL: 'warn' };
    await (await serve({ env })).stop(); // makes the tables
    await addUser(database.sql, 'ada');
  });

  const restarts: readonly [name: string, startsFirst: boolean, workers: string][] = [
    ['a restart, with nobody there for a while,', false, '1'],
    ['a second process that starts before the first one ends', true, '1'],
    ['a restart with two WORKERS', false, '2'],
  ];
  for (const [name, startsFirst, workers] of restarts) {
    test(`${name} drops no request under load, and does no write twice`, async (t) => {
      await database.sql`delete from message`;
      const holder = await hold({ ...env, HOST: 'nowhere.invalid', PORT: '1', WORKERS: workers });
      t.after(() => holder.close());
      let pid = await holder.launch();
      await holder.ready(1);
      const { port } = new URL(holder.base);
      const line = `listening on http://127.0.0.1:${port} (passed socket; HOST and PORT are ignored)`;
      assert.ok(holder.output().split('\n').includes(line), holder.output());
      const load = hammer(holder.base, 'ada');
      for (const round of [2, 3]) {
        const known = load.tally().answered;
        await until('the load to be on', () => load.tally().answered > known + 100);
        const next = startsFirst ? await holder.launch() : undefined;
        if (next !== undefined) await holder.ready(round);
        assert.equal(await holder.stop(pid), 0);
        pid = next ?? (await holder.launch());
        await holder.ready(round);
      }
      const known = load.tally().answered;
      await until('the last process to be asked', () => load.tally().answered > known + 100);
      const { sent, answered, faults, created } = await load.stop();
      assert.deepEqual(faults, []);
      assert.equal(answered, sent);
      const rows = await database.sql<{ content: string }[]>`select content from message`;
      assert.deepEqual(rows.map(({ content }) => content).sort(), [...created].sort());
      assert.equal(await holder.stop(pid), 0);
    });
  }

  test('connections wait while the service has no database yet, and see no 503', async (t) => {
    const port = await freePort();
    const holder = await hold({ ...env, DATABASE_URL: `postgres://nobody@127.0.0.1:${port}/none` });
    t.after(() => holder.close());
    const pid = await holder.launch();
    await until('the service to wait', () => holder.output().includes('waiting for the database'));
    const answer = request(holder.base, '/healthz').then(
      () => 'answered',
      () => 'cut',
    );
    assert.equal(await holder.stop(pid), 0);
    const later = new Promise((resolve) => setTimeout(resolve, 200, 'waiting'));
    assert.equal(await Promise.race([answer, later]), 'waiting');
  });

  test('if all processes of WORKERS are killed at once, the service ends with 1 and can be started again', async (t) => {
    const holder = await hold({ ...env, WORKERS: '2' });
    t.after(() => holder.close());
    const pid = await holder.launch();
    await holder.ready(1);
    const workers = (): number[] => workersOf({ child: { pid } as ChildProcess });
    const [first = 0] = workers();
    process.kill(first, 'SIGKILL');
    await until('a replacement', () => workers().length === 2 && !workers().includes(first));
    assert.equal((await ask(holder.base, '/readyz')).status, 200);
    // One kill for all, which says nothing of a process that has just ended by itself.
    spawnSync('kill', ['-KILL', ...workers().map(String)]);
    assert.equal(await holder.ended(pid), 1);
    assert.match(holder.output(), /"level":"error".*no process listens on the passed socket any longer/);
    const waiting = ask(holder.base, '/readyz');
    const next = await holder.launch();
    assert.equal((await waiting).status, 200);
    assert.equal(await holder.stop(next), 0);
  });

  test('while another program uses the port of METRICS, the processes of WORKERS try ever more rarely, because each try leaves files open', async (t) => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const holder = await hold({ ...env, WORKERS: '2', METRICS: `127.0.0.1:${port}` });
    t.after(() => {
      holder.close();
      other.close();
    });
    const pid = await holder.launch();
    await holder.ready(1);
    const tried = /"level":"warn".*cannot listen for metrics on .*, retrying/g;
    await until('both to try', () => holder.output().match(tried)?.length === 2);
    const openFiles = async (): Promise<number> => (await readdir(`/proc/${pid}/fd`)).length;
    const before = await openFiles();
    await sleep(5000);
    // With an interval of 250 ms, there would be 20.
    assert.ok((await openFiles()) <= before + 10);
    other.close();
    await until('the metrics', () => ask(`http://127.0.0.1:${port}`, '/metrics'));
    assert.equal(await holder.stop(pid), 0);
  });

  test('several sockets, and one that is none, end the start with the reason', async () => {
    const script = (count: number): string =>
      `export LISTEN_FDS=${count} LISTEN_PID=$$; exec "${process.execPath}" "${EXECUTABLE}" serve 3</dev/null`;
    for (const [count, reason] of [
      [2, /^vitrine: LISTEN_FDS must be 1 \(got 2\)\. /m],
      [1, /^vitrine: Cannot listen on the passed socket: /m],
    ] as const) {
      const { code, stderr, stdout } = await run(['-c', script(count)], { command: 'sh', env });
      assert.equal(code, 1);
      assert.equal(stdout, '');
      assert.match(stderr, reason);
    }
  });

  test('what was meant for another process is left alone', async () => {
    const service = await serve({ env: { ...env, LISTEN_FDS: '1', LISTEN_PID: '1' } });
    assert.equal((await request(service.base, '/readyz')).status, 200);
    assert.equal(service.stdout(), addressesOf(service.base));
    await service.stop();
  });

  const activator = spawnSync('systemd-socket-activate', ['--version']).status === 0;
  const options = { skip: activator ? false : 'there is no systemd-socket-activate here' };
  test('systemd-socket-activate starts it with the first connection', options, async () => {
    const port = await freePort();
    const words = [
      '-l',
      `127.0.0.1:${port}`,
      '-E',
      `DATABASE_URL=${database.url}`,
      process.execPath,
      EXECUTABLE,
    ];
    const program = await start([...words, 'serve'], { command: 'systemd-socket-activate' });
    await until('the socket', () => program.stderr().includes('Listening on'));
    const answer = request(`http://127.0.0.1:${port}`, '/readyz');
    assert.equal((await answer).status, 200);
    program.child.kill('SIGTERM');
    assert.equal((await program.ended).code, 0);
    assert.match(program.stdout(), /^listening on http:\/\/127\.0\.0\.1:\d+ \(passed socket;/);
  });

  test('a Unix socket does as well, and does not serve the metrics', options, async () => {
    const socketPath = join(await temporaryFolder(), 'vitrine.sock');
    const words = [
      '-l',
      socketPath,
      '-E',
      `DATABASE_URL=${database.url}`,
      process.execPath,
      EXECUTABLE,
      'serve',
    ];
    const program = await start(words, { command: 'systemd-socket-activate' });
    await until('the socket', () => program.stderr().includes('Listening on'));
    for (const [path, status] of Object.entries({ '/api/message/?limit=1': 200, '/metrics': 404 })) {
      const [response] = await once(get({ socketPath, path, agent: false }), 'response');
      response.resume();
      assert.equal(response.statusCode, status);
    }
    program.child.kill('SIGTERM');
    assert.equal((await program.ended).code, 0);
    assert.match(program.stdout(), /^listening on a Unix socket.* \(passed socket;/);
  });
});
