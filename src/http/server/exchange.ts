// One request in progress: provides what handlers use, waits for turns, and detects that its client disconnects.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Problem } from '../../errors.ts';
import { hasMoreParameters } from '../../query/parse/grammar.ts';
import type { Settings } from '../../config.ts';
import type { Requester, YieldIfDue } from '../../db/lanes/requester.ts';
import type { Caller } from '../../resources/access/access.ts';
import type { LoadLimits } from '../load/load-limits.ts';
import { loopTurns } from '../load/loop-turns.ts';
import type { Authentication } from '../auth/authentication.ts';
import { wantsHtml } from '../api/negotiation.ts';
import { drainBody, readBody } from '../message/request-body.ts';
import { withoutBasePath } from '../message/base-path.ts';
import {
  Unauthorized,
  type ApiRequest,
  type ClientConnection,
  type WebRequester,
} from '../message/message.ts';
import { OTHER_ROUTE } from '../api/api-routes.ts';
import { clientNetworkOf, isSecure, originForLinks } from '../auth/request-origin.ts';
import { Connection } from './connection.ts';
import { isAdminPath, splitTarget, targetOf } from '../message/request-head.ts';

/**
 * Larger bodies, and records that are rendered as HTML, wait for their turn as a piece of long work (bytes). Checking an array of
 * numbers takes about a millisecond for so many, rendering them half of one. An ordinary first page has less.
 */
const LARGE = 4_096;
/** The same for queries of more characters, for HTML pages or with more parameters. A valid query has fewer. */
const LONG_QUERY = 1_024;
const MANY_PARAMETERS = 100;
/** Milliseconds of work after which other clients may run. */
const MAX_WORK = 4;

/** The parts of the service that every request uses. */
export interface ExchangeServices {
  /** Prefix of request ids, different in each process. */
  readonly prefix: string;
  readonly settings: Settings;
  readonly loadLimits: LoadLimits;
  readonly authentication: () => Authentication | undefined;
}

/** One HTTP request with its response, and the client that waits for it. */
export class Exchange implements ApiRequest, WebRequester {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
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
  /** The user whose credentials were verified before, once looked for. */
  #presumed: { readonly caller: Caller | undefined } | undefined;
  readonly #connection: Connection;
  readonly #services: ExchangeServices;
  readonly #number: number;
  #network: string | undefined;

  /** @param number counts the requests of this process */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    services: ExchangeServices,
    number: number,
  ) {
    this.request = request;
    this.response = response;
    this.method = request.method ?? '';
    [this.fullPath, this.query] = splitTarget(targetOf(request));
    this.path = withoutBasePath(this.fullPath);
    this.headers = request.headers;
    this.isInAdminArea = isAdminPath(this.path);
    this.#connection = Connection.of(request.socket);
    this.#services = services;
    this.#number = number;
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
        ? clientNetworkOf(this.headers, this.request.socket.remoteAddress, trustProxy)
        : this.#connection.network;
    return this.#network;
  }

  get requester(): this {
    return this;
  }

  /**
   * The user as whom the request takes turns: the caller, or else a recently verified one. The credentials are not checked, so
   * nothing else depends on it.
   */
  get #user(): Caller | undefined {
    const { authorization } = this.headers;
    if (this.caller || authorization === undefined) return this.caller;
    this.#presumed ??= { caller: this.#services.authentication()?.peek(authorization, this.network) };
    return this.#presumed.caller;
  }

  get key(): string {
    const user = this.#user;
    return user ? `user ${user.id}` : this.network;
  }

  get clientKind(): Requester['clientKind'] {
    if (!this.#user) return 'anonymous';
    return this.isInAdminArea ? 'admin' : 'user';
  }

  client(): ClientConnection {
    const { trustProxy, publicUrl } = this.#services.settings;
    const secure = isSecure(this.headers, this.request.socket, trustProxy);
    return {
      network: this.network,
      isSecure: secure,
      origin: originForLinks(this.headers, secure, publicUrl),
    };
  }

  async body(limit = this.#services.settings.maxBody): Promise<Buffer> {
    const reserve = this.#services.loadLimits.reserveBody(this.response, this);
    const bytes = await readBody(this.request, this.response, limit, reserve);
    // Thousands of bodies may be complete at the same moment.
    await (bytes.length > LARGE ? loopTurns.piece(this) : loopTurns.start(this));
    return bytes;
  }

  async ignoreBody(): Promise<void> {
    await drainBody(this.request, this.response, this.#services.settings.maxBody);
    await loopTurns.start(this);
  }

  async authenticate(again = false): Promise<Caller> {
    const authentication = this.#services.authentication();
    if (!authentication) throw new Unauthorized();
    if (this.#refusal) throw this.#refusal;
    if (again || !this.caller || this.caller.precondition) {
      this.caller = undefined; // The log must not name a recalled user whose credentials are wrong now.
      this.caller = await authentication
        .authenticate(this.headers.authorization, this.network, (callback) => this.onGone(callback))
        .catch((error: unknown) => {
          if (error instanceof Unauthorized || error instanceof Problem) this.#refusal = error;
          throw error;
        });
      // The users of many requests are read in one statement.
      const turn = loopTurns.start(this);
      if (turn) await turn;
    }
    return this.caller;
  }

  recall(): Caller | undefined {
    this.caller = this.#services.authentication()?.recall(this.headers.authorization, this.network);
    return this.caller;
  }

  recognize(caller: Caller): void {
    this.caller = caller;
  }

  onGone(callback: () => void): () => void {
    if (this.response.closed) queueMicrotask(callback);
    return this.#connection.onClose(callback);
  }

  /** Waits for a turn before a query is parsed, if parsing it or showing its errors would delay other clients. */
  turnForQuery(): Promise<void> | undefined {
    const isLong = this.query.length > LONG_QUERY;
    return isLong && (hasMoreParameters(this.query, MANY_PARAMETERS) || wantsHtml(this))
      ? loopTurns.piece(this)
      : undefined;
  }

  turnForHtml(bytes: number): Promise<void> | undefined {
    return bytes > LARGE ? loopTurns.piece(this) : loopTurns.start(this);
  }

  turnForDocument(): Promise<void> {
    return loopTurns.piece(this);
  }

  workInTurns(): YieldIfDue {
    let since = performance.now();
    return () => {
      if (performance.now() - since < MAX_WORK) return undefined;
      return loopTurns.piece(this).then(() => void (since = performance.now()));
    };
  }
}
