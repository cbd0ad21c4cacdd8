// Reads large results in batches, through PostgreSQL cursors: the streams and exports.
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { Problem, unavailable } from '../../errors.ts';
import { openDedicated, type OpenClient } from './driver.ts';
import type { ClientPresence } from '../client-presence.ts';
import type { EndlessStatements } from '../endless-statements.ts';
import { type RawRow, type Statement } from '../rows.ts';
import { ClientGone, type Requester } from '../scheduling/requester.ts';
import type { DatabaseLimits } from '../scheduling/class-queues.ts';
import { shareOfProcess } from '../scheduling/work-class.ts';
import { Slots, type ClaimSlot } from '../scheduling/slots.ts';
import { RESET_IN_TRANSACTION } from '../session-state.ts';
import { assertReached, type ServerGuard } from './server-guard.ts';
import { watchRate } from './stream-rate.ts';
import { UsageCooldowns } from '../scheduling/client-usage.ts';

/** Approximate size of a batch (bytes). */
const BATCH_BYTES = 65_536;
/** Rows in the first batch, when their size is not known yet. */
const FIRST_ROWS = 10;
/** Milliseconds that a client waits for a slot: long enough to notice that a stream which began just before is slow. */
const MAX_WAIT = 4_000;
/** Maximum streams and exports of one client. */
const PER_CLIENT = { anonymous: 1, user: 1, admin: 2 };
const OWN_MESSAGE = 'You have reached your limit of concurrent streams. Finish reading one first.';
const FULL_MESSAGE = 'Too many streams and exports are running. Try again.';
/** Milliseconds that BEGIN may take. */
const BEGIN_TIMEOUT = 15_000;

/**
 * Maximum duration of a stream (milliseconds). Streams are few, and each keeps PostgreSQL from removing old row versions.
 */
export const LIFETIME = { anonymous: 10 * 60_000, user: 60 * 60_000, admin: 60 * 60_000 };
/** Milliseconds that PostgreSQL may take for one batch. */
const BATCH_TIMEOUT = { anonymous: 10_000, user: 60_000, admin: 5 * 60_000 };
/** Milliseconds after the batch timeout until PostgreSQL must have answered. Otherwise the connection is dead. */
const TIMEOUT_MARGIN = 5_000;

/** Limits the streams of each client only: for all processes together. */
export const createClientSlots = (): Slots =>
  new Slots({
    max: { anonymous: Infinity, user: Infinity, admin: Infinity },
    perClient: PER_CLIENT,
    maxWait: MAX_WAIT,
    ownMessage: OWN_MESSAGE,
    fullMessage: FULL_MESSAGE,
  });

/**
 * The slots of one of several processes. Each kind of client has some that the ones before it cannot take.
 * @param claim see `DatabaseLimits.claimStream`
 */
function createSlots(processes: number, claim: ClaimSlot | undefined): Slots {
  const anonymous = shareOfProcess(3, processes);
  const user = Math.max(anonymous + 1, shareOfProcess(5, processes));
  const admin = Math.max(user + 1, shareOfProcess(6, processes));
  return new Slots({
    max: { anonymous, user, admin },
    perClient: PER_CLIENT,
    claim,
    maxWait: MAX_WAIT,
    ownMessage: OWN_MESSAGE,
    fullMessage: FULL_MESSAGE,
    cooldownMessage:
      'Your recent streams used much database time. Wait for the time in Retry-After, then try again.',
  });
}

/**
 * Cooldown of an anonymous client after a stream, as a multiple of the time that PostgreSQL has searched for its records.
 * Without it, the client could keep a database processor busy permanently.
 */
const COOLDOWN = 4;
/** Search time of a client's recent streams, beyond its share of the time, that needs no cooldown (milliseconds). */
const FREE_SEARCH = 500;

/**
 * The cooldowns of anonymous clients after streams.
 * @param share see `CooldownOptions`
 */
export const createStreamCooldowns = (share?: (key: string, milliseconds: number) => void): UsageCooldowns =>
  new UsageCooldowns({ allowance: FREE_SEARCH, factor: COOLDOWN, share });

/** A batch that took less (milliseconds) does not count as a search. */
const MIN_SEARCH = 50;
/** What a stream counts at least (milliseconds), unless no connection is opened: PostgreSQL starts a process for that. */
const MIN_CHARGE = 25;
/** Maximum pause of a stream after a batch (milliseconds), and the least that is worth a timer: shorter ones add up. */
const MAX_PAUSE = 100;
const MIN_PAUSE = 5;
/** While other clients wait for a stream, a search of an anonymous client that takes longer (milliseconds) ends its stream. */
const LONG_SEARCH = 2_000;

const setTimeLimit = (milliseconds: number): string => `set local statement_timeout = ${milliseconds}`;

export interface CursorOptions {
  readonly open: OpenClient;
  readonly limits: DatabaseLimits;
  readonly presence: ClientPresence;
  /** Says when PostgreSQL has ended an abandoned search, which keeps its slot until then. */
  readonly endless: EndlessStatements;
  /** For a replica. */
  readonly guard?: ServerGuard | undefined;
}

/**
 * Pauses a stream once that is worth a timer.
 * @param owed milliseconds
 * @returns the milliseconds that it still owes
 */
