import { createHash, randomBytes } from 'node:crypto';
import { text, type Database, type RawRow } from '../../db/connection/database.ts';
import {
  compile,
  identifier,
  raw,
  sql,
  table,
  value,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { findColumn, reference, type Model } from '../../db/schema/model.ts';
import type { Caller } from '../serve/served-resource.ts';

/** When a session ends by itself: after this time without a request, and after this time in any case. */
const IDLE = "interval '12 hours'";
const LIFE = "interval '14 days'";
/** A request notes that the session is in use, but not each one does. */
const STALE = "interval '5 minutes'";

/** Sessions of one user, and marks of those that have ended. Further ones end, or delete, the oldest. */
const MOST_SESSIONS = 50;
const MOST_MARKS = 200;
/** Milliseconds after which a login ends invalid sessions, if the service has not done so meanwhile. */
const PRUNE_PAUSE = 60_000;

/** How long the mark of an ended session is kept: for a form that is sent after a weekend, say. */
const MARK_LIFE = "interval '3 days'";
/** Begins the key of a mark; the keys of sessions are hexadecimal digits. */
const MARK_PREFIX = "'ended '";

/** One login of a user, as a list of them shows it. */
export interface SessionInfo {
  readonly created: string;
  readonly seen: string;
  readonly address: string;
  readonly agent: string;
  readonly isCurrent: boolean;
}

/** Logins of the admin area, kept in the database so that several processes share them. */
export interface Sessions {
  /**
   * Begins a session, and ends the least recently used ones of a user who has too many.
   * @param precondition that the user's row is still the one that was verified
   * @returns its token, which is kept nowhere else; undefined where the precondition does not hold
   */
  readonly open: (
    caller: Caller,
    precondition: Fragment,
    address: string,
    agent: string,
  ) => Promise<string | undefined>;
  /** The admin whose session it is; undefined when it has ended, which it does for good with the user's password, `active` or `admin`. */
  readonly find: (token: string) => Promise<Caller | undefined>;
  /** Ends the sessions that are too old, or whose user has another password, is no longer active or not an admin. */
  readonly prune: () => Promise<void>;
  /** The sessions of a user: this one first, then those that were used last. */
  readonly list: (caller: Caller, token: string) => Promise<SessionInfo[]>;
  /** Ends a session for good, even while another transaction has locked its row. */
  readonly end: (token: string) => Promise<void>;
  /** The key of the user whose session this was; undefined unless it has ended in the last days. */
  readonly endedUser: (token: string) => Promise<string | undefined>;
  /** Ends all sessions of the user but this one. @returns how many of them had not ended by themselves */
  readonly endOthers: (caller: Caller, token: string) => Promise<number>;
  /**
   * Looks whether a form was done already. The session stays locked until the transaction ends, so that of two that come at once
   * the second one sees what the first has done.
   * @param send runs a statement in the transaction
   * @param form the form's own mark
   * @returns what was noted of it
   */
  readonly whatWasDone: (send: Send, token: string, form: string) => Promise<string | undefined>;
  /** Notes that a form is done, in the transaction that does it. */
  readonly noteDone: (send: Send, token: string, form: string, what: string) => Promise<void>;
}

/** Runs a statement in a transaction. */
export type Send = (text: string, values: Statement['values']) => Promise<readonly RawRow[]>;

/** How many forms of a session are remembered: a second click comes soon. */
const MOST_DONE = 20;

type Done = readonly (readonly [form: string, what: string])[];

const digest = (token: string): string => createHash('sha256').update(token).digest('hex');

const NOW = raw("(now() at time zone 'UTC')");

/**
 * @param sessions the table of sessions
 * @param users the user model, whose `username`, `password`, `active` and `admin` are there
 */
export function createSessions(database: Database, sessions: Model, users: Model): Sessions {
  const column = (name: string): Fragment => {
    const found = findColumn(users, name);
    if (!found) throw new Error(`the user model has no column ${name}`);
    return reference('u', found);
  };
  const ours = table(sessions.table);
  const userKey = reference('u', users.primaryKey);
  const mark = sql`encode(sha256(convert_to(${column('password')}, 'UTF8')), 'hex')`;
  const isAlive = sql`s.created > ${NOW} - ${raw(LIFE)} and s.seen > ${NOW} - ${raw(IDLE)}`;
  const isMark = sql`s.token_hash like ${raw(MARK_PREFIX)} || '%'`;
  const isMarked = sql`exists (select from ${ours} e where e.token_hash = ${raw(MARK_PREFIX)} || s.token_hash)`;
  /** A mark whose session is gone. Any other one still ends a session whose row was locked. */
  const isSpare = sql`${isMark} and not exists (select from ${ours} e where e.token_hash = substr(s.token_hash, length(${raw(MARK_PREFIX)}) + 1))`;
  const isValid = sql`${isAlive} and ${column('active')} and ${column('admin')} and s.password_mark = ${mark} and not ${isMarked}`;
  const joined = sql`${ours} s join ${table(users.table)} u on ${userKey} = s.user_key::${raw(users.primaryKey.castType)}`;

  const run = async (statement: Fragment): Promise<(string | null)[][]> => {
    const rows = await database.run({ ...compile(statement), fixed: true }, 'quick');
    return rows.map((row) => row.map(text));
  };

  /** Reads what a session has done, and keeps others from it. */
  async function readDone(send: Send, token: string): Promise<Done> {
    const statement = compile(
      sql`select s.done from ${ours} s where s.token_hash = ${value(digest(token))} for update`,
    );
    const [row] = await send(statement.text, statement.values);
    return JSON.parse(text(row?.[0]) || '[]') as Done;
  }

  /** The rows that meet a condition and that no other transaction has locked. */
  const unlocked = (condition: Fragment): Fragment =>
    sql`${identifier('token_hash')} in (select s.token_hash from ${ours} s where ${condition} for update skip locked)`;

  /**
   * Ends the sessions that meet a condition. Each leaves a mark, a row of its own: a session whose row is locked is not
   * waited for and cannot be deleted, but its mark ends it all the same.
   * @returns a row for each session, with whether it was valid
   */
  function endAll(condition: Fragment): Promise<(string | null)[][]> {
    const ending = sql`select s.token_hash, s.user_key, coalesce(${isValid}, false) as valid from ${ours} s left join ${table(users.table)} u on ${userKey}::text = s.user_key where not ${isMark} and ${condition}`;
    // In one order, or two that end the same sessions could wait for each other.
    const marks = sql`insert into ${ours} (token_hash, user_key, password_mark, address, agent) select ${raw(MARK_PREFIX)} || token_hash, user_key, '', '', '' from ending order by token_hash on conflict (token_hash) do nothing`;
    const gone = sql`delete from ${ours} where ${unlocked(sql`s.token_hash in (select token_hash from ending)`)}`;
    return run(
      sql`with ending as (${ending}), marks as (${marks}), gone as (${gone}) select valid from ending`,
    );
  }

  async function end(token: string): Promise<void> {
    await endAll(sql`s.token_hash = ${value(digest(token))}`);
  }

  let prunedAt = 0;
  async function prune(): Promise<void> {
    prunedAt = Date.now();
    await endAll(sql`(${isValid}) is not true`);
    const isOld = sql`${isSpare} and s.seen < ${NOW} - ${raw(MARK_LIFE)}`;
    await run(sql`delete from ${ours} where ${unlocked(isOld)}`);
  }

  /** Ends the user's least recently used sessions beyond the limit, but not this one, and deletes their oldest marks. */
  async function trim(id: string, token: string): Promise<void> {
    const hash = value(digest(token));
    const beyond = (condition: Fragment, most: number): Fragment =>
      sql`s.token_hash in (select s.token_hash from ${ours} s where s.user_key = ${value(id)} and ${condition} order by s.seen desc, s.created desc, s.token_hash offset ${raw(String(most))})`;
    const isOther = sql`not ${isMark} and not ${isMarked} and s.token_hash <> ${hash}`;
    await endAll(beyond(isOther, MOST_SESSIONS - 1));
    await run(sql`delete from ${ours} where ${unlocked(beyond(isSpare, MOST_MARKS))}`);
  }

  return {
    async whatWasDone(send, token, form) {
      return (await readDone(send, token)).find(([mark]) => mark === form)?.[1];
    },

    async noteDone(send, token, form, what) {
      const done = [[form, what], ...(await readDone(send, token))].slice(0, MOST_DONE);
      const hash = value(digest(token));
      const statement = compile(
        sql`update ${ours} set done = ${value(JSON.stringify(done))} where token_hash = ${hash}`,
      );
      await send(statement.text, statement.values);
    },

    async open({ id }, precondition, address, agent) {
      const token = randomBytes(32).toString('base64url');
      // Later logins do what fails here and below: neither is worth refusing this one.
      if (prunedAt + PRUNE_PAUSE <= Date.now()) await prune().catch(() => undefined);
      const values = sql`${value(digest(token))}, ${userKey}::text, ${mark}, ${value(address)}, ${value(agent)}`;
      const [opened] = await run(
        sql`insert into ${ours} (token_hash, user_key, password_mark, address, agent) select ${values} from ${table(users.table)} u where ${userKey}::text = ${value(id)} and ${precondition} returning true`,
      );
      if (!opened) return undefined;
      await trim(id, token).catch(() => undefined);
      return token;
    },

    async find(token) {
      const hash = value(digest(token));
      const [row] = await run(
        sql`select ${userKey}::text, ${column('username')}, s.seen < ${NOW} - ${raw(STALE)} from ${joined} where s.token_hash = ${hash} and ${isValid}`,
      );
      if (!row) {
        await end(token); // or it would come back with what the user was before
        return undefined;
      }
      if (row[2] === 't')
        await run(sql`update ${ours} set seen = ${NOW} where ${unlocked(sql`s.token_hash = ${hash}`)}`);
      return { id: row[0] ?? '', name: row[1] ?? '', admin: true };
    },

    async list({ id }, token) {
      const isCurrent = sql`s.token_hash = ${value(digest(token))}`;
      const rows = await run(
        sql`select s.created::text, s.seen::text, s.address, s.agent, ${isCurrent} as is_current from ${joined} where s.user_key = ${value(id)} and ${isValid} order by is_current desc, s.seen desc, s.created desc limit ${raw(String(MOST_SESSIONS))}`,
      );
      return rows.map(([created, seen, address, agent, current]) => ({
        created: created ?? '',
        seen: seen ?? '',
        address: address ?? '',
        agent: agent ?? '',
        isCurrent: current === 't',
      }));
    },

    end,
    prune,

    async endedUser(token) {
      const key = sql`${raw(MARK_PREFIX)} || ${value(digest(token))}::text`;
      const [row] = await run(
        sql`select s.user_key from ${ours} s where s.token_hash = ${key} and s.seen > ${NOW} - ${raw(MARK_LIFE)}`,
      );
      return row?.[0] ?? undefined;
    },

    async endOthers({ id }, token) {
      const rows = await endAll(sql`s.user_key = ${value(id)} and s.token_hash <> ${value(digest(token))}`);
      return rows.filter(([wasValid]) => wasValid === 't').length;
    },
  };
}
