import type { WorkClass } from './work-class.ts';

/**
 * How long an anonymous client rests after a slow statement, as a multiple of what that took, while the process was busy all
 * the time; in proportion when it was busy for a part. Without the rest, one stranger could keep a processor of the database
 * from the others for good.
 */
const REST = 4;
/** Milliseconds for which a stranger runs one read at a time after one that was not known to be slow. */
const SUSPECT_FOR = 60_000;
/** Milliseconds after a failed attempt until the next one. */
const NO_ATTEMPT_FOR = 15_000;
/** Milliseconds for which a client with a brief attempt is preferred. */
const PREFERRED_FOR = 10 * 60_000;
/** Clients whose attempts are remembered, of each kind. */
const MAX_REMEMBERED = 10_000;

interface Rest {
  readonly until: number;
  /** Whether the client may try to deceive, so that it starts no other reads either. */
  readonly isSuspect: boolean;
}

/** What is known of slow statements, whichever class they began in. */
export class SlowClients {
  /** Statements of other classes by client that turned out to be slow and run on. */
  readonly overruns = new Map<string, number>();
  /** The rests of anonymous clients. */
  readonly #rests = new Map<string, Rest>();
  /** Anonymous clients that had an overrun lately. They might look for statements whose cost is misjudged. */
  readonly #suspects = new Map<string, NodeJS.Timeout>();
  /** When a client's last attempt failed, or was brief, the oldest first. */
  readonly #failed = new Map<string, number>();
  readonly #brief = new Map<string, number>();
  /** The latest rest, as a multiple of what the statement before it took. */
  factor = 0;

  /** Whether the client starts nothing of this class for now. */
  isResting(key: string, name: WorkClass): boolean {
    const rest = this.#rests.get(key);
    return (
      rest !== undefined && (rest.isSuspect || name === 'trial' || name === 'attempt' || name === 'slow')
    );
  }

  isSuspect(key: string): boolean {
    return this.#suspects.has(key);
  }

  /** Whether the client may try to be brief with a statement that was costly for others. */
  mayAttempt(key: string): boolean {
    return !isRecent(this.#failed, key, NO_ATTEMPT_FOR);
  }

  /** Whether the client's last attempt was brief. Clients that are ever new must not shut out those that are there. */
  isPreferred(key: string): boolean {
    return isRecent(this.#brief, key, PREFERRED_FOR);
  }

  /** One that was brief before may try again at once: it was perhaps only unlucky. */
  failAttempt(key: string): void {
    if (!this.#brief.delete(key)) remember(this.#failed, key);
  }

  passAttempt(key: string): void {
    remember(this.#brief, key);
  }

  /** Milliseconds until the client may go on. */
  restOf(key: string): number {
    return Math.max(0, (this.#rests.get(key)?.until ?? 0) - performance.now());
  }

  suspect(key: string): void {
    clearTimeout(this.#suspects.get(key));
    const timer = setTimeout(() => this.#suspects.delete(key), SUSPECT_FOR).unref();
    this.#suspects.set(key, timer);
  }

  /**
   * @param milliseconds that the client's statement took
   * @param busy the part of them that the process was busy
   * @param isSuspect whether the client may try to deceive
   */
  rest(key: string, milliseconds: number, busy: number, isSuspect: boolean, end: () => void): void {
    this.factor = REST * busy;
    const length = milliseconds * this.factor;
    const rest: Rest = { until: performance.now() + length, isSuspect };
    this.#rests.set(key, rest);
    const wake = (): void => {
      if (this.#rests.get(key) !== rest) return;
      this.#rests.delete(key);
      end();
    };
    setTimeout(wake, length).unref();
  }
}

const isRecent = (times: ReadonlyMap<string, number>, key: string, milliseconds: number): boolean =>
  performance.now() - (times.get(key) ?? -Infinity) < milliseconds;

function remember(times: Map<string, number>, key: string): void {
  times.delete(key);
  const oldest = times.size >= MAX_REMEMBERED ? times.keys().next() : undefined;
  if (oldest?.done === false) times.delete(oldest.value);
  times.set(key, performance.now());
}

export function increment(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
