import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { clientNetwork } from '../message/client-networks.ts';

/**
 * Maximum number of requests of one connection that wait. The service's own server stops reading long before; a server that
 * embeds the handler may not.
 */
const MOST_WAITING = 256;
/** Milliseconds between two refusals on one connection: what `Retry-After: 1` asks for. */
const REFUSAL_INTERVAL = 1_000;

/** A request that wants to know when its client is gone. */
export interface Watcher {
  /** The connection is closed. */
  readonly onClosed: () => void;
  /** The client has closed its half of the connection, and may be gone. */
  readonly onHalfClosed: () => void;
}

/** The other end of a connection: what is known of it for all its requests. */
export class Peer {
  static readonly #peers = new WeakMap<Socket, Peer>();
  readonly #socket: Socket;
  #network: string | undefined;
  /** The answer to the last request. */
  #latest: ServerResponse | undefined;
  /** What the waiting requests are resolved with. */
  readonly #waiting = new Set<(isOpen: boolean) => void>();
  readonly #watchers = new Set<Watcher>();
  #isWatched = false;
  /** When the next refusal may be sent. */
  #refusalDue = -Infinity;
  /** Whether it was found to be there although it has closed its half of the connection. */
  isConfirmed = false;

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
   * Serializes pipelined requests: a read must see what the write before it has done. Other connections are served between two
   * of them.
   * @returns a promise of whether the connection is still open, undefined where nothing is to be waited for
   */
  turn(response: ServerResponse): Promise<boolean> | undefined {
    const previous = this.#latest;
    this.#latest = response;
    if (!previous) return this.#arrival();
    return previous.writableFinished || previous.closed ? undefined : this.#wait(previous);
  }

  /**
   * Paces the refusals of clients that ignore `Retry-After`. The first one is sent at once. Asking again and again on a
   * connection gets the next one a second later, and so takes little of the processor from others.
   * @returns undefined where the refusal may be sent at once, else resolves when it may
   */
  pace(): Promise<void> | undefined {
    const now = performance.now();
    const due = this.#refusalDue;
    this.#refusalDue = Math.max(now, due) + REFUSAL_INTERVAL;
    return due > now ? sleep(due - now) : undefined;
  }

  /** Tells a request when the connection ends, until `forget`. */
  watch(watcher: Watcher): void {
    this.#listen();
    this.#watchers.add(watcher);
    if (this.#socket.readableEnded) watcher.onHalfClosed();
  }

  forget(watcher: Watcher): void {
    this.#watchers.delete(watcher);
  }

  /** Listens once for all requests of the connection: a listener for each would cost more than most of them. */
  #listen(): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
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
   * Lets a turn of the event loop pass before the first request, in which Node reads that a client has left already: after a
   * burst many have, and their requests must cost next to nothing.
   */
  #arrival(): Promise<boolean> {
    return new Promise((resolve) => {
      setImmediate(() => setImmediate(() => resolve(!this.#socket.destroyed)));
    });
  }

  #wait(previous: ServerResponse): Promise<boolean> {
    const waiting = this.#waiting;
    if (this.#socket.closed) return Promise.resolve(false);
    this.#listen(); // Node does not close the responses that it has not begun when the client goes away.
    if (waiting.size >= MOST_WAITING) this.#socket.destroy();
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
