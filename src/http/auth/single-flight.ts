// Shares the result of equal work among the callers that ask for it at the same time.

/** Work in progress and the callers that share its result. */
interface Flight<T> {
  readonly result: Promise<T>;
  readonly controller: AbortController;
  /** Number of callers that wait for the result. */
  callers: number;
}

/**
 * Runs work with the same key only once at a time: callers that ask meanwhile share the result. When the signals of all callers
 * are aborted, the work is aborted.
 * @returns a function that takes the key of the work, the signal of the caller, and the work
 */
export function createSingleFlight<T>(): (
  key: string,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
) => Promise<T> {
  const running = new Map<string, Flight<T>>();

  function start(key: string, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const result = work(controller.signal).finally(() => {
      if (running.get(key) === flight) running.delete(key);
    });
    const flight: Flight<T> = { result, controller, callers: 0 };
    running.set(key, flight);
    return flight;
  }

  return async (key, signal, work) => {
    const flight = running.get(key) ?? start(key, work);
    flight.callers += 1;
    const leave = (): void => {
      flight.callers -= 1;
      if (flight.callers > 0) return;
      if (running.get(key) === flight) running.delete(key); // The next caller must not join aborted work.
      flight.controller.abort();
    };
    if (signal?.aborted) leave();
    else signal?.addEventListener('abort', leave, { once: true });
    try {
      return await flight.result;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  };
}
