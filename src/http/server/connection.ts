// What the service knows about a connection: its client's network, and the requests that are not answered yet.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ClientGone } from '../../db/lanes/requester.ts';
import type { ByteBudget } from '../load/byte-budget.ts';
import { clientNetwork } from '../message/client-networks.ts';

/** Bytes that an ordinary request takes while it waits. */
const REQUEST_SIZE = 8_192;

interface Exchanged {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface Waiting {
  readonly response: ServerResponse;
  readonly start: () => void;
  readonly refuse: (reason: Error) => void;
}

/** There is one `Connection` for each socket. */
export class Connection {
  static readonly #all = new WeakMap<Socket, Connection>();
  readonly #socket: Socket;
  #network: string | undefined;
  #latest: Exchanged | undefined;
  /** The response that is being made or sent. */
  #current: ServerResponse | undefined;
  readonly #waiting: Waiting[] = [];
  readonly #callbacks = new Set<() => void>();
  #isListening = false;
  #onAnswered: ((late?: Exchanged) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static of(socket: Socket): Connection {
    let connection = Connection.#all.get(socket);
    if (!connection) {
      connection = new Connection(socket);
      Connection.#all.set(socket, connection);
    }
    return connection;
  }

  /** The network of the connection's own address, which may be that of a proxy. */
  get network(): string {
    return (this.#network ??= clientNetwork(this.#socket.remoteAddress ?? ''));
  }

  /** The latest request, until it is answered. An idle connection keeps none in memory. */
  get latest(): Exchanged | undefined {
    return this.#latest;
  }

  /** Registers a request. The server does this before the handler, and the handler again, which may be in another server. */
  track(request: IncomingMessage, response: ServerResponse): void {
    if (this.#latest?.response === response) return;
    const latest = { request, response };
    this.#latest = latest;
    response.once('close', () => {
      if (this.#latest === latest) this.#latest = undefined;
      if (this.#current === response || !this.#latest) this.#next();
    });
  }

  /**
   * Serializes pipelined requests: a read must see the result of the write before it. While one waits, the connection is not read,
   * so that at most those of one packet wait. Their memory counts for the network.
   * @returns undefined if the request may start at once
   * @throws ClientGone (rejects) if the connection closes
   */
  enter({ request, response }: Exchanged, budget: ByteBudget): Promise<void> | undefined {
    this.track(request, response);
    if (!this.#current) {
      this.#current = response;
      return undefined;
    }
    const [socket, { network }] = [this.#socket, this];
    if (budget.exceededLimit(network, REQUEST_SIZE)) socket.destroy();
    if (socket.destroyed) return Promise.reject(new ClientGone());
    socket.pause();
    this.#listen(); // Node closes no responses that have not started when the client disconnects.
    budget.take(network, REQUEST_SIZE);
    return new Promise<void>((start, refuse) => this.#waiting.push({ response, start, refuse })).finally(() =>
      budget.release(network, REQUEST_SIZE),
    );
  }

  /** Calls back when the connection closes. @returns a function that stops this */
  onClose(callback: () => void): () => void {
    this.#listen();
    this.#callbacks.add(callback);
    return () => this.#callbacks.delete(callback);
  }

  /**
   * Calls back once all requests are answered, if no more can follow. The latest one is not answered if its body is incomplete: it
   * is dropped if it still waits, else passed to the callback at once.
   */
  onceAnswered(callback: (late?: Exchanged) => void): void {
    const latest = this.#latest;
    if (latest?.request.complete === false) {
      const index = this.#waiting.findIndex(({ response }) => response === latest.response);
      if (index < 0) return callback(latest);
      this.#latest = undefined;
      for (const { refuse } of this.#waiting.splice(index)) refuse(new ClientGone());
    }
    if (this.#current || this.#latest) this.#onAnswered = callback;
    else callback();
  }

  #next(): void {
    const next = this.#waiting.shift();
    this.#current = next?.response;
    if (next) next.start();
    else this.#onAnswered?.();
    if (this.#waiting.length === 0 && this.#socket.isPaused()) this.#socket.resume();
  }

  /** One listener for all requests of the connection: adding one for each would cost more than most requests. */
  #listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    // Node resumes it after each response.
    this.#socket.on('resume', () => {
      if (this.#waiting.length > 0) this.#socket.pause();
    });
    this.#socket.once('close', () => {
      const gone = new ClientGone(); // A stack for each of thousands would take milliseconds.
      for (const { refuse } of this.#waiting.splice(0)) refuse(gone);
      for (const callback of [...this.#callbacks]) callback();
    });
  }
}
