/** How long an end waits for requests that are being answered (milliseconds). */
export const SHUTDOWN_TIMEOUT = 10_000;

/** Counts the requests that are being answered, whichever server they came in through. */
export interface InFlight {
  readonly begin: () => void;
  readonly end: () => void;
  readonly count: () => number;
  /** Resolves as soon as there are none, and once GRACE is over in any case. */
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
      if (count === 0) for (const tell of waiting) tell();
    },
    count: () => count,
    drained: () =>
      new Promise((resolve) => {
        if (count === 0) return resolve();
        const tell = (): void => {
          clearTimeout(timer);
          waiting.delete(tell);
          resolve();
        };
        const timer = setTimeout(tell, SHUTDOWN_TIMEOUT);
        waiting.add(tell);
      }),
  };
}
