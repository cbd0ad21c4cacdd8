// Limits how many heavy statements run at once: those that keep a processor of PostgreSQL busy for some milliseconds, or move much data.
import type { ClientPresence } from '../client-presence.ts';
import type { RawRow } from '../rows.ts';
import type { Shape } from '../statement-shapes.ts';
import { isRecent, remember, type RecentEvents } from './recent-events.ts';
import { increment } from './slow-clients.ts';

/** Mean milliseconds of a read from which it has a weight, and for the full weight. */
const MIN_HEAVY = 1;
const FULLY_HEAVY = 8;
/** Characters of a write's values, or bytes of its record, above which it has the full weight. */
const MAX_LIGHT_WRITE = 64 * 1024;
/** Milliseconds for which the writes of a client are heavy after one whose record was large: the next one may be as large. */
const LARGE_FOR = 1_000;
/** Maximum heavy writes of all clients together. */
const MAX_WRITES = 2;

/** The weight of a read, from 0 to 1, by the mean duration of its shape on either kind of connection. */
export function weightOfRead({ mean = 0, pipelinedMean }: Pick<Shape, 'mean' | 'pipelinedMean'>): number {
  const milliseconds = Math.max(mean, pipelinedMean);
  return milliseconds < MIN_HEAVY ? 0 : Math.min(1, milliseconds / FULLY_HEAVY);
}

/** What a client runs. */
type Kind = 'reads' | 'writes';

/**
 * While several clients are present, the reads of a client that run at the same time weigh at most 1 together, and so do its writes;
 * but one always may run. Otherwise a client with 20 connections would have all processors of PostgreSQL.
 */
export class HeavyStatements {
  readonly #presence: ClientPresence;
  /** The weight of each client's running statements, in thousandths: whole numbers add up without error. */
  readonly #weights: Readonly<Record<Kind, Map<string, number>>> = { reads: new Map(), writes: new Map() };
  /** When a client last wrote a large record. */
  readonly #largeWrites: RecentEvents = new Map();
  #writes = 0;

  constructor(presence: ClientPresence) {
    this.#presence = presence;
  }

  weightOfWrite(values: readonly (string | null)[], key: string): number {
    let size = 0;
    for (const value of values) size += value?.length ?? 0;
    const isLarge = size > MAX_LIGHT_WRITE;
    return isLarge || (this.#largeWrites.size > 0 && isRecent(this.#largeWrites, key, LARGE_FOR)) ? 1 : 0;
  }

  /** Remembers a client whose write has returned a large record. */
  noteWritten(key: string, rows: readonly RawRow[]): void {
    let size = 0;
    for (const row of rows) for (const cell of row) size += cell?.length ?? 0;
    if (size > MAX_LIGHT_WRITE) remember(this.#largeWrites, key);
  }

  /** Whether a client may start a statement of this weight now. */
  mayStart(kind: Kind, key: string, weight: number): boolean {
    if (weight === 0 || !this.#presence.hasSeveral(performance.now())) return true;
    if (kind === 'writes' && this.#writes >= MAX_WRITES) return false;
    const running = this.#weights[kind].get(key) ?? 0;
    return running === 0 || running + thousandths(weight) <= 1_000;
  }

  begin(kind: Kind, key: string, weight: number): void {
    if (weight > 0) this.#add(kind, key, weight, 1);
  }

  end(kind: Kind, key: string, weight: number): void {
    if (weight > 0) this.#add(kind, key, weight, -1);
  }

  #add(kind: Kind, key: string, weight: number, by: 1 | -1): void {
    increment(this.#weights[kind], key, by * thousandths(weight));
    if (kind === 'writes') this.#writes += by;
  }
}

const thousandths = (weight: number): number => Math.round(weight * 1_000);
