// Workarounds that make pipelining, canceling and dedicated connections over postgres.js 3.4.9 safe. They rely on its internals:
// test/internals/connections.test.ts must pass before its exact version in package.json changes.
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import postgres from 'postgres';
import {
  isPooled,
  parseAddress,
  sessionSettings,
  tlsContextOptions,
  tlsModeOf,
  type DatabaseAddress,
  type Server,
} from '../../database-address.ts';
import { Problem, RETRY, unavailable } from '../../errors.ts';
import { isCut } from './database-errors.ts';
import type { BoundSql } from '../fragment.ts';
import type { RawRow } from '../rows.ts';
import { forgetChangedSettings, RESET_SESSION, watchSettings } from '../session-state.ts';
import { createSockets, findWritable, type Sockets } from './servers.ts';
import { messageOf } from '../../messages.ts';

/** The rows of a statement, and its column names if it returns rows. */
export type RawRows = RawRow[] & { readonly columns?: readonly { readonly name: string }[] };

/**
 * Sends parameters of these inferred types as they are: boolean, bytea, json, date, timestamp, timestamptz and jsonb. The driver's
 * own serializers change some values.
 */
const AS_TEXT = { to: 25, from: [16, 17, 114, 1082, 1114, 1184, 3802], serialize: String, parse: String };

/** Options of the driver that its type declarations lack. */
type Options = postgres.Options<Record<string, postgres.PostgresType>> & {
  readonly socket?: Sockets['open'];
};

/**
 * The TLS of the connections to an address. Without TLS on a Unix socket, as in libpq. For a server given by IP address, the driver
 * would let Node compare the certificate with `localhost`.
 * @param server the server that was chosen, if any
 */
function tlsOptions(address: DatabaseAddress, server: () => Server | undefined): Pick<Options, 'ssl'> {
  const { servers, parameters } = address;
  const mode = tlsModeOf(address);
  if (mode === 'disable' || servers.every(({ path }) => path !== undefined)) return { ssl: false };
  if (mode === 'prefer' || mode === 'allow') return { ssl: 'prefer' };
  // Without its own authorities, `verify-ca` would accept a certificate of any site.
  const isAnyName = mode === 'verify-ca' && parameters.has('sslrootcert');
  return {
    ssl: {
      rejectUnauthorized: mode !== 'require',
      checkServerIdentity: (name: string, certificate: PeerCertificate) =>
        isAnyName ? undefined : checkServerIdentity((server() ?? servers[0]).host || name, certificate),
      ...tlsContextOptions(address),
    },
  };
}

/** The driver's options for an address. It would pass all parameters on to PostgreSQL, and knows no sockets in them. */
function addressOptions(address: DatabaseAddress, { connection }: Options): Options {
  const { user, password, database, parameters } = address;
  const idle = Number(parameters.get('keepalives_idle') ?? 0);
  const fallback = parameters.get('fallback_application_name');
  return {
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(database !== undefined && { database }),
    ...(isPooled(address) && { prepare: false }),
    ...(parameters.get('keepalives') === '0' ? { keep_alive: 0 } : idle > 0 && { keep_alive: idle }),
    ...(parameters.get('sslnegotiation') === 'direct' && { sslnegotiation: 'direct' }),
    connection: {
      ...connection,
      ...(fallback !== undefined && { application_name: fallback }),
      ...sessionSettings(address),
    },
  };
}

/** Clients with a commit that did not wait for its standby. */
const unreplicated = new WeakSet<postgres.Sql>();

/**
 * Returns and clears the mark of a client whose last commit did not wait for a synchronous standby, because it was canceled.
 * PostgreSQL reports success, but a failover may undo the change.
 */
export const takeUnreplicated = (sql: postgres.Sql): boolean => unreplicated.delete(sql);

/** Sends the reset of a session. */
export const resetSession = (sql: postgres.Sql): Promise<unknown> =>
  sql.unsafe(RESET_SESSION).then(() => forgetChangedSettings(sql));

/** Opens a client with one connection, to a server that is chosen when it connects. */
function openOn(
  address: DatabaseAddress,
  choose: () => Server | Promise<Server>,
  options: Options,
): postgres.Sql {
  const sockets = createSockets(choose);
  const sql: postgres.Sql = postgres({
    ...options,
    ...addressOptions(address, options),
    ...tlsOptions(address, sockets.server),
    onparameter: watchSettings(() => sql),
    onnotice: ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') unreplicated.add(sql);
    },
    socket: sockets.open,
    types: { text: AS_TEXT },
  } as Options);
  const end = sql.end.bind(sql);
  // The driver does not end a connection whose socket is still being opened.
  sql.end = (how) => end(how).finally(sockets.close);
  return sql;
}

