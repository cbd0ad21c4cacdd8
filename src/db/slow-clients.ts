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
const MAX_FAILED = 10_000;

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
  /** When a client's last attempt failed, the oldest first. */
  readonly #failed = new Map<string, number>();
  /** The latest rest, as a multiple of what the statement before it took. */
  factor = 0;

  /** Whether the client starts nothing of this class for now. */
  isResting(key: string, name: WorkClass): boolean {
    const rest = this.#rests.get(key);
    return rest !== undefined && (rest.isSuspect || name === 'trial' || name === 'slow');
  }

  isSuspect(key: string): boolean {
    return this.#suspects.has(key);
  }

  /** Whether the client may try to be brief with a statement that was costly for others. */
  mayAttempt(key: string): boolean {
    const failed = this.#failed.get(key);
    return failed === undefined || performance.now() - failed > NO_ATTEMPT_FOR;
  }

  failAttempt(key: string): void {
    this.#failed.delete(key);
    if (this.#failed.size >= MAX_FAILED)
      for (const first of this.#failed.keys()) {
        this.#failed.delete(first);
        break;
      }
    this.#failed.set(key, performance.now());
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

export function increment(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
