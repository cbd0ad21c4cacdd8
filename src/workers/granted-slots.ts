// The slots that the first process gives the processes of WORKERS: to hash passwords, and for the streams of a client.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClientSlots, LIFETIME } from '../db/connection/cursors.ts';
import { SERVICE, type Requester } from '../db/scheduling/requester.ts';
import type { LeaveSlot } from '../db/scheduling/slots.ts';
import { Problem } from '../errors.ts';
import { createGate, GATE_LIMITS } from '../resources/passwords/password-gate.ts';
import type { Worker, WorkerMessage } from './worker.ts';

/** Milliseconds after which a process loses a hashing slot that it has not released. The costliest hash takes a few seconds. */
const MAX_HASH_TIME = 15_000;
/** Milliseconds in which a process notices that the client of a stream has left, which asks another process for the next one. */
const NOTICE_TIME = 250;
/** Milliseconds after the maximum duration of a stream when a process that does not run loses its slot. */
const STREAM_MARGIN = 30_000;

type Request<Kind> = Extract<WorkerMessage, { readonly kind: Kind }>;

/** What a process has asked for and not released. */
interface Held {
  /** Frees the slot, or cancels the wait for it. */
  readonly release: () => void;
  /** Reports that the slot is about to be released. */
  readonly end?: () => void;
}

/** @param lifetime maximum duration of a stream (milliseconds) */
export function createGrantedSlots(lifetime = LIFETIME, margin = STREAM_MARGIN) {
  const gate = createGate(GATE_LIMITS);
  const streams = createClientSlots();
  /** By process and request id. */
  const held = new WeakMap<Worker, Map<number, Held>>();

  function heldBy(worker: Worker): Map<number, Held> {
    const known = held.get(worker) ?? new Map<number, Held>();
    held.set(worker, known);
    return known;
  }

  /** Sends a hashing slot to the process as soon as one is free, or a refusal. */
  function giveHash(worker: Worker, { id, priority }: Request<'slot'>): void {
    const requests = heldBy(worker);
    const left = new AbortController();
    requests.set(id, { release: () => left.abort() });
    const hash = (): Promise<void> =>
      new Promise((release) => {
        if (worker.gone.aborted) return release();
        const timer = setTimeout(release, MAX_HASH_TIME);
        requests.set(id, {
          release: () => {
            clearTimeout(timer);
            release();
          },
        });
        worker.send({ kind: 'slot', id, isFree: true });
      });
    gate({ client: `worker ${worker.number}`, priority, signal: left.signal }, hash).catch(() => {
      requests.delete(id);
      worker.send({ kind: 'slot', id, isFree: false });
    });
  }

  /** A client that has just left a stream must not be refused because another process has not noticed that yet. */
  const enterStreams = (requester: Requester, signal: AbortSignal): Promise<LeaveSlot> =>
    streams.enter(requester).catch(async (error: unknown) => {
      if (!(error instanceof Problem && error.status === 429)) throw error;
      await sleep(NOTICE_TIME, undefined, { signal });
      return streams.enter(requester);
    });

  /** Sends the process one of the streams that the client may have, or a refusal. */
  async function giveStream(worker: Worker, { id, client, clientKind }: Request<'stream'>): Promise<void> {
    const requests = heldBy(worker);
    const left = new AbortController();
    const { signal } = left;
    if (worker.gone.aborted) return;
    requests.set(id, { release: () => left.abort() });
    const onGone = (callback: () => void) => {
      signal.addEventListener('abort', callback, { once: true });
      return () => signal.removeEventListener('abort', callback);
    };
    try {
      const leave = await enterStreams({ ...SERVICE, key: client, clientKind, onGone }, signal);
      if (signal.aborted) return leave();
      let finish = (): void => undefined;
      const ended = new Promise<void>((resolve) => (finish = resolve));
      const timer = setTimeout(leave, lifetime[clientKind] + margin).unref();
      requests.set(id, {
        release: () => {
          clearTimeout(timer);
          leave();
          finish();
        },
        end: () => {
          clearTimeout(timer);
          leave(ended);
        },
      });
      worker.send({ kind: 'slot', id, isFree: true });
    } catch {
      requests.delete(id);
      worker.send({ kind: 'slot', id, isFree: false });
    }
  }

  return {
    receive: (worker: Worker, message: Request<'slot' | 'stream' | 'ending' | 'release'>): void => {
      const requests = heldBy(worker);
      if (message.kind === 'slot') giveHash(worker, message);
      else if (message.kind === 'stream') void giveStream(worker, message);
      else if (message.kind === 'ending') requests.get(message.id)?.end?.();
      else {
        requests.get(message.id)?.release();
        requests.delete(message.id);
      }
    },

    /** Frees the slots of a process that has ended. */
    forget: (worker: Worker): void => {
      for (const { release } of held.get(worker)?.values() ?? []) release();
    },
  };
}