/** Asks a server whether it accepts changes. */
async function isWritable(address: DatabaseAddress, server: Server): Promise<boolean> {
  const options = { max: 1, fetch_types: false, connect_timeout: 3 };
  const connection = { application_name: 'vitrine' };
  const sql = openOn(address, () => server, { ...options, connection });
  try {
    const [row] = await sql.unsafe<{ transaction_read_only: string }[]>('show transaction_read_only');
    return row?.transaction_read_only === 'off';
  } finally {
    void sql.end({ timeout: 0 });
  }
}

/** @throws Error for an address that the settings refuse */
function addressOf(url: string): DatabaseAddress {
  const address = parseAddress(url);
  if (!address) throw new Error('the address of the database is invalid');
  return address;
}

/**
 * Opens a connection to PostgreSQL. No other function does. The driver's own choice among several servers is not used:
 *
 * - Each client would begin with the first server, and fail for as long as that one does not answer or is starting.
 * - It accepts a standby as `read-write`, and while no server is accepted it tries again without a pause.
 * - A request to cancel goes to the first server, and each server without a port gets the port of the first one.
 */
export function openPostgres(url: string, options: Options): postgres.Sql {
  const address = addressOf(url);
  const { servers, parameters } = address;
  const choose =
    servers.length === 1
      ? () => servers[0]
      : () => findWritable(url, servers, (server) => isWritable(address, server));
  // On each new connection the driver then asks whether the server is a standby: it may have become one since the search.
  const isTargeted = (parameters.get('target_session_attrs') ?? 'any') !== 'any';
  return openOn(address, choose, {
    ...options,
    ...(isTargeted && { target_session_attrs: 'primary' as const }),
  });
}

/**
 * Whether statements may be sent before the answers to earlier ones. Not behind a transaction pooler (`prepare=false`): the driver
 * sends a new statement with values in two steps, and the pooler may give the connection to another client between them.
 */
export const supportsPipelining = (url: string): boolean => !isPooled(addressOf(url));

/** A statement that was passed to the driver. */
export interface Query extends PromiseLike<RawRows> {
  /** Whether PostgreSQL runs it now, and not an earlier one. */
  readonly active: boolean;
  /** The connection's process and secret, once the statement was sent. */
  readonly state: object | null;
  /** Removes a statement that was not sent from the driver's queue, and rejects it. */
  readonly cancel: () => unknown;
}

/**
 * Passes a statement to the driver. Disables the driver's own retry of stale prepared statements, which can deliver results to
 * the wrong query; see `isStalePrepared`.
 */
export function sendStatement(sql: postgres.Sql, { text, values }: BoundSql, prepare: boolean): Query {
  // The type declarations lack these options. Without `simple: false`, the driver uses the simple protocol for a statement without
  // values, which cannot prepare it and allows several statements in one text.
  // `onexecute` runs when a pipelined statement was written. It clears `prepared`, without which the driver does not retry.
  const options: object = { prepare, simple: false, onexecute: () => !(query.prepared = false) };
  const query = sql.unsafe(text, values as string[], options).raw() as unknown as Query & {
    prepared: boolean;
  };
  return query;
}

/**
 * Calls back when the driver sends a statement, which may have to wait for its connection to open. The driver itself reports that
 * only for some statements (`onexecute`), but it sets the state of each one then.
 */
export function whenSent(query: Query, callback: () => void): void {
  let { state } = query;
  const set = (sent: Query['state']): void => {
    state = sent;
    callback();
  };
  Object.defineProperty(query, 'state', { get: () => state, set });
}

/**
 * Sends PostgreSQL's request to cancel what the connection of a statement is running. Resolves when the request is over: before
 * that it could hit the next statement. The driver's own `cancel` discards this promise.
 */
export function cancelOnServer(query: Query): Promise<unknown> {
  const { canceller } = query as unknown as { canceller?: (query: Query) => Promise<unknown> };
  return canceller ? canceller(query) : Promise.resolve();
}

/** Milliseconds after which a request to cancel counts as lost, and its connection is ended. */
export const CANCEL_TIMEOUT = 5_000;

/** The 503 for a statement whose connection has ended. */
export class ConnectionLost extends Problem {
  constructor() {
    super(503, messageOf('unavailable'), RETRY);
  }
}

