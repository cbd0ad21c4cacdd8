// What the service knows about the client of a connection, for all requests on that connection.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { clientNetwork } from '../message/client-networks.ts';

/**
 * Maximum number of waiting requests of one connection. The service's own server stops reading long before that, but a server
 * that embeds the handler may not.
 */
const MAX_WAITING = 256;
/** Milliseconds between two refusals on one connection, like `Retry-After: 1`. */
const REFUSAL_INTERVAL = 1_000;

/** A request to notify when its client disconnects. */
export interface Watcher {
  /** Called when the connection is closed. */
  readonly onClosed: () => void;
  /** Called when the client has closed its half of the connection. It may have disconnected, or still read. */
  readonly onHalfClosed: () => void;
}

/** The client of a connection. There is one `Peer` for each socket. */
export class Peer {
  static readonly #peers = new WeakMap<Socket, Peer>();
  readonly #socket: Socket;
  #network: string | undefined;
  /** The response to the latest request, until it is closed. An idle connection does not keep it, nor its request. */
  #latest: ServerResponse | undefined;
  #hasBegun = false;
  /** Resolvers of the waiting requests. */
  readonly #waiting = new Set<(isOpen: boolean) => void>();
  readonly #watchers = new Set<Watcher>();
  #isListening = false;
  /** When the next refusal may be sent. */
  #refusalDue = -Infinity;
  /** Whether `checkStillReads` has checked the half-closed connection, or is doing so. */
  wasReadingChecked = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static of(socket: Socket): Peer {
    let peer = Peer.#peers.get(socket);
    if (!peer) {
      peer = new Peer(socket);
      Peer.#peers.set(socket, peer);
    }
    return peer;
  }

  /** The network of the connection's own address, see `clientNetwork`. */
  get network(): string {
    return (this.#network ??= clientNetwork(this.#socket.remoteAddress ?? ''));
  }

  /**
   * Serializes pipelined requests on one connection: a read must see the result of the write before it. Other connections are
   * served between two requests.
   * @returns a promise of whether the connection is still open, or undefined if the request may start at once
   */
  waitForPrevious(response: ServerResponse): Promise<boolean> | undefined {
    const previous = this.#latest;
    this.#latest = response;
    response.once('close', () => {
      if (this.#latest === response) this.#latest = undefined;
    });
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      return this.#letNodeNoticeDisconnect();
    }
    return !previous || previous.writableFinished ? undefined : this.#wait(previous);
  }

  /**
   * Delays the refusals of clients that ignore `Retry-After`, so that they use little processor time. The first refusal on a
   * connection is sent at once, each further one a second later.
   * @returns undefined if the refusal may be sent at once, else a promise that resolves when it may
   */
  pace(): Promise<void> | undefined {
    const now = performance.now();
    const due = this.#refusalDue;
    this.#refusalDue = Math.max(now, due) + REFUSAL_INTERVAL;
    return due > now ? sleep(due - now) : undefined;
  }

  /** Notifies a request when the connection ends, until `unwatch`. */
  watch(watcher: Watcher): void {
    this.#listen();
    this.#watchers.add(watcher);
    if (this.#socket.readableEnded) watcher.onHalfClosed();
  }

  unwatch(watcher: Watcher): void {
    this.#watchers.delete(watcher);
  }

  /** One listener for all requests of the connection: adding one for each would cost more than most requests. */
  #listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    this.#socket.once('close', () => {
      for (const resolve of this.#waiting) resolve(false);
      this.#waiting.clear();
      for (const watcher of [...this.#watchers]) watcher.onClosed();
    });
    this.#socket.on('end', () => {
      for (const watcher of [...this.#watchers]) watcher.onHalfClosed();
    });
  }

  /**
   * Delays the first request until Node has had a whole iteration of the event loop to notice that the client has disconnected.
   * After a burst, many clients have disconnected, and their requests must cost next to nothing.
   */
  #letNodeNoticeDisconnect(): Promise<boolean> {
    return new Promise((resolve) => {
      setImmediate(() => setImmediate(() => resolve(!this.#socket.destroyed)));
    });
  }

  #wait(previous: ServerResponse): Promise<boolean> {
    const waiting = this.#waiting;
    if (this.#socket.closed) return Promise.resolve(false);
    this.#listen(); // When the client disconnects, Node does not close responses that have not started.
    if (waiting.size >= MAX_WAITING) this.#socket.destroy();
    return new Promise((resolve) => {
      waiting.add(resolve);
      previous.once('close', () =>
        setImmediate(() => {
          if (waiting.delete(resolve)) resolve(!this.#socket.destroyed);
        }),
      );
    });
  }
}
