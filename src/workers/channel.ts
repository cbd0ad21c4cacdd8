// Questions and answers between `vitrine serve` and a process that it has started. Both sides ask.
import type { Topic } from '../processes.ts';

/** `counts`: adds counts. `ready`: the process serves, and where. `ended`: its last metrics. */
export type ChannelTopic = Topic | 'counts' | 'ready' | 'ended';

type Message =
  | { readonly id: number; readonly topic: ChannelTopic; readonly data: unknown }
  | { readonly id: number; readonly answer: unknown };

/** The other side: a child process, or for a child process its own `process`. */
interface Port {
  readonly connected: boolean;
  readonly send?: (message: Message, handle: undefined, options: undefined, done: () => void) => boolean;
  readonly on: (event: 'message', listener: (message: Message) => void) => unknown;
}

export type Channel = ReturnType<typeof createChannel>;

export function createChannel(port: Port, answerTo: (topic: ChannelTopic, data: unknown) => unknown) {
  const asked = new Map<number, (answer: unknown) => void>();
  let count = 0;
  const send = (message: Message): void => {
    // The callback receives the error if the other side has just ended.
    if (port.connected) port.send?.(message, undefined, undefined, () => undefined);
  };
  port.on('message', (message) => {
    if ('answer' in message) return asked.get(message.id)?.(message.answer ?? undefined);
    void Promise.resolve(answerTo(message.topic, message.data)).then(
      (answer) => send({ id: message.id, answer: answer ?? null }), // JSON has no undefined
    );
  });
  return {
    /** How many questions have no answer. */
    unanswered: () => asked.size,

    /** @returns the answer; undefined if there is none within this time (milliseconds) */
    ask(topic: ChannelTopic, data: unknown, time?: number): Promise<unknown> {
      const id = (count += 1);
      return new Promise((resolve) => {
        const timer = time === undefined ? undefined : setTimeout(() => finish(undefined), time);
        const finish = (answer: unknown): void => {
          clearTimeout(timer);
          asked.delete(id);
          resolve(answer);
        };
        asked.set(id, finish);
        send({ id, topic, data });
      });
    },
  };
}
