// When refused clients should come back.
import { RecentMap } from '../recent-map.ts';

/** Milliseconds after which a client may come back at the latest. */
const MAX_AWAY = 30_000;

/**
 * Gives each refused client a turn behind those before it, at the pace at which they are served: those that are refused together do
 * not come back together.
 */
export class Comebacks {
  /** The last turn in each queue (milliseconds of `performance.now`). */
  readonly #turns = new RecentMap<string, number>(1_000);

  /**
   * The headers of a refusal.
   * @param ahead how many wait in this queue
   * @param pace milliseconds for each
   */
  next(queue: string, ahead: number, pace: number): { 'Retry-After': string } {
    const now = performance.now();
    const turn = Math.max(this.#turns.get(queue) ?? 0, now + ahead * pace) + pace;
    const latest = now + MAX_AWAY;
    this.#turns.set(queue, Math.min(turn, latest));
    const away = turn < latest ? turn - now : Math.random() * MAX_AWAY;
    return { 'Retry-After': String(Math.max(1, Math.ceil(away / 1000))) };
  }
}
