// Finds the clients that have used more than their share of the time lately.
import { RecentMap } from '../recent-map.ts';

/** The share of the time that a client may use without being counted as costly. */
const FREE_SHARE = 0.25;
/** Maximum usage that is remembered, as a multiple of the allowance. */
const MAX_REMEMBERED = 20;
/** Maximum clients that are remembered. With fewer than take turns, each would be forgotten before it counts as costly. */
const MAX_CLIENTS = 16_384;

interface Level {
  readonly milliseconds: number;
  readonly at: number;
}

/** What a client has used in another process (milliseconds). */
export type SpentTime = readonly [key: string, milliseconds: number];

export interface CooldownOptions {
  /** See `ClientUsage`. */
  readonly allowance: number;
  /** The length of a cooldown, as a multiple of what the client has used. */
  readonly factor: number;
  /** Receives what clients of this process use, for the other processes. */
  readonly share?: ((key: string, milliseconds: number) => void) | undefined;
}

/** Cooldowns of clients that use more than their share, in all processes together. */
export class UsageCooldowns {
  readonly #usage: ClientUsage;
  readonly #options: CooldownOptions;
  readonly #until = new RecentMap<string, number>(MAX_CLIENTS);

  constructor(options: CooldownOptions) {
    this.#options = options;
    this.#usage = new ClientUsage(options.allowance);
  }

  charge(key: string, milliseconds: number): void {
    this.#add(key, milliseconds);
    this.#options.share?.(key, milliseconds);
  }

  /** Counts what clients have used in other processes. */
  learn(spent: readonly SpentTime[]): void {
    for (const [key, milliseconds] of spent) this.#add(key, milliseconds);
  }

  /** Milliseconds until the client's cooldown ends. */
  of(key: string): number {
    return Math.max(0, (this.#until.get(key) ?? 0) - performance.now());
  }

  /** Cooldowns add up: a client may have used several processes at the same time. */
  #add(key: string, milliseconds: number): void {
    const now = performance.now();
    this.#usage.charge(key, milliseconds, now);
    if (!this.#usage.isCostly(key, now)) return;
    this.#until.set(key, now + this.of(key) + this.#options.factor * milliseconds);
  }
}

/** A leaky bucket for each client. */
export class ClientUsage {
  readonly #allowance: number;
  readonly #levels = new RecentMap<string, Level>(MAX_CLIENTS);
  /** The earliest time from which no client can be costly (milliseconds, as of `performance.now`). */
  costlyUntil = -Infinity;

  /** @param allowance milliseconds beyond its share of the time that a client may use at once */
  constructor(allowance: number) {
    this.#allowance = allowance;
  }

  /** Whether the client uses more than its share. */
  isCostly(key: string, now: number): boolean {
    return this.#level(key, now) > this.#allowance;
  }

  charge(key: string, milliseconds: number, now: number): void {
    const level = Math.min(this.#level(key, now) + milliseconds, this.#allowance * MAX_REMEMBERED);
    this.#levels.set(key, { milliseconds: level, at: now });
    this.costlyUntil = Math.max(this.costlyUntil, now + (level - this.#allowance) / FREE_SHARE);
  }

  #level(key: string, now: number): number {
    const level = this.#levels.get(key);
    return level ? Math.max(0, level.milliseconds - (now - level.at) * FREE_SHARE) : 0;
  }
}
