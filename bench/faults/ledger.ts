/** What a client knows of its write: a success, an error that means "not made", or neither. */
export type Belief = 'made' | 'not made' | 'unknown';

/**
 * Why a write did not succeed. `busy`: a 429, or a 503 that means "not made". `lost`: a 503 that says that it is not known.
 * `cut`: the connection broke after the request was sent. `reset`: so did a new connection, which the service may never have
 * accepted. `refused`: the request was never sent. `conflict`: 412, or 404 of a DELETE.
 * `left`: the client closed its connection on purpose.
 */
export type Failure = 'busy' | 'lost' | 'cut' | 'reset' | 'refused' | 'conflict' | 'left' | 'unexpected';

export type Model = 'entry' | 'counter';
/** The columns of a record; those that a write names. */
export type Values = Readonly<Record<string, string | number>>;

export interface Operation {
  /** Unique; each POST and PUT writes it into the record. */
  readonly token: string;
  readonly model: Model;
  readonly action: 'create' | 'update' | 'delete';
  /** The key; of a POST known after its success only. */
  record: string | undefined;
  readonly values: Values;
  /** The token of the write with an unknown outcome that this one repeats, with the same `If-Match`. */
  readonly repeats?: string | undefined;
  /** Logical times, from one clock for all clients. */
  readonly started: number;
  ended: number;
  belief: Belief;
  failure?: Failure | undefined;
  /** For people: status and detail, or the error. */
  answer: string;
}

/** All writes of a round, in the order in which they were sent. */
export interface Ledger {
  readonly operations: Operation[];
  /** Answers that do not fit their request: another record, other values than those acknowledged. */
  readonly mixups: string[];
  readonly begin: (
    operation: Pick<Operation, 'model' | 'action' | 'record' | 'repeats'> & {
      readonly values: (token: string) => Values;
    },
  ) => Operation;
  /** Notes the end of a write. */
  readonly end: (operation: Operation, outcome: Pick<Operation, 'belief' | 'failure' | 'answer'>) => void;
}

/** @param round distinguishes the tokens of this round from all others */
export function createLedger(round: string): Ledger {
  const operations: Operation[] = [];
  let clock = 0;
  return {
    operations,
    mixups: [],
    begin({ model, action, record, repeats, values }) {
      const started = (clock += 1);
      const token = `${round}-${started}`;
      const operation: Operation = {
        token,
        model,
        action,
        record,
        repeats,
        values: values(token),
        started,
        ended: Infinity,
        belief: 'unknown',
        answer: '',
      };
      operations.push(operation);
      return operation;
    },
    end(operation, outcome) {
      operation.ended = clock += 1;
      Object.assign(operation, outcome);
    },
  };
}

/** A text that shows whether all of it was written by one write. */
export const payloadOf = (token: string, repetitions: number): string => `${token}/`.repeat(repetitions);
