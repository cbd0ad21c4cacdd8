import { mkdir, open, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { command, isIsolated } from '../isolation.ts';
import type { Fault, Stage, Variant } from '../stage.ts';

/** A small file system in memory, which ends with the mount namespace. */
async function mountSmall({ cluster }: Stage, name: string, megabytes: number): Promise<string> {
  const path = join(cluster.directory, name);
  await mkdir(path);
  command('mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'faults', path);
  await cluster.give(path);
  return path;
}

/** Fills a file system to the last byte. Gives what makes place again. */
async function fill(path: string): Promise<() => Promise<void>> {
  const file = join(path, 'filler');
  const filler = await open(file, 'w');
  const block = Buffer.alloc(4096);
  try {
    for (;;) await filler.write(block);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    await filler.close();
  }
  return () => rm(file, { force: true });
}

const TABLES = ['entry', 'vitrine_history'];

/** The disk of the tables is full: a statement that needs a new page fails. */
function tables(): Variant {
  let path = '';
  const move = async ({ cluster }: Stage, tablespace: string): Promise<void> => {
    for (const table of TABLES) await cluster.sql.unsafe(`alter table ${table} set tablespace ${tablespace}`);
  };
  return {
    name: 'the tables',
    allows: ['busy'],
    prepare: async (stage) => {
      path = await mountSmall(stage, 'tablespace', 64);
      await stage.cluster.sql.unsafe(`create tablespace small location '${path}'`);
      await move(stage, 'small');
    },
    strike: async ({ cluster }, seconds) => {
      const free = await fill(path);
      await sleep(seconds * 1000);
      const failed = await cluster.sql
        .unsafe(
          "insert into entry (token, number, payload, counter_id) select 'x', 0, repeat(md5(random()::text), 10000), 1 from generate_series(1, 100)",
        )
        .then(
          () => 0,
          () => 1,
        );
      await free();
      return failed;
    },
    restore: async (stage) => {
      await move(stage, 'pg_default');
      await stage.cluster.sql.unsafe('drop tablespace small');
      command('umount', path);
      await rm(path, { recursive: true });
    },
  };
}

/** The disk of the WAL is full: PostgreSQL stops, and cannot recover until there is place. */
function wal(): Variant {
  let path = '';
  const place = (stage: Stage): string => join(stage.cluster.directory, 'data', 'pg_wal');
  const copy = (from: string, to: string): void => command('cp', '-a', `${from}/.`, to);
  return {
    name: 'the WAL',
    allows: ['busy', 'lost'],
    prepare: async (stage) => {
      const { cluster } = stage;
      path = await mountSmall(stage, 'wal', 192);
      await cluster.stop('fast');
      copy(place(stage), path);
      await rename(place(stage), `${place(stage)}.moved`);
      await symlink(path, place(stage));
      await cluster.start();
    },
    strike: async ({ cluster }, seconds) => {
      const free = await fill(path);
      const end = performance.now() + seconds * 1000 + 10_000;
      // Takes the segments that are there already.
      while (cluster.isRunning() && performance.now() < end) {
        await cluster.sql`select pg_switch_wal()`.catch(() => undefined);
        await sleep(30);
      }
      const hasStopped = !cluster.isRunning();
      await sleep(seconds * 250);
      await free();
      await cluster.start();
      return hasStopped ? 1 : 0;
    },
    restore: async (stage) => {
      const { cluster } = stage;
      await cluster.stop('fast');
      await rm(place(stage));
      await mkdir(place(stage), { mode: 0o700 });
      await cluster.give(place(stage));
      copy(path, place(stage));
      await rm(`${place(stage)}.moved`, { recursive: true });
      command('umount', path);
      await rm(path, { recursive: true });
      await cluster.start();
    },
  };
}

/** No space left on the device. */
export const diskFull: Fault = {
  name: 'disk-full',
  isShort: false,
  obstacle: () => (isIsolated() ? undefined : 'needs the right to mount a file system'),
  variants: [tables(), wal()],
};
