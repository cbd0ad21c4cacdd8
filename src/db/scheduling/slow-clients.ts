// Remembers which clients have run slow statements, and what they may not start for a while.
import { isRecent, remember } from './recent-events.ts';
import type { WorkClass } from './work-class.ts';

/**
 * Cooldown of an anonymous client after a slow statement, as a multiple of the statement's duration. It is reduced in
 * proportion to how idle the process was. Without it, one anonymous client could keep a database processor busy permanently.
 */
const COOLDOWN = 4;
/** Maximum length with those of other processes (milliseconds). */
const MAX_COOLDOWN = 60_000;
/** Milliseconds for which an anonymous client runs one read at a time after an unexpectedly slow one. */
const SUSPECT_FOR = 60_000;
/** Milliseconds from a failed attempt to the next one. */
const NO_ATTEMPT_FOR = 15_000;
/** Milliseconds for which a client is preferred after a fast attempt. */
const PREFERRED_FOR = 10 * 60_000;

interface Cooldown {
  readonly until: number;
  /** When it would end without those of other processes. */
  readonly ownUntil: number;
  /** Whether the client may hide the cost of its reads on purpose, so that it must not start other reads either. */
  readonly isSuspect: boolean;
}

/** By how much a slow read has prolonged the cooldown of its client, and whether the client is suspect. */
export type SlowRead = readonly [key: string, milliseconds: number, isSuspect: boolean];

interface EndedRead {
  readonly since: number;
  /** Whether its shape was known to be cheap. */
  readonly isProven: boolean;
}

export class SlowClients {
  readonly #share: ((read: SlowRead) => void) | undefined;
  /** Called when a cooldown ends. */
  onCooldownEnd: () => void = () => undefined;
  /** Called when another process has prolonged the cooldown of this client. */
  onProlonged: (key: string) => void = () => undefined;
  /** How many running statements of other classes have turned out to be slow, by client. */
  readonly overruns = new Map<string, number>();
  /** The cooldowns of anonymous clients. */
  readonly #cooldowns = new Map<string, Cooldown>();
  /** Anonymous clients with a recent overrun. They might look for statements whose cost is misjudged. */
  readonly #suspects = new Map<string, NodeJS.Timeout>();
  /** When a client's last attempt failed, the oldest first; and when the last one in place of a refusal did. */
  readonly #failedAttempts = new Map<string, number>();
  readonly #failedInstead = new Map<string, number>();
  /** When a client's last attempt passed, the oldest first. */
  readonly #passedAttempts = new Map<string, number>();
  /** When a failed attempt of a client was last excused, the oldest first. */
  readonly #excusedAttempts = new Map<string, number>();
  /** When a read of an anonymous client was last ended because too many slow ones were running, by the scheduler's clock. */
  readonly #endedReads = new Map<string, number>();
  /** The latest cooldown, as a multiple of the duration of the statement before it. */
  cooldownFactor = 0;

  /** @param share receives what each slow read adds, for the other processes */
  constructor(share?: (read: SlowRead) => void) {
    this.#share = share;
  }

  /** Adds cooldowns of other processes: a client may have used several of them at the same time. */
  learn(reads: readonly SlowRead[]): void {
    for (const [key, milliseconds, isSuspect] of reads) {
      if (isSuspect) this.markSuspect(key);
      this.#prolong(key, milliseconds, this.#cooldowns.get(key)?.ownUntil ?? 0, isSuspect);
      this.onProlonged(key);
    }
  }

