// Counts the requests in flight, so that a shutdown can wait for them.

/** Maximum time that a shutdown waits for requests in flight (milliseconds). */
export const SHUTDOWN_TIMEOUT = 10_000;

export type InFlight = ReturnType<typeof createInFlight>;

/** One counter for all servers that use the handler. */
export function createInFlight() {
  const waiting = new Set<() => void>();
  let count = 0;
  return {
    begin: () => {
      count += 1;
    },
    end: () => {
      count -= 1;
      if (count === 0) for (const resolve of waiting) resolve();
    },
    count: (): number => count,
    /** Resolves when no request is in flight, or after SHUTDOWN_TIMEOUT. */
    drained: (): Promise<void> =>
      new Promise((resolve) => {
        if (count === 0) return resolve();
        const finish = (): void => {
          clearTimeout(timer);
          waiting.delete(finish);
          resolve();
        };
        const timer = setTimeout(finish, SHUTDOWN_TIMEOUT);
        waiting.add(finish);
      }),
  };
}
