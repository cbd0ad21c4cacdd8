import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Settings } from '../../config.ts';
import { ClientGone, type Requester } from '../../db/scheduling/requester.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import type { Admission } from '../load/admission.ts';
import type { Authentication } from '../auth/authentication.ts';
import { readBody } from '../api/request-body.ts';
import { Unauthorized, type ApiRequest, type Client, type WebRequester } from '../message/message.ts';
import { OTHER_ROUTE } from '../observability/metrics.ts';
import { clientAddress, isSecure } from '../auth/request-origin.ts';
import { Peer } from './connection-peer.ts';
import type { Pressure } from '../load/pressure.ts';
import { isAdmin, splitTarget } from '../message/request-target.ts';

/** Milliseconds after a client closed its half of the connection until the first probe; each further wait is longer. */
const FIRST_PROBE = 20;
/** Bytes of a body from which on work on it waits for its turn. */
const LARGE_BODY = 16_384;
/** The same of the records that a page shows with markup, which takes much longer for each byte. */
const LARGE_PAGE = 2_048;

/** What all requests to a service share. */
export interface ExchangeServices {
  /** What the ids of requests begin with. */
  readonly prefix: string;
  readonly settings: Settings;
  readonly pressure: Pressure;
  readonly admission: Admission;
  readonly authentication: () => Authentication | undefined;
}

/** One request over HTTP, and the client that waits for its answer. The client is gone when its connection ends before that. */
export class Exchange implements ApiRequest, WebRequester {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  readonly peer: Peer;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly isInAdminArea: boolean;
  /** Milliseconds, as of `performance.now`. */
  readonly started = performance.now();
  /** The pattern of the path, for counting. */
  pattern = OTHER_ROUTE;
  /** The user, once known. */
  caller: Caller | undefined;
  /** The user whose turns the request takes although nobody confirms the credentials, see `takeTurnsAsUser`. */
  #presumed: Caller | undefined;
  /** See Entrant. */
  countedFor: string | undefined;
  readonly #all: ExchangeServices;
  readonly #number: number;
  #network: string | undefined;
  /** Whether it was let in, so that work for it has begun. */
  hasBegun = false;
  #isIn = false;
  #isProbing = false;
  #callbacks: (() => void)[] | undefined;

  /** @param number of the request in this process */
  constructor(incoming: IncomingMessage, response: ServerResponse, all: ExchangeServices, number: number) {
    this.incoming = incoming;
    this.response = response;
    this.peer = Peer.of(incoming.socket);
    this.method = incoming.method ?? '';
    [this.path, this.query] = splitTarget(incoming.url ?? '/');
    this.headers = incoming.headers;
    this.isInAdminArea = isAdmin(this.path);
    this.#all = all;
    this.#number = number;
  }

  /** What finds the request in the log. */
  get id(): string {
    return `${this.#all.prefix}-${this.#number.toString(36)}`;
  }

  /** The client's network, see `clientAddress`. */
  get network(): string {
    const { trustProxy } = this.#all.settings;
    this.#network ??=
      trustProxy > 0
        ? clientAddress(this.headers, this.incoming.socket.remoteAddress, trustProxy)
        : this.peer.network;
    return this.#network;
  }

  get requester(): this {
    return this;
  }

  get key(): string {
    const caller = this.caller ?? this.#presumed;
    return caller ? `user ${caller.id}` : this.network;
  }

