// A process of WORKERS: its connection to the process that has started it, and through it to the others.
import cluster from 'node:cluster';
import type { Settings } from '../config.ts';
import { ClientGone } from '../db/scheduling/requester.ts';
import { unavailable } from '../errors.ts';
import type { Siblings, Topic } from '../processes.ts';
import type { SharedGate } from '../resources/passwords/password-hashing.ts';
import type { ToParent, ToWorker, WorkerStart } from './messages.ts';
import { createOutbox } from './outbox.ts';
import { createSharedState, type SharedState } from './shared-state.ts';

/** Milliseconds that answers of other processes may take. */
const MAX_ANSWER_TIME = 2_000;
const busy = (): Error => unavailable('Too many passwords are being checked. Try again.');

/** What a service shares with the other processes. */
export interface Sharing {
  /** How many processes share the memory. */
  readonly processes: number;
  /** The same in all processes; undefined if there is only one. */
  readonly secret: Buffer | undefined;
  readonly state: SharedState;
  readonly hashGate: SharedGate | undefined;
  readonly siblings: Siblings | undefined;
}

/** For a process that shares nothing. */
export const alone = (settings: Settings): Sharing => ({
  processes: 1,
  secret: undefined,
  state: createSharedState(settings),
  hashGate: undefined,
  siblings: undefined,
});

/** The connection of a worker to its parent process. */
export interface WorkerLink {
  readonly start: WorkerStart;
  readonly sharing: Sharing;
  /** Reports that the process serves, and the text that says where. */
  readonly ready: (text: string) => void;
  /** Hands over the last metrics. */
  readonly end: (metrics: string) => Promise<void>;
}

/**
 * Waits for the first message of the parent process. If the parent process ends, this one gets a SIGTERM: it finishes its requests,
 * and ends as well.
 */
export function joinParent(settings: Settings): Promise<WorkerLink> {
  const send = (message: ToParent, onWritten: () => void = () => undefined): void => {
    if (process.connected) process.send?.(message, undefined, undefined, onWritten);
  };
  const outbox = createOutbox((batch, onWritten) => send({ kind: 'batch', batch }, onWritten));
  const state = createSharedState(settings, outbox);
  const slots = new Map<number, (answer: boolean | Error) => void>();
  const questions = new Map<number, (answers: readonly unknown[]) => void>();
  const answerers = new Map<Topic, (data: string) => unknown>();
  let count = 0;

  /**
   * Waits until the parent process gives a slot.
   * @param onGone calls back with the reason to wait no longer. @returns a function that stops this
   * @param onDone called when the parent process has answered, or when it was sent that no one waits any longer
   * @returns the id of the slot; undefined if there is none
   */
  async function takeSlot(
    question: (id: number) => ToParent,
    onGone: (callback: (reason: Error) => void) => () => void,
    onDone?: () => void,
  ): Promise<number | undefined> {
    const id = (count += 1);
    const isFree = await new Promise<boolean>((resolve, reject) => {
      const stopListening = onGone((reason) => {
        slots.get(id)?.(reason);
        send({ kind: 'release', id }, onDone);
      });
      slots.set(id, (answer) => {
        slots.delete(id);
        stopListening();
        if (answer instanceof Error) return reject(answer);
        onDone?.();
        resolve(answer);
      });
      send(question(id));
    });
    return isFree ? id : undefined;
  }

  const hashGate: SharedGate = async (priority, work, signal) => {
    const id = await takeSlot(
      (id) => ({ kind: 'slot', id, priority }),
      (callback) => {
        const leave = (): void => callback(new ClientGone());
        signal?.addEventListener('abort', leave, { once: true });
        return () => signal?.removeEventListener('abort', leave);
      },
    );
    if (id === undefined) throw busy();
    try {
      return await work();
    } finally {
      send({ kind: 'release', id });
    }
  };

  const siblings: Siblings = {
    onQuestion: (topic, answer) => void answerers.set(topic, answer),
    ask: (topic, data) =>
      new Promise((resolve) => {
        const id = (count += 1);
        const finish = (answers: readonly unknown[]): void => {
          clearTimeout(timer);
          questions.delete(id);
          resolve(answers);
        };
        const timer = setTimeout(() => finish([]), MAX_ANSWER_TIME);
        questions.set(id, finish);
        send({ kind: 'question', id, topic, data });
      }),
  };

  function receive(message: Exclude<ToWorker, { kind: 'start' }>): void {
    if (message.kind === 'batch') return state.add(message.batch);
    const { id } = message;
    if (message.kind === 'slot') {
      slots.get(id)?.(message.isFree);
    } else if (message.kind === 'answers') questions.get(id)?.(message.answers);
    else send({ kind: 'answer', id, data: answerers.get(message.topic)?.(message.data) });
  }

  process.on('SIGHUP', () => undefined); // only the parent process reloads
  // Otherwise Node.js ends the process at once, without finishing its requests.
  if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  return new Promise((resolve) => {
    process.on('message', (message: ToWorker) => {
      if (message.kind !== 'start') return receive(message);
      const { start } = message;
      const { processes } = start;
      const secret = Buffer.from(start.secret, 'base64');
      resolve({
        start,
        sharing: {
          processes,
          secret,
          state,
          hashGate,
          siblings,
        },
        ready: (text) => send({ kind: 'ready', text }),
        end: (metrics) =>
          new Promise((written) => {
            if (!process.connected) return written();
            send({ kind: 'ended', metrics }, written);
          }),
      });
    });
    send({ kind: 'join' });
  });
}
