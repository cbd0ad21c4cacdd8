// One request in progress: provides what handlers use, waits for turns, and detects that its client disconnects.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Problem } from '../../errors.ts';
import { hasMoreParameters } from '../../query/parse/grammar.ts';
import type { Settings } from '../../config.ts';
import { ClientGone, type Requester, type YieldIfDue } from '../../db/scheduling/requester.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import { RequestActivity } from '../load/request-activity.ts';
import type { Admission } from '../load/admission.ts';
import type { Authentication } from '../auth/authentication.ts';
import { wantsHtml } from '../api/negotiation.ts';
import { drainBody, readBody } from '../api/request-body.ts';
import { withoutBasePath } from '../message/base-path.ts';
import {
  Unauthorized,
  type ApiRequest,
  type ClientConnection,
  type WebRequester,
} from '../message/message.ts';
import { OTHER_ROUTE } from '../observability/metrics.ts';
import { clientNetworkOf, isSecure, originForLinks } from '../auth/request-origin.ts';
import { Peer } from './connection-peer.ts';
import { checkStillReads, probe } from '../message/half-closed-clients.ts';
import type { LoadLimits } from '../load/load-limits.ts';
import { isAdminPath, splitTarget, targetOf } from '../message/request-head.ts';

/** Bodies larger than this (bytes) also wait in the queue of heavy work. */
const LARGE_BODY = 16_384;
/** Records larger than this (bytes) wait in the queue of heavy work before they are rendered as HTML, which is slow. */
const LARGE_PAGE = 2_048;
/** Milliseconds of work after which other clients may run. */
const MAX_WORK = 4;
/**
 * Longer input waits for another turn before it is parsed:
 * - a body once it has arrived
 * - a query once the user has been read
 * - a query for an HTML page, or with many parameters, in the queue of heavy work
 */
const LONG_INPUT = 1_024;

/** A long query with more parameters than this waits in the queue of heavy work. A valid query has fewer. */
const MANY_PARAMETERS = 100;

/** The parts of the service that every request uses. */
export interface ExchangeServices {
  /** Prefix of request ids, different in each process. */
  readonly prefix: string;
  readonly settings: Settings;
  readonly loadLimits: LoadLimits;
  readonly admission: Admission;
  readonly authentication: () => Authentication | undefined;
}

/** One HTTP request with its response, and the client that waits for it. */
export class Exchange implements ApiRequest, WebRequester {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  readonly peer: Peer;
  readonly method: string;
  /** The path with the base path. */
  readonly fullPath: string;
  readonly path: string;
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly isInAdminArea: boolean;
  /** Milliseconds, as of `performance.now`. */
  readonly started = performance.now();
  /** The route pattern of the path, for metrics. */
  pattern = OTHER_ROUTE;
  /** The user, once known. */
  caller: Caller | undefined;
  /** Why authentication failed. A request is one failed login, also if it asks for its user again. */
  #refusal: Unauthorized | Problem | undefined;
  /** The user that an unauthenticated request queues as, see `queueAsUser`. */
  #presumedCaller: Caller | undefined;
  readonly activity: RequestActivity;
  readonly #services: ExchangeServices;
  readonly #number: number;
  #network: string | undefined;
  /** Whether an error response is delayed: the work for the request, or its query, was expensive. */
  pacesErrors = false;
  #isProbing = false;
  #callbacks: (() => void)[] | undefined;

  /** @param number counts the requests of this process */
  constructor(
    incoming: IncomingMessage,
    response: ServerResponse,
    services: ExchangeServices,
    number: number,
  ) {
    this.incoming = incoming;
    this.response = response;
    this.peer = Peer.of(incoming.socket);
    this.method = incoming.method ?? '';
    [this.fullPath, this.query] = splitTarget(targetOf(incoming));
    this.path = withoutBasePath(this.fullPath);
    this.headers = incoming.headers;
    this.isInAdminArea = isAdminPath(this.path);
    this.#services = services;
    this.#number = number;
    this.activity = new RequestActivity(this, services.admission);
  }

  /** Identifies the request in the log. */
  get id(): string {
    return `${this.#services.prefix}-${this.#number.toString(36)}`;
  }

  /** The client's network, see `clientNetworkOf`. */
  get network(): string {
    const { trustProxy } = this.#services.settings;
    this.#network ??=
      trustProxy > 0
        ? clientNetworkOf(this.headers, this.incoming.socket.remoteAddress, trustProxy)
        : this.peer.network;
    return this.#network;
  }

  get requester(): this {
    return this;
  }

  get key(): string {
    const caller = this.caller ?? this.#presumedCaller;
    return caller ? `user ${caller.id}` : this.network;
  }

  /** The client by which the rate limit counts the request: a user only if the credentials were verified before. */
  get countedClient(): string {
    const { authorization } = this.headers;
    const caller = authorization && this.#services.authentication()?.peek(authorization, this.network);
    return caller ? `user ${caller.id}` : this.network;
  }

