// Remembers when something last happened to a client, for a bounded number of clients.

/** Maximum number of clients remembered, for each kind of event. */
const MAX_REMEMBERED = 10_000;

/** Times by client, the oldest first (milliseconds, as of `performance.now` or another clock that all calls use). */
export type RecentEvents = Map<string, number>;

export const isRecent = (
  times: Readonly<RecentEvents>,
  key: string,
  milliseconds: number,
  now = performance.now(),
): boolean => now - (times.get(key) ?? -Infinity) < milliseconds;

export function remember(times: RecentEvents, key: string, now = performance.now()): void {
  times.delete(key);
  const oldest = times.size >= MAX_REMEMBERED ? times.keys().next() : undefined;
  if (oldest?.done === false) times.delete(oldest.value);
  times.set(key, now);
}
