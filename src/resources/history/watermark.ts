// The watermarks of tables that only grow: the largest id up to which every entry is final, so that a reader misses none.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../db/connection/database.ts';
import type { Model } from '../../db/schema/model.ts';
import { tableStates, type TableState } from '../../query/statements/watermark-statements.ts';

/** Milliseconds between two looks while there are readers. */
const INTERVAL = 500;
/** Milliseconds between two looks, and their number, for a reader who wants what was committed before. */
const SHORT_INTERVAL = 20;
const MAX_LOOKS = 10;

/** By model. Entries are final for statements that begin after it was made. */
export type Marks = ReadonlyMap<string, bigint>;

interface Progress {
  /** Undefined until the writers at the first look have ended. */
  readonly final: bigint | undefined;
  /** The largest id seen. */
  readonly last: bigint;
  /** Becomes final when all of its writers have ended. */
  readonly candidate: TableState | undefined;
}

/** The next watermark of a table. A transaction that begins later gets a larger id than the candidate. */
function advance({ final, candidate }: Progress, now: TableState): Progress {
  const { last } = now;
  if (now.open.size === 0) return { final: last, last, candidate: undefined };
  const writers = [...(candidate?.open ?? [])].filter((one) => now.open.has(one));
  return candidate && writers.length > 0
    ? { final, last, candidate: { ...candidate, open: new Set(writers) } }
    : { final: candidate?.last ?? final, last, candidate: now };
}

const NOTHING: Progress = { final: undefined, last: 0n, candidate: undefined };

export type Watermark = ReturnType<typeof createWatermark>;

/** @param database the primary: on a replica, no locks show who writes */
export function createWatermark(database: Pick<Database, 'run'>, models: readonly Model[]) {
  const statement = tableStates(models);
  const tables = new Map<string, Progress>();
  let running: Promise<Marks> | undefined;
  let next: Promise<Marks> | undefined;
  let ticking: Promise<Marks> | undefined;

  async function look(): Promise<Marks> {
    for (const state of await database.run(statement, 'read'))
      tables.set(state.model, advance(tables.get(state.model) ?? NOTHING, state));
    return new Map(
      [...tables].flatMap(([model, { final }]) => (final === undefined ? [] : [[model, final]])),
    );
  }

  /** Looks once, for all who ask before it begins. */
  function ask(): Promise<Marks> {
    next ??= (running ?? Promise.resolve())
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        return (running = look());
      });
    return next;
  }

  return {
    /** The watermarks after the next interval. All readers share it, and without readers there are no statements. */
    tick(): Promise<Marks> {
      ticking ??= sleep(INTERVAL).then(() => {
        ticking = undefined;
        return ask();
      });
      return ticking;
    },

    /** The watermarks now. It waits a moment for transactions that are about to end. */
    async now(): Promise<Marks> {
      let marks = await ask();
      const wanted = [...tables].map(([model, { last }]) => [model, last] as const);
      const isPending = (): boolean => wanted.some(([model, last]) => (marks.get(model) ?? 0n) < last);
      for (let looks = 1; isPending() && looks < MAX_LOOKS; looks += 1) {
        await sleep(SHORT_INTERVAL);
        marks = await ask();
      }
      return marks;
    },
  };
}
