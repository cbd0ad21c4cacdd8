// Limits how many heavy statements run at once: those that keep a processor of PostgreSQL busy for some milliseconds, or move much data.
import type { ClientPresence } from '../client-presence.ts';
import type { RawRow, SentStatement } from '../rows.ts';
import type { Shape } from '../statement-shapes.ts';
import { isRecent, remember, type RecentEvents } from './recent-events.ts';
import { increment } from '../counts.ts';
import { shareOfProcess } from './work-class.ts';

/** Mean milliseconds of a read from which it has a weight, and for the full weight. */
const MIN_HEAVY = 1;
const FULLY_HEAVY = 8;
/** The same for a write, in characters of its values. */
const MIN_WRITE = 2 * 1024;
const FULL_WRITE = 16 * 1024;
/** The same for a write of several records, in records. */
const MIN_ROWS = 10;
const FULL_ROWS = 100;
/** Bytes of a written record above which the client's next writes count as heavy, because they may be as large. */
const LARGE_RECORD = 64 * 1024;
/** Milliseconds for which they do. */
const LARGE_FOR = 1_000;
/** Maximum weight of the reads, and of the writes, that one client runs at once. */
const MAX_OF_CLIENT = 1;
/** The same of the writes of all clients, of those that weigh more than half. Several processes share it; each has at least 1. */
const MAX_WRITES = 2;
const MAX_LIGHT = 0.5;
/**
 * Milliseconds after which a write no longer counts for other clients, so that writes that take long or wait for a lock do not keep
 * theirs waiting. It has no weight for its own client, either, unless PostgreSQL computes. A read has none: its class limits it.
 */
export const WEIGHTLESS_AFTER = 400;
/** Milliseconds that a read may be overtaken by others of its client that weigh less. */
const MAX_OVERTAKEN = 50;

/** What a running statement weighs. Calling a function again does nothing. */
export interface HeldWeight {
  /** Whether it is a write that counts for other clients at first. */
  readonly isShared: boolean;
  /** Ends what a write counts for other clients. */
  readonly endShare: () => void;
  readonly end: () => void;
}

/** What a client runs. */
export type HeavyKind = 'reads' | 'writes';

const weightBetween = (size: number, least: number, full: number): number =>
  size < least ? 0 : Math.min(1, size / full);

/** The weight of a read, from 0 to 1, by the mean duration of its shape on either kind of connection. */
export const weightOfRead = ({ mean = 0, pipelinedMean }: Pick<Shape, 'mean' | 'pipelinedMean'>): number =>
  weightBetween(Math.max(mean, pipelinedMean), MIN_HEAVY, FULLY_HEAVY);

/**
 * While several clients are present, the reads of a client that run at the same time weigh at most 1 together, and so do its writes;
 * but one read always may run, and one write if it is light, or the heavier ones of all clients weigh less than their maximum.
 * Otherwise a client with 20 connections would have all processors of PostgreSQL.
 */
export class HeavyStatements {
  readonly #presence: ClientPresence;
  /** The weight of each client's running statements, in thousandths: whole numbers add up without error. */
  readonly #weights: Readonly<Record<HeavyKind, Map<string, number>>> = {
    reads: new Map(),
    writes: new Map(),
  };
  /** Reads that wait because of their weight, and since when, the oldest first, by client. */
  readonly #held = new Map<string, Map<object, number>>();
  /** When a client last wrote a large record. */
  readonly #largeWrites: RecentEvents = new Map();
  /** The weight of the heavier writes of all clients, in thousandths. */
  #writes = 0;
  readonly #maxWrites: number;

  /** @param processes how many share the database */
  constructor(presence: ClientPresence, processes = 1) {
    this.#presence = presence;
    this.#maxWrites = thousandths(shareOfProcess(MAX_WRITES, processes));
  }

  /** Whether no other client has been present for some time. */
  isAlone(key: string): boolean {
    return this.#presence.isAlone(key, performance.now());
  }

  weightOfWrite({ values, rows = 1 }: Pick<SentStatement, 'values' | 'rows'>, key: string): number {
    let size = 0;
    for (const value of values) size += value?.length ?? 0;
    if (this.#largeWrites.size > 0 && isRecent(this.#largeWrites, key, LARGE_FOR)) return 1;
    return Math.max(weightBetween(size, MIN_WRITE, FULL_WRITE), weightBetween(rows, MIN_ROWS, FULL_ROWS));
  }

  /** Remembers a client whose write has returned a large record. @returns the rows */
  noteWritten(key: string, rows: RawRow[]): RawRow[] {
    let size = 0;
    for (const row of rows) for (const cell of row) size += cell?.length ?? 0;
    if (size > LARGE_RECORD) remember(this.#largeWrites, key);
    return rows;
  }

  /**
   * Whether a client may start a statement of this weight now.
   * @param waiting identifies the statement if it has to wait; `leave` ends the wait
   */
  mayStart(kind: HeavyKind, key: string, weight: number, waiting?: object): boolean {
    if (weight === 0) return true;
    const now = performance.now();
    const weights = this.#weights[kind];
    const running = weights.get(key) ?? 0;
    // A client that only waits for its statements is present, too.
    const othersRun = weights.size > (running > 0 ? 1 : 0);
    if (!othersRun && !this.#presence.hasOther(key, now)) return true;
    if (kind === 'writes') {
      // A client with none of them only needs some room, or others with lighter writes would always take it.
      const shared = sharedWeight(weight);
      const isCrowded = this.#writes + (running === 0 ? 1 : shared) > this.#maxWrites;
      return !(shared > 0 && isCrowded) && hasRoom(running, weight);
    }
    const mayStart = hasRoom(running, weight) && !this.#overtakes(key, now, waiting);
    if (!mayStart && waiting) this.#hold(key, now, waiting);
    return mayStart;
  }

  /** @returns undefined for a statement without weight */
  begin(kind: HeavyKind, key: string, weight: number): HeldWeight | undefined {
    if (weight === 0) return undefined;
    let own = thousandths(weight);
    let shared = kind === 'writes' ? sharedWeight(weight) : 0;
    increment(this.#weights[kind], key, own);
    this.#writes += shared;
    const endShare = (): void => {
      this.#writes -= shared;
      shared = 0;
    };
    const end = (): void => {
      endShare();
      if (own > 0) increment(this.#weights[kind], key, -own);
      own = 0;
    };
    return { isShared: shared > 0, endShare, end };
  }

  /** Reports that a statement no longer waits. */
  leave(key: string, waiting: object): void {
    const held = this.#held.get(key);
    if (held?.delete(waiting) === true && held.size === 0) this.#held.delete(key);
  }

  /** Whether another read of the client has waited for so long that it must be the next one. */
  #overtakes(key: string, now: number, waiting: object | undefined): boolean {
    for (const [oldest, since] of this.#held.get(key) ?? [])
      return oldest !== waiting && now - since > MAX_OVERTAKEN;
    return false;
  }

  #hold(key: string, now: number, waiting: object): void {
    const held = this.#held.get(key) ?? new Map<object, number>();
    if (held.size === 0) this.#held.set(key, held);
    if (!held.has(waiting)) held.set(waiting, now);
  }
}

const thousandths = (weight: number): number => Math.round(weight * 1_000);

/** What a write counts for other clients, in thousandths. */
const sharedWeight = (weight: number): number => (weight > MAX_LIGHT ? thousandths(weight) : 0);

/** @param running thousandths */
const hasRoom = (running: number, weight: number): boolean =>
  running === 0 || running + thousandths(weight) <= thousandths(MAX_OF_CLIENT);
