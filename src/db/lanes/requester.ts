/** The client that waits for a statement, as far as the scheduler needs to know it. */
export interface Requester {
  /** Statements with the same key belong to one client: a user, or the network of an address. */
  readonly key: string;
  /** `admin` is the admin area and the service itself; anonymous callers get the shortest timeout. */
  readonly clientKind: 'anonymous' | 'user' | 'admin';
  /**
   * Calls back once when the client disconnects, or soon if it has; never before it returns.
   * @returns a function that stops this
   */
  readonly onGone: (callback: () => void) => () => void;
  /** Begins work that may block the event loop for long. The work must call the returned function often. */
  readonly workInTurns: () => YieldIfDue;
}

/**
 * Lets other clients run if the caller has worked for some milliseconds since the last time.
 * @returns undefined if it may go on at once
 */
export type YieldIfDue = () => Promise<void> | undefined;

const nothing = (): void => undefined;

/** The service itself: its start, its commands and its maintenance. */
export const SERVICE: Requester = {
  key: 'service',
  clientKind: 'admin',
  onGone: () => nothing,
  workInTurns: () => () => undefined,
};

/** The client closed its connection before the response, so none is made. */
export class ClientGone extends Error {
  constructor() {
    super('the client closed the connection');
  }
}

/**
 * Milliseconds from when a client disconnects until its statement is canceled. PostgreSQL starts a process for each request to
 * cancel, which costs more than a short statement.
 */
const CANCEL_DELAY = 30;

/** Cancels a statement some time after its client disconnects. @returns a function that stops this */
export function cancelWhenGone(requester: Requester, cancel: (reason: Error) => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  const stopListening = requester.onGone(() => {
    timer = setTimeout(() => cancel(new ClientGone()), CANCEL_DELAY).unref();
  });
  return () => {
    clearTimeout(timer);
    stopListening();
  };
}

/** Whether an error, or one of those that a stream has collected, is `ClientGone`. */
export const isClientGone = (error: unknown): boolean =>
  error instanceof ClientGone || (error instanceof AggregateError && error.errors.some(isClientGone));
