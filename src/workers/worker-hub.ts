// Connects the processes of WORKERS: passes on counts and questions, and gives slots.
import type { Settings } from '../config.ts';
import { sumMetrics } from '../http/observability/metrics-sum.ts';
import { createGrantedSlots } from './granted-slots.ts';
import { createSharedState } from './shared-state.ts';
import type { Worker, WorkerMessage } from './worker.ts';

/** Milliseconds that a process may take to answer a question. */
const MAX_ANSWER_TIME = 1_000;

type Question = Extract<WorkerMessage, { kind: 'question' }>;

/**
 * @param workers the processes that run
 * @param ownMetrics the metrics of the parent process
 */
export function createWorkerHub(
  settings: Settings,
  workers: () => readonly Worker[],
  ownMetrics: () => string,
) {
  /** The parent counts as well, so that a new process can start with what the others know. */
  const state = createSharedState(settings);
  const slots = createGrantedSlots();
  const answers = new Map<number, (data: unknown) => void>();
  /** The latest known metrics of each process. */
  const latestMetrics = new Map<Worker, string>();
  let endedMetrics = '';
  let questions = 0;

  const others = (worker: Worker): readonly Worker[] =>
    workers().filter((one) => one !== worker && one.hasJoined());

  /** @returns the answer, or undefined if there is none in time */
  function ask(worker: Worker, { topic, data }: Pick<Question, 'topic' | 'data'>): Promise<unknown> {
    const id = (questions += 1);
    return new Promise((resolve) => {
      const finish = (answer?: unknown): void => {
        clearTimeout(timer);
        answers.delete(id);
        resolve(answer);
      };
      const timer = setTimeout(finish, MAX_ANSWER_TIME);
      answers.set(id, finish);
      worker.send({ kind: 'question', id, topic, data });
    });
  }

  /** @param own the metrics of the process that asks */
  async function collectMetrics(asking: Worker, own: string): Promise<string> {
    latestMetrics.set(asking, own);
    const silent: Worker[] = [];
    await Promise.all(
      others(asking).map(async (worker) => {
        const text = await ask(worker, { topic: 'metrics', data: '' });
        if (typeof text === 'string' && !worker.gone.aborted) latestMetrics.set(worker, text);
        else silent.push(worker);
      }),
    );
    const texts = (isSilent: boolean): string[] =>
      [...latestMetrics].flatMap(([worker, text]) => (silent.includes(worker) === isSilent ? [text] : []));
    return sumMetrics([ownMetrics(), ...texts(false)], [endedMetrics, ...texts(true)]);
  }

  async function answerQuestion(worker: Worker, question: Question): Promise<void> {
    const found =
      question.topic === 'metrics'
        ? [await collectMetrics(worker, question.data)]
        : await Promise.all(others(worker).map((other) => ask(other, question)));
    const known = found.filter((answer) => answer !== undefined && answer !== null);
    worker.send({ kind: 'answers', id: question.id, answers: known });
  }

  return {
    receive: (worker: Worker, message: WorkerMessage): void => {
      if (message.kind === 'batch') {
        state.add(message.batch);
        for (const other of others(worker)) other.outbox.forward(message.batch);
      } else if (message.kind === 'question') void answerQuestion(worker, message);
      else if (message.kind === 'answer') answers.get(message.id)?.(message.data);
      else if (message.kind === 'ended') latestMetrics.set(worker, message.metrics);
      else slots.receive(worker, message);
    },

    /** Gives a new process what the others have counted lately. */
    inform: (worker: Worker): void => {
      for (const batch of state.recent()) worker.send({ kind: 'batch', batch });
    },

    /** Frees the slots of a process that has ended. Keeps its metrics, so that no sum decreases. */
    forget(worker: Worker): void {
      const last = latestMetrics.get(worker);
      latestMetrics.delete(worker);
      slots.forget(worker);
      if (last !== undefined) endedMetrics = sumMetrics([], [endedMetrics, last]);
    },
  };
}