  get clientKind(): Requester['clientKind'] {
    if (!this.caller && !this.#presumedCaller) return 'anonymous';
    return this.isInAdminArea ? 'admin' : 'user';
  }

  client(): ClientConnection {
    const { trustProxy, publicUrl } = this.#services.settings;
    const secure = isSecure(this.headers, this.incoming.socket, trustProxy);
    return {
      network: this.network,
      isSecure: secure,
      origin: originForLinks(this.headers, secure, publicUrl),
    };
  }

  async body(limit = this.#services.settings.maxBody): Promise<Buffer> {
    const reserve = this.#services.loadLimits.reserveBody(this.response, this);
    const bytes = await this.#receive(() => readBody(this.incoming, this.response, limit, reserve));
    if (bytes.length > LARGE_BODY) await this.#heavyTurn();
    return bytes;
  }

  ignoreBody(): Promise<void> {
    return this.#receive(() => drainBody(this.incoming, this.response, this.#services.settings.maxBody));
  }

  /**
   * Waits for a body. After that the request takes its turn again if the body is long or came late: a client can withhold the last
   * bytes of thousands of bodies, and then send all of them at once.
   */
  async #receive<T>(read: () => Promise<T>): Promise<T> {
    const { admission } = this.#services;
    const { iteration } = admission;
    this.pause();
    const received = await read();
    const isLong = received instanceof Buffer && received.length > LONG_INPUT;
    if (admission.iteration !== iteration) {
      await admission.lateBodies.next();
      if (this.response.closed) throw new ClientGone();
      if (!isLong) await this.activity.enterAgain();
    }
    if (isLong) await this.activity.enterQueued();
    return received;
  }

  async authenticate(): Promise<Caller> {
    const authentication = this.#services.authentication();
    if (!authentication) throw new Unauthorized();
    if (this.#refusal) throw this.#refusal;
    if (!this.caller || this.caller.precondition) {
      this.caller = undefined; // The log must not name a recalled user whose credentials are wrong now.
      this.pause();
      this.caller = await authentication
        .authenticate(this.headers.authorization, this.network, (callback) => this.onGone(callback))
        .catch((error: unknown) => {
          if (error instanceof Unauthorized || error instanceof Problem) this.#refusal = error;
          throw error;
        });
      if (this.query.length > LONG_INPUT) await this.activity.enterQueued();
    }
    return this.caller;
  }

  recall(): Caller | undefined {
    this.caller = this.#services.authentication()?.recall(this.headers.authorization, this.network);
    return this.caller;
  }

  queueAsUser(): void {
    this.#presumedCaller = this.#services.authentication()?.peek(this.headers.authorization, this.network);
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
      const index = callbacks.indexOf(callback);
      if (index < 0) return;
      callbacks.splice(index, 1);
      if (callbacks.length === 0) this.peer.unwatch(this);
    };
  }

  /** Ends the request: its client is no longer watched. */
  close(): void {
    this.activity.end();
    if (this.#callbacks && this.#callbacks.length > 0) this.peer.unwatch(this);
  }

  onClosed(): void {
    for (const callback of [...(this.#callbacks ?? [])]) callback();
  }

  onHalfClosed(): void {
    if (this.#isProbing) return;
    this.#isProbing = true;
    probe(this.incoming, this.response);
  }

  pause(): void {
    this.activity.pause();
  }

  resume(): Promise<void> | undefined {
    return this.activity.resume();
  }

  /** Waits for a turn before a query is parsed, if parsing it or showing its errors would delay other clients. */
  turnForQuery(): Promise<void> | undefined {
    const isCostly =
      this.query.length > LONG_INPUT && (hasMoreParameters(this.query, MANY_PARAMETERS) || wantsHtml(this));
    this.pacesErrors ||= isCostly;
    return isCostly && !this.#services.admission.isInHeavyTurn(this.activity) ? this.#heavyTurn() : undefined;
  }

  turnForHtml(bytes: number): Promise<void> | undefined {
    return bytes > LARGE_PAGE ? this.#heavyTurn(bytes) : undefined;
  }

  turnForDocument(): Promise<void> {
    return this.#heavyTurn();
  }

  workInTurns(): YieldIfDue {
    let since = performance.now();
    return () => {
      if (performance.now() - since < MAX_WORK) return undefined;
      return this.#heavyTurn().then(() => void (since = performance.now()));
    };
  }

  /** @param bytes held while waiting; those of bodies are counted elsewhere */
  async #heavyTurn(bytes?: number): Promise<void> {
    const { admission } = this.#services;
    this.pause();
    await admission.heavyTurn(this, bytes);
    const check = this.checkStillReads();
    if (check) {
      await check;
      await admission.heavyTurn(this, bytes);
    }
    if (this.response.closed) throw new ClientGone();
    admission.beginHeavyTurn(this.activity);
  }

  checkStillReads(): Promise<void> | undefined {
    return checkStillReads(this.incoming, this.response, this.peer);
  }
}
