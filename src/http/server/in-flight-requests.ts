/** Maximum time that a shutdown waits for requests in flight (milliseconds). */
export const SHUTDOWN_TIMEOUT = 10_000;

/** Counts the requests in flight, of all servers that use the handler. */
export interface InFlight {
  readonly begin: () => void;
  readonly end: () => void;
  readonly count: () => number;
  /** Resolves when no request is in flight, or after SHUTDOWN_TIMEOUT. */
  readonly drained: () => Promise<void>;
}

export function createInFlight(): InFlight {
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
    count: () => count,
    drained: () =>
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
