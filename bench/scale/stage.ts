// What every axis needs: databases, servers, generated registries, and measuring.
import type { ChildProcess } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDatabase, type BenchDatabase } from '../database.ts';
import { measure } from '../measure.ts';
import type { Measurement } from '../report.ts';
import type { Row } from '../rows.ts';
import { startServer, VITRINE, type Program, type Server } from '../servers.ts';
import { median } from '../tables.ts';
import type { Point } from './axis.ts';

/** How often a warm-up is tried, and the milliseconds between. */
const TRIES = 3;
const PAUSE = 2000;

export interface Stage {
  readonly isShort: boolean;
  readonly say: (text: string) => void;
  /** Creates a database for some work, and drops it afterwards. */
  readonly withDatabase: <T>(work: (database: BenchDatabase) => Promise<T>) => Promise<T>;
  /** Starts the service for some work, and stops it afterwards. */
  readonly withServer: <T>(
    database: BenchDatabase,
    environment: Program['environment'],
    work: (server: Server) => Promise<T>,
  ) => Promise<T>;
  /** Writes a registry as a module, and returns its path. */
  readonly writeRegistry: (resources: readonly object[]) => Promise<string>;
  /** Measures kinds of requests at one place of an axis. What the service refuses is left out. */
  readonly measureAll: (
    database: BenchDatabase,
    server: Server,
    x: number,
    rows: readonly Row[],
  ) => Promise<Point[]>;
}

/** Of the error of a load, which has the whole response. */
export const firstLine = (error: unknown): string => (error as Error).message.split(/\r?\n/, 1)[0] ?? '';

export interface StageOptions {
  readonly directory: string;
  readonly generator: ChildProcess;
  readonly interruption: AbortSignal;
  readonly isShort: boolean;
  readonly rounds: number;
  readonly seconds: number;
  readonly say: (text: string) => void;
  /** Notes a sentence about what was left out. */
  readonly note: (sentence: string) => void;
}

/** Sets up what the axes of one run share. */
export function createStage(options: StageOptions): Stage {
  const { directory, generator, interruption, isShort, rounds, seconds, say, note } = options;
  let count = 0;

  /** A service that does not know yet what a kind of request costs may refuse some on a busy machine. */
  async function warmUp(load: () => Promise<unknown>): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        return void (await load());
      } catch (error) {
        if (tries === TRIES || interruption.aborted) throw error;
        say(`  once more: ${firstLine(error)}`);
        await sleep(PAUSE);
      }
    }
  }

  async function measureOne(database: BenchDatabase, server: Server, x: number, row: Row): Promise<Point> {
    const equipment = { generator, database, interruption };
    await warmUp(() => measure(equipment, row, server, seconds / 2));
    const measured: Measurement[] = [];
    for (let round = 0; round < rounds; round += 1)
      measured.push(await measure(equipment, row, server, seconds));
    if (measured.some(({ rate }) => rate === 0)) throw new Error(`No answer within ${seconds} s`);
    const middle = (key: 'rate' | 'p50' | 'p99' | 'cpu' | 'databaseCpu'): number =>
      median(measured.map((one) => one[key]));
    return {
      x,
      request: row.name,
      rate: middle('rate'),
      p50: middle('p50'),
      p99: middle('p99'),
      cpu: middle('cpu'),
      databaseCpu: middle('databaseCpu'),
    };
  }

  return {
    isShort,
    say,
    async withDatabase(work) {
      count += 1;
      const folder = join(directory, `database-${count}`);
      await mkdir(folder);
      await chmod(folder, 0o755); // the embedded server runs as another user when this is root
      const database = await createDatabase(folder, ['max_connections=200']); // enough for four workers
      try {
        return await work(database);
      } finally {
        await database.drop();
      }
    },
    async withServer(database, environment, work) {
      const server = await startServer({ ...VITRINE, environment: environment ?? {} }, database.url);
      try {
        return await work(server);
      } finally {
        await server.stop();
      }
    },
    async writeRegistry(resources) {
      count += 1;
      const file = join(directory, `registry-${count}.mjs`);
      await writeFile(file, `export default ${JSON.stringify(resources)};\n`);
      return file;
    },
    async measureAll(database, server, x, rows) {
      const points: Point[] = [];
      for (const row of rows) {
        say(`  ${x.toLocaleString('en')}: ${row.name}`);
        try {
          points.push(await measureOne(database, server, x, row));
        } catch (error) {
          if (interruption.aborted) throw error;
          note(`Left out: ${row.name} at ${x.toLocaleString('en')}. ${firstLine(error)}.`);
        }
      }
      return points;
    },
  };
}
