import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Requester } from '../db/requester.ts';
import type { Caller } from '../resources/served.ts';

/** Milliseconds after a client closed its half of the connection until the first probe; each further wait is twice as long. */
const FIRST_PROBE = 20;

/** The client of one HTTP request. It is gone when its connection ends before the answer. */
export class HttpRequester implements Requester {
  /** The user, once known. */
  caller: Caller | undefined;
  readonly #incoming: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #addressOf: () => string;
  readonly #isAdminArea: boolean;
  #leave: (() => void) | undefined;
  #isProbing = false;
  readonly #callbacks = new Set<() => void>();
  readonly #startProbing = (): void => this.#probe(FIRST_PROBE);
  readonly #leaveAll = (): void => {
    for (const callback of [...this.#callbacks]) callback();
  };

  /** @param addressOf gives the network of the client's address */
  constructor(
    incoming: IncomingMessage,
    response: ServerResponse,
    addressOf: () => string,
    isAdminArea: boolean,
  ) {
    this.#incoming = incoming;
    this.#response = response;
    this.#addressOf = addressOf;
    this.#isAdminArea = isAdminArea;
  }

  get key(): string {
    return this.caller ? `user ${this.caller.id}` : this.#addressOf();
  }

  get origin(): Requester['origin'] {
    if (!this.caller) return 'anonymous';
    return this.#isAdminArea ? 'admin' : 'user';
  }

  onGone(callback: () => void): () => void {
    if (this.#response.closed) queueMicrotask(callback);
    // One listener for all: a page may wait for many statements at the same time.
    if (this.#callbacks.size === 0) this.#listen();
    this.#callbacks.add(callback);
    return () => {
      if (this.#callbacks.delete(callback) && this.#callbacks.size === 0) this.#stopListening();
    };
  }

  #listen(): void {
    const { socket } = this.#incoming;
    this.#response.once('close', this.#leaveAll);
    if (socket.readableEnded) this.#startProbing();
    else socket.once('end', this.#startProbing);
  }

  #stopListening(): void {
    this.#response.off('close', this.#leaveAll);
    this.#incoming.socket.off('end', this.#startProbing);
  }

  /** Remembers how to leave the admission to the service, for `park`. */
  enter(leave: () => void): void {
    this.#leave = leave;
  }

  park(): void {
    this.#leave?.();
    this.#leave = undefined;
  }

  /**
   * A client that closed its half of the connection may still want its answer, or be gone: only writing shows the difference.
   * Sends interim responses, which every HTTP/1.1 client ignores, until the answer begins or the connection breaks.
   */
  #probe(wait: number): void {
    if (this.#isProbing && wait === FIRST_PROBE) return;
    this.#isProbing = true;
    setTimeout(() => {
      const response = this.#response;
      if (response.closed || response.headersSent || this.#incoming.httpVersion === '1.0') return;
      response.writeProcessing();
      this.#probe(wait * 1.5);
    }, wait).unref();
  }
}
