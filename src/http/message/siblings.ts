// The other processes of the same service.

/** What processes can ask each other. */
export type Topic = 'metrics' | 'form';

/** The other processes that `WORKERS` has started. A process that is alone has none. */
export interface Siblings {
  /** Asks all other processes. @returns the answers that came in time, without the undefined ones */
  readonly ask: (topic: Topic, data: string) => Promise<readonly unknown[]>;
  /** Sets the function that answers the questions of other processes. It must be quick, and its answer small. */
  readonly onQuestion: (topic: Topic, answer: (data: string) => unknown) => void;
}
