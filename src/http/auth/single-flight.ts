interface Shared<T> {
  readonly result: Promise<T>;
  readonly controller: AbortController;
  clients: number;
}

/**
 * Lets callers that ask for the same thing at the same time share one answer. The work is aborted when all of them are gone.
 * @returns a function that takes the work's key, the caller's signal, and the work
 */
export function createSingleFlight<T>(): (
  key: string,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
) => Promise<T> {
  const running = new Map<string, Shared<T>>();

  function start(key: string, work: (signal: AbortSignal) => Promise<T>): Shared<T> {
    const controller = new AbortController();
    const result = work(controller.signal).finally(() => {
      if (running.get(key) === shared) running.delete(key);
    });
    const shared: Shared<T> = { result, controller, clients: 0 };
    running.set(key, shared);
    return shared;
  }

  return async (key, signal, work) => {
    const shared = running.get(key) ?? start(key, work);
    shared.clients += 1;
    const leave = (): void => {
      shared.clients -= 1;
      if (shared.clients > 0) return;
      if (running.get(key) === shared) running.delete(key); // whoever comes next starts again
      shared.controller.abort();
    };
    if (signal?.aborted) leave();
    else signal?.addEventListener('abort', leave, { once: true });
    try {
      return await shared.result;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  };
}
