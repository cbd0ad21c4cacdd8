// The slots to hash passwords that the first process gives the processes of WORKERS.
import { createGate, GATE_LIMITS } from '../resources/passwords/password-gate.ts';
import type { Worker, WorkerMessage } from './worker.ts';

/** Milliseconds after which a process loses a slot that it has not released. The costliest hash takes a few seconds. */
const MAX_HASH_TIME = 15_000;

type Request<Kind> = Extract<WorkerMessage, { readonly kind: Kind }>;

export function createGrantedSlots() {
  const gate = createGate(GATE_LIMITS);
  /** Frees each slot that a process has asked for, or cancels the wait for it; by process and request id. */
  const held = new WeakMap<Worker, Map<number, () => void>>();

  function heldBy(worker: Worker): Map<number, () => void> {
    const known = held.get(worker) ?? new Map<number, () => void>();
    held.set(worker, known);
    return known;
  }

  /** Sends a slot to the process as soon as one is free, or a refusal. */
  function give(worker: Worker, { id, priority }: Request<'slot'>): void {
    const requests = heldBy(worker);
    const left = new AbortController();
    requests.set(id, () => left.abort());
    const hash = (): Promise<void> =>
      new Promise((release) => {
        if (worker.gone.aborted) return release();
        const timer = setTimeout(release, MAX_HASH_TIME);
        requests.set(id, () => {
          clearTimeout(timer);
          release();
        });
        worker.send({ kind: 'slot', id, isFree: true });
      });
    gate({ client: `worker ${worker.number}`, priority, signal: left.signal }, hash).catch(() => {
      requests.delete(id);
      worker.send({ kind: 'slot', id, isFree: false });
    });
  }

  return {
    receive: (worker: Worker, message: Request<'slot' | 'release'>): void => {
      if (message.kind === 'slot') return give(worker, message);
      const requests = heldBy(worker);
      requests.get(message.id)?.();
      requests.delete(message.id);
    },

    /** Frees the slots of a process that has ended. */
    forget: (worker: Worker): void => {
      for (const release of held.get(worker)?.values() ?? []) release();
    },
  };
}