  get origin(): Requester['origin'] {
    if (!this.caller && !this.#presumed) return 'anonymous';
    return this.isInAdminArea ? 'admin' : 'user';
  }

  client(): Client {
    const { settings } = this.#all;
    return {
      address: this.network,
      isSecure: isSecure(this.headers, this.incoming.socket, settings.trustProxy),
    };
  }

  async body(limit = this.#all.settings.maxBody): Promise<Buffer> {
    this.park();
    const begin = (): void => {
      // A client of HTTP/1.0 would take it for the answer.
      const mayExpect = this.incoming.httpVersion !== '1.0';
      if (mayExpect && /^100-continue$/i.test(this.headers.expect ?? '')) this.response.writeContinue();
    };
    const reserve = this.#all.pressure.reserveBody(this.response, this);
    const bytes = await readBody(this.incoming, limit, begin, reserve);
    if (bytes.length > LARGE_BODY) await this.#heavyTurn();
    return bytes;
  }

  async authenticate(): Promise<Caller> {
    const authentication = this.#all.authentication();
    if (!authentication) throw new Unauthorized();
    if (!this.caller || this.caller.precondition) {
      this.caller = undefined; // A recalled user who is refused now is not named in the log.
      this.park();
      this.caller = await authentication.authenticate(this.headers.authorization, this.network, (callback) =>
        this.onGone(callback),
      );
    }
    return this.caller;
  }

  recall(): Caller | undefined {
    this.caller = this.#all.authentication()?.recall(this.headers.authorization, this.network);
    return this.caller;
  }

  takeTurnsAsUser(): void {
    this.#presumed = this.#all.authentication()?.peek(this.headers.authorization, this.network);
  }

  recognize(caller: Caller): void {
    this.caller = caller;
  }

  onGone(callback: () => void): () => void {
    if (this.response.closed) queueMicrotask(callback);
    const callbacks = (this.#callbacks ??= []);
    if (callbacks.length === 0) this.peer.watch(this);
    callbacks.push(callback);
    return () => {
      const at = callbacks.indexOf(callback);
      if (at < 0) return;
      callbacks.splice(at, 1);
      if (callbacks.length === 0) this.peer.forget(this);
    };
  }

  /** The request is over, and nobody waits for it any more. */
  close(): void {
    if (this.#callbacks && this.#callbacks.length > 0) this.peer.forget(this);
  }

  leave(): void {
    for (const callback of [...(this.#callbacks ?? [])]) callback();
  }

  doubt(): void {
    this.#probe(FIRST_PROBE);
  }

  /** The request counts as one of those that are worked on. */
  enter(): void {
    this.#isIn = true;
    this.hasBegun = true;
  }

  park(): void {
    if (this.#isIn) this.#all.admission.leave(this);
    this.#isIn = false;
  }

  turnForPage(bytes: number): Promise<void> | undefined {
    return bytes > LARGE_PAGE ? this.#heavyTurn(bytes) : undefined;
  }

  /** @param bytes that are held meanwhile; those of bodies are counted already */
  async #heavyTurn(bytes?: number): Promise<void> {
    const { admission } = this.#all;
    this.park();
    await admission.heavyTurn(this, bytes);
    const confirmation = this.confirm();
    if (confirmation) {
      await confirmation;
      await admission.heavyTurn(this, bytes);
    }
    if (this.response.closed) throw new ClientGone();
  }

  /**
   * Finds out whether a client that closed its half of the connection is still there, before any work is done for it: the
   * answer of its system to a first interim response makes a second one fail.
   * @returns undefined where there is no doubt; else resolves when it is known, or when the answer may take longer
   */
  confirm(): Promise<void> | undefined {
    const { socket, httpVersion } = this.incoming;
    if (!socket.readableEnded || httpVersion === '1.0' || this.peer.isConfirmed) return undefined;
    this.peer.isConfirmed = true;
    this.response.writeProcessing();
    return sleep(FIRST_PROBE).then(() => {
      if (this.response.closed) return undefined;
      this.response.writeProcessing();
      return nextTurn();
    });
  }

  /**
   * A client that closed its half of the connection may still want its answer, or be gone: only writing shows the difference.
   * Sends interim responses, which every HTTP/1.1 client ignores, until the answer begins or the connection breaks.
   */
  #probe(wait: number): void {
    if (this.#isProbing && wait === FIRST_PROBE) return;
    this.#isProbing = true;
    setTimeout(() => {
      const { response } = this;
      if (response.closed || response.headersSent || this.incoming.httpVersion === '1.0') return;
      response.writeProcessing();
      this.#probe(wait * 1.5);
    }, wait).unref();
  }
}
