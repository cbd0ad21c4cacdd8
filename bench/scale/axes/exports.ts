// Time and memory of an export.
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchPeak } from '../../processes.ts';
import { BASE } from '../../rows.ts';
import type { Server } from '../../servers.ts';
import { whole } from '../../tables.ts';
import type { Axis } from '../axis.ts';
import { addMessages, createUsers, MESSAGE, OWNED, USER } from './resources.ts';

const SIZE = 500_000;
const SHORT_SIZE = 10_000;
const TIMES = ['first', 'again'] as const;

/** The goal for the extra memory of an export, megabytes. */
const GOAL = 50;
const SLOW_RATE = 8 * 2 ** 20;
/** Long enough for the garbage of the start to be collected. */
const IDLE = 3000;

interface Export {
  readonly name: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Bytes per second that the client takes; as fast as it can if undefined. */
  readonly rate?: number;
}

const EXPORTS: readonly Export[] = [
  { name: 'NDJSON', headers: { Accept: 'application/x-ndjson' } },
  { name: 'CSV', headers: { Accept: 'text/csv', Prefer: 'paging=none' } },
  { name: 'NDJSON, slow client (8 MiB/s)', headers: { Accept: 'application/x-ndjson' }, rate: SLOW_RATE },
];

/** Reads a whole response, and counts its bytes and lines. */
function read(port: number, { headers, rate }: Export): Promise<{ bytes: number; lines: number }> {
  return new Promise((done, reject) => {
    const started = performance.now();
    const outgoing = request({ host: '127.0.0.1', port, path: BASE, headers, agent: false }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`the export is ${response.statusCode}`));
      let bytes = 0;
      let lines = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines += 1;
        const early = rate ? (bytes / rate) * 1000 - (performance.now() - started) : 0;
        if (early < 5) return;
        response.pause();
        setTimeout(() => response.resume(), early);
      });
      response.on('end', () => done({ bytes, lines }));
      response.on('error', reject);
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}

/** One export; its memory is what the process takes at its peak, beyond what it takes before. */
async function measureExport(server: Server, one: Export, size: number): Promise<string[]> {
  const before = await server.memory();
  const peak = await watchPeak(server.pid);
  const started = performance.now();
  const { bytes, lines } = await read(server.port, one);
  const seconds = (performance.now() - started) / 1000;
  const extra = (await peak()) - before;
  // CSV has a head.
  if (lines < size || lines > size + 1) throw new Error(`${one.name} has ${lines} lines`);
  const rate = whole(lines / seconds);
  return [(bytes / 2 ** 20).toFixed(1), seconds.toFixed(1), rate, whole(before), extra.toFixed(1)];
}

export const exports: Axis = {
  name: 'exports',
  title: 'Exports',
  unit: 'exports',
  text: `All ${whole(SIZE)} messages as one response. "before MB" is the resident memory of the service before the export, "extra MB" what it has more at its
peak. Each format begins with a new process, and is exported twice: first on the idle process, then again.`,
  run: (stage) =>
    stage.withDatabase(async (database) => {
      const size = stage.isShort ? SHORT_SIZE : SIZE;
      const registry = await stage.writeRegistry([USER, MESSAGE]);
      await createUsers(database, registry, size / OWNED);
      await addMessages(database.query, 0, size);
      const body: string[][] = [];
      const extra: Record<(typeof TIMES)[number], number> = { first: 0, again: 0 };
      for (const one of EXPORTS) {
        stage.say(`  ${one.name}`);
        await stage.withServer(database, { RESOURCES: registry }, async (server) => {
          await sleep(IDLE);
          for (const time of TIMES) {
            const measured = await measureExport(server, one, size);
            body.push([one.name, time, ...measured]);
            extra[time] = Math.max(extra[time], Number(measured.at(-1)));
            await sleep(IDLE);
          }
        });
      }
      const head = ['format', '', 'response MB', 'seconds', 'records/s', 'before MB', 'extra MB'];
      const note = `The goal is less than ${GOAL} MB extra. The first export of a process, which also takes what the process keeps for later, takes up to ${extra.first.toFixed(0)} MB, and the next one up to ${extra.again.toFixed(0)} MB.`;
      return { points: [], facts: { head, body }, notes: [note] };
    }),
};