async function pause(owed: number): Promise<number> {
  if (owed < MIN_PAUSE) return owed;
  const begun = performance.now();
  await sleep(owed);
  return Math.max(0, owed - (performance.now() - begun));
}

/** @returns a function that reads the rows of a statement in batches, in a transaction on a dedicated connection */
export function createCursors({ open, limits, presence, endless, guard }: CursorOptions) {
  const { cooldowns, claimStream, server = '' } = limits;
  const coolDown = ({ clientKind, key }: Requester): void =>
    slots.coolDown(key, clientKind === 'anonymous' ? cooldowns.of(key) : 0);
  const claim: ClaimSlot | undefined =
    claimStream &&
    (async (requester) => {
      const leave = await claimStream(requester, server);
      coolDown(requester); // one may have begun in another process, which has probably told by now
      return leave;
    });
  const slots = createSlots(limits.processes, claim);

  return async function* cursor<T>(
    { text, values, decode }: Statement<T>,
    maxRows: number,
    requester: Requester,
  ): AsyncGenerator<T, void> {
    const { clientKind } = requester;
    const rate = watchRate();
    const endForOthers = (): void =>
      abort(unavailable('The stream was ended: it was too slow, and other clients wait for one.', 10));
    const isAnonymous = clientKind === 'anonymous';
    /** When PostgreSQL began to search for the next batch. */
    let searchingSince: number | undefined;
    /** Total search time (milliseconds). */
    let searched = 0;
    /** Milliseconds that the stream has still to pause. */
    let owed = 0;
    let isUnconnected = false;
    /** Whether clients are present that use other connections: streams leave them half of the time. */
    const isShared = (): boolean => presence.hasOther(requester.key, performance.now());
    /** @returns the milliseconds of the search; 0 if there is none */
    const endSearch = (): number => {
      const took = searchingSince === undefined ? 0 : performance.now() - searchingSince;
      searchingSince = undefined;
      if (took >= MIN_SEARCH) searched += took;
      return took;
    };
    const isIdle = (): boolean =>
      rate.isSlow() || (isAnonymous && performance.now() - (searchingSince ?? Infinity) > LONG_SEARCH);
    coolDown(requester);
    const leave = await slots.enter(requester, { isIdle, end: endForOthers });
    rate.begin();
    const connection = openDedicated(open);
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      // The cooldown begins before the slot is given back, because the client's next request may wait for the slot.
      if (isAnonymous) charge();
      const process = connection.process();
      leave(process === undefined ? undefined : endless.ended(process));
      clearTimeout(timer);
      stopListening();
    };
    const charge = (): void => {
      if (isUnconnected) return;
      endSearch();
      cooldowns.charge(requester.key, Math.max(searched, MIN_CHARGE));
      coolDown(requester);
    };
    const abort = (reason: Error): void => {
      end();
      connection.abort(reason);
    };
    const timer = setTimeout(
      () => abort(unavailable('The stream took too long and was ended.', 10)),
      LIFETIME[clientKind],
    );
    const stopListening = requester.onGone(() => abort(new ClientGone()));
    try {
      // As for a page: a costly filter makes this batch slow.
      const firstTimeout = isAnonymous ? limits.slowTimeout : BATCH_TIMEOUT[clientKind];
      const timeouts = `${setTimeLimit(firstTimeout)}; set local idle_in_transaction_session_timeout = '90s'; set local jit = off`;
      const run = <T>(start: (sql: postgres.Sql) => PromiseLike<T>): Promise<T> =>
        connection.run(start, BATCH_TIMEOUT[clientKind] + TIMEOUT_MARGIN);
      await connection
        .run((sql) => sql.unsafe(`begin read only; ${timeouts}`), BEGIN_TIMEOUT)
        .catch((error: unknown) => {
          // A client that leaves meanwhile was counted by then: its connection may be open.
          isUnconnected = true;
          throw error;
        });
      if (guard) await run((sql) => assertReached(sql, guard));
      await run((sql) => sql.unsafe(`declare c no scroll cursor for ${text}`, values as string[]));
      let isFirst = true;
      for (let count = Math.min(FIRST_ROWS, maxRows); ;) {
        searchingSince = performance.now();
        // The rows of a batch may have changed the settings.
        const batch = `fetch ${count} from c; ${RESET_IN_TRANSACTION}`;
        const rows: RawRow[] = await run((sql) => sql.unsafe(batch).raw()).catch((error: unknown) => {
          // The connection was lost: this was no search.
          if (error instanceof Problem) searchingSince = undefined;
          throw error;
        });
        const took = endSearch();
        if (rows.length === 0) return;
        const bytes = rows.flat().reduce((sum, cell) => sum + (cell?.length ?? 0), 1);
        const fitting = Math.floor((rows.length * BATCH_BYTES) / bytes);
        // The next records may be much larger than these.
        count = Math.min(maxRows, 2 * rows.length, Math.max(1, fitting));
        rate.beginWait(bytes);
        yield decode(rows);
        rate.endWait();
        if (isShared()) owed = await pause(owed + Math.min(took, MAX_PAUSE));
        if (isAnonymous && isFirst) await run((sql) => sql.unsafe(setTimeLimit(BATCH_TIMEOUT[clientKind])));
        isFirst = false;
      }
    } finally {
      end();
      await connection.end(0);
    }
  };
}
