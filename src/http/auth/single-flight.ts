// Shares the result of equal work among the clients that ask for it at the same time.
import type { Requester } from '../../db/lanes/requester.ts';

type OnGone = Requester['onGone'];

/** Work in progress. */
interface Flight<T> {
  result?: Promise<T>;
  /** How many clients wait for the result. */
  clients: number;
  /** What the work calls back when all of them have disconnected. */
  readonly callbacks: Set<() => void>;
}

/**
 * Runs work with the same key only once at a time: clients that ask meanwhile share the result. For the work it is as if one client
 * waited, which disconnects when all have.
 */
export function createSingleFlight<T>() {
  const running = new Map<string, Flight<T>>();

  return async (
    key: string,
    onGone: OnGone | undefined,
    work: (onGone: OnGone) => Promise<T>,
  ): Promise<T> => {
    const flight: Flight<T> = running.get(key) ?? { clients: 0, callbacks: new Set() };
    running.set(key, flight);
    flight.clients += 1;
    // The next client must not join work that has ended, or that nobody waits for.
    const end = (): void => {
      if (running.get(key) === flight) running.delete(key);
    };
    const stopListening = onGone?.(() => {
      flight.clients -= 1;
      if (flight.clients > 0) return;
      end();
      for (const callback of [...flight.callbacks]) callback();
    });
    flight.result ??= work((callback) => {
      if (flight.clients === 0) queueMicrotask(callback);
      flight.callbacks.add(callback);
      return () => flight.callbacks.delete(callback);
    });
    try {
      return await flight.result;
    } finally {
      stopListening?.();
      end();
    }
  };
}