  /** What a new process must know: the cooldowns that go on. @param max how many at most */
  recent(max: number): SlowRead[] {
    return [...this.#cooldowns]
      .slice(-max)
      .map(([key, { isSuspect }]) => [key, this.cooldownOf(key), isSuspect]);
  }

  /** Whether the client may not start statements of this class for now. */
  isCoolingDown(key: string, name: WorkClass): boolean {
    const cooldown = this.#cooldowns.get(key);
    return (
      cooldown !== undefined &&
      (cooldown.isSuspect || name === 'trial' || name === 'attempt' || name === 'slow')
    );
  }

  isSuspect(key: string): boolean {
    return this.#suspects.has(key);
  }

  /** Whether the client may try a statement that was costly for others. */
  mayAttempt(key: string): boolean {
    return !isRecent(this.#failedAttempts, key, NO_ATTEMPT_FOR);
  }

  /** Whether the client may try a statement in place of a refusal. */
  mayTryInstead(key: string): boolean {
    return this.mayAttempt(key) && !isRecent(this.#failedInstead, key, NO_ATTEMPT_FOR);
  }

  /** Whether the client's last attempt was fast. A stream of new clients must not shut out such a client. */
  isPreferred(key: string): boolean {
    return isRecent(this.#passedAttempts, key, PREFERRED_FOR);
  }

  /**
   * A client that passed before may try again at once: one slow attempt can be bad luck, but not two in a row. An attempt in place of
   * a refusal was not the client's choice: its failure prevents only another one of this kind.
   */
  failAttempt(key: string, isTriedInstead = false): void {
    if (isTriedInstead) return remember(this.#failedInstead, key);
    const isExcused =
      this.#passedAttempts.delete(key) && !isRecent(this.#excusedAttempts, key, NO_ATTEMPT_FOR);
    remember(isExcused ? this.#excusedAttempts : this.#failedAttempts, key);
  }

  passAttempt(key: string): void {
    remember(this.#passedAttempts, key);
  }

  /** Milliseconds until the client's cooldown ends. */
  cooldownOf(key: string): number {
    return Math.max(0, (this.#cooldowns.get(key)?.until ?? 0) - performance.now());
  }

  /**
   * Records that a slow read was ended because too many others were running, which may be the reason why it was slow. A client is
   * suspect if this happens again with a read that it began later, or at once if the cost of the read was unknown.
   * @param now when it was ended, and `since` when it began, both by the scheduler's clock
   */
  noteEndedRead(key: string, now: number, { since, isProven }: EndedRead): void {
    const isRepeated = isRecent(this.#endedReads, key, SUSPECT_FOR, now);
    if (!isProven || (isRepeated && (this.#endedReads.get(key) ?? Infinity) <= since)) this.markSuspect(key);
    if (!isRepeated) remember(this.#endedReads, key, now);
  }

  markSuspect(key: string): void {
    clearTimeout(this.#suspects.get(key));
    const timer = setTimeout(() => this.#suspects.delete(key), SUSPECT_FOR).unref();
    this.#suspects.set(key, timer);
  }

  /**
   * Starts a cooldown. A longer one that goes on already stays, and those of other processes are added.
   * @param milliseconds that the client's statement took
   * @param busy the share of this time in which the process was busy
   * @param isSuspect see `Cooldown`
   */
  coolDown(key: string, milliseconds: number, busy: number, isSuspect: boolean): void {
    this.cooldownFactor = COOLDOWN * busy;
    const now = performance.now();
    const ownBefore = Math.max(now, this.#cooldowns.get(key)?.ownUntil ?? 0);
    const ownUntil = Math.max(ownBefore, now + milliseconds * this.cooldownFactor);
    this.#prolong(key, ownUntil - ownBefore, ownUntil, isSuspect);
    this.#share?.([key, ownUntil - ownBefore, isSuspect]);
  }

  #prolong(key: string, milliseconds: number, ownUntil: number, isSuspect: boolean): void {
    const earlier = this.#cooldowns.get(key);
    const length = Math.min(this.cooldownOf(key) + milliseconds, MAX_COOLDOWN);
    const cooldown: Cooldown = {
      until: performance.now() + length,
      ownUntil,
      isSuspect: isSuspect || earlier?.isSuspect === true,
    };
    this.#cooldowns.set(key, cooldown);
    const end = (): void => {
      if (this.#cooldowns.get(key) !== cooldown) return;
      this.#cooldowns.delete(key);
      this.onCooldownEnd();
    };
    setTimeout(end, length).unref();
  }
}