/** Errors of statements that were sent and whose answers were lost. */
const unanswered = new WeakSet<Error>();

export const noteUnanswered = (error: Error): unknown => unanswered.add(error);

/** Whether the statement of this error may have taken effect: it was sent, and its answer was lost. */
export const isUnanswered = (error: unknown): boolean => error instanceof Error && unanswered.has(error);

/** How often a read is repeated whose connection is lost. The read itself may be the reason, which must not happen often. */
const MAX_REPEATS = 2;

/** Counts the losses of a read. @returns whether it may run again after an error, on a connection that is opened then */
export function countLosses(): (error: unknown) => boolean {
  let left = MAX_REPEATS;
  return (error) =>
    (error instanceof ConnectionLost || isUnanswered(error) || isCut(error)) && (left -= 1) >= 0;
}

/** Creates a driver client with one connection, which is opened by the first statement. */
export type OpenClient = (onEnd: () => void) => postgres.Sql;

/**
 * Whether the server has answered. The driver loses a statement that it gets while its connection ends: the statement is never
 * answered, or it resolves without rows after the next connect.
 */
export const isAnswer = (rows: RawRow[]): boolean => typeof commandOf(rows) === 'string';

/** The command tag of an answer; undefined for none. */
export const commandOf = (rows: RawRow[]): unknown => (rows as { readonly command?: unknown }).command;

/** A connection for one stream or transaction, whose statements run one after the other. */
export interface DedicatedConnection {
  /**
   * Runs a statement. It rejects when the connection ends.
   * @param timeout milliseconds after which the statement is canceled and the connection ends
   * @throws Problem 503
   */
  readonly run: <T>(start: (sql: postgres.Sql) => PromiseLike<T>, timeout?: number) => Promise<T>;
  /** Cancels the running statement on the server and ends the connection; `run` then rejects with the reason. */
  readonly abort: (reason: Error) => void;
  /** Whether it has ended, so that `run` would reject. */
  readonly isLost: () => boolean;
  /** @param timeout seconds after which the connection is closed even if a statement is running */
  readonly end: (timeout: number) => Promise<void>;
}

export function openDedicated(open: OpenClient): DedicatedConnection {
  let lost: Error | undefined;
  let stopWaiting: (() => void) | undefined;
  let running: Query | undefined;
  const lose = (reason: Error): void => {
    lost ??= reason;
    stopWaiting?.();
  };
  const sql = open(() => lose(new ConnectionLost()));

  function abort(reason: Error): void {
    const canceled = running?.state ? cancelOnServer(running) : Promise.resolve();
    lose(reason);
    const end = (): void => {
      clearTimeout(timer);
      void sql.end({ timeout: 0 });
    };
    const timer = setTimeout(end, CANCEL_TIMEOUT).unref();
    canceled.then(end, end);
  }

  return {
    run: (start, timeout) =>
      new Promise((resolve, reject) => {
        stopWaiting = () => reject(lost ?? new ConnectionLost());
        // The driver would open a new connection, which lacks the transaction of the old one.
        if (lost) return stopWaiting();
        const late = (): void => abort(unavailable(messageOf('unavailable')));
        const timer = timeout === undefined ? undefined : setTimeout(late, timeout);
        const query = start(sql);
        running = query as unknown as Query;
        void Promise.resolve(query)
          .then((rows) => (takeUnreplicated(sql) ? reject(new ConnectionLost()) : resolve(rows)), reject)
          .finally(() => {
            // The next statement may have begun already.
            if (running === (query as unknown as Query)) running = undefined;
            clearTimeout(timer);
          });
      }),
    abort,
    isLost: () => lost !== undefined,
    end: (timeout) => sql.end({ timeout: lost ? 0 : timeout }),
  };
}

/**
 * Drops leading holes. The driver does not reset its row index when an error ends a statement after its first rows, so the rows
 * of the next statement start at a later index.
 */
export const withoutGaps = (rows: RawRow[]): RawRow[] =>
  rows.length > 0 && rows[0] === undefined ? rows.filter(Boolean) : rows;

/** PostgreSQL functions that report a stale prepared statement. Some of them report other errors as well. */
const STALE = new Set(['FetchPreparedStatement', 'RevalidateCachedQuery', 'transformAssignedExpr']);

/** Whether PostgreSQL may have refused a prepared statement because its tables have changed since. */
export const isStalePrepared = (error: Error): boolean =>
  STALE.has(String((error as { readonly routine?: unknown }).routine));
