// Connects the processes of WORKERS: passes on counts and questions, and adds up metrics.
import type { Settings } from '../config.ts';
import { createSharedCounts, type Counts } from '../http/auth/shared-counts.ts';
import { processMetrics, restartMetric } from '../http/observability/metrics.ts';
import { MetricsText } from '../http/observability/metrics-exposition.ts';
import { sumMetrics } from '../http/observability/metrics-sum.ts';
import type { ChannelTopic } from './channel.ts';
import type { Worker } from './worker.ts';

/** Milliseconds that a process may take to answer a question. */
const MAX_ANSWER_TIME = 1_000;
/** Unanswered questions after which a process gets no further counts: it is frozen, and they take memory. */
const MAX_UNANSWERED = 100;

/** @param restarts how many processes have been replaced because they had ended */
export function createHub(settings: Settings, workers: ReadonlySet<Worker>, restarts: () => number) {
  /** The parent counts as well, so that a new process can start with what the others know. */
  const counts = createSharedCounts(settings);
  /** What processes have counted that have ended. */
  let endedMetrics = '';

  /** A process that does not answer is there with its latest metrics. */
  function sumOfAll(): string {
    const parent = new MetricsText();
    parent.add(restartMetric(restarts()), ...processMetrics());
    return sumMetrics([parent.text, ...[...workers].map(({ metrics }) => metrics)], [endedMetrics]);
  }

  async function ask(worker: Worker, topic: ChannelTopic, data: unknown): Promise<unknown> {
    const answer = await worker.channel?.ask(topic, data, MAX_ANSWER_TIME);
    if (topic === 'metrics' && typeof answer === 'string') worker.metrics = answer;
    return answer;
  }

  return {
    answer: async (asking: Worker, topic: ChannelTopic, data: unknown): Promise<unknown> => {
      if (topic === 'metrics' || topic === 'ended') asking.metrics = data as string;
      if (topic === 'ended') return undefined;
      const others = [...workers].filter((one) => one !== asking && one.isServing);
      if (topic === 'counts') {
        counts.add(data as Counts);
        for (const { channel } of others)
          if (channel && channel.unanswered() < MAX_UNANSWERED) void channel.ask('counts', data);
        return undefined;
      }
      const answers = await Promise.all(others.map((worker) => ask(worker, topic, data)));
      return topic === 'metrics' ? [sumOfAll()] : answers.filter((answer) => answer !== undefined);
    },

    /** Gives a new process what the others have counted lately. */
    inform: (worker: Worker): void => void worker.channel?.ask('counts', counts.recent()),

    /** Keeps what a process has counted that has ended, so that no sum decreases. */
    forget({ metrics }: Worker): void {
      endedMetrics = sumMetrics([], [endedMetrics, metrics]);
    },
  };
}
