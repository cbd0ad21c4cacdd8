// The statements that ask the primary and its replicas where they are, and how to read the answers.
import { sql } from '../fragment.ts';
import { createStatement, isTrue, text, type RawRow, type Statement } from '../rows.ts';
import type { Reached } from '../connection/server-guard.ts';

/** The database and its server. A replica has the same. */
export interface Identity {
  /** The key of the database in its server. */
  readonly database: string;
  /** What `initdb` gave the server; undefined if the role may not read it. */
  readonly system: string | undefined;
}

/** What a server says that should be a replica. */
export interface ReplicaAnswer extends Identity {
  readonly isStandby: boolean;
  /** Undefined if the server does not replay a write-ahead log of PostgreSQL. */
  readonly position: bigint | undefined;
  /** Undefined if the role may not read it. */
  readonly timeline: number | undefined;
}

const DATABASE = sql`(select oid::text from pg_database where datname = current_database())`;
const SYSTEM = sql`(select system_identifier::text from pg_control_system())`;

const optional = (cell: RawRow[number] | undefined): string | undefined => text(cell) ?? undefined;
const fixed = <T>(statement: Statement<T>): Statement<T> => ({ ...statement, fixed: true, isPlain: true });

const readIdentity = ([row]: readonly RawRow[]): Identity => ({
  database: text(row?.[0]) ?? '',
  system: optional(row?.[1]),
});

export const IDENTITY = fixed(createStatement(sql`select ${DATABASE}, ${SYSTEM}`, readIdentity));
/** For a role that may not run `pg_control_system`. */
export const DATABASE_ONLY = fixed(createStatement(sql`select ${DATABASE}`, readIdentity));

/** The timeline of the primary, in hexadecimal. */
const TIMELINE = sql`left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)`;

const readReached = ([row]: readonly RawRow[]): Reached => ({
  position: BigInt(text(row?.[0]) ?? ''),
  timeline: parseInt(text(row?.[1]) ?? '', 16),
});

/** What the primary has made durable. Replicas can have it, while records behind it may wait for the next commit. */
export const DURABLE = fixed(
  createStatement(sql`select (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::text, ${TIMELINE}`, readReached),
);

/** Behind all commits, those with `synchronous_commit = off` as well. */
export const WRITTEN = fixed(
  createStatement(sql`select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::text, ${TIMELINE}`, readReached),
);

/**
 * The last restart point, the last flush and the connection to the primary each know a timeline of the replica, and the latest
 * one counts. Only members of `pg_read_all_stats` see that of the connection, which is always up to date.
 */
const REPLICA_TIMELINE = sql`(select greatest(c.timeline_id, r.min_recovery_end_timeline, (select received_tli from pg_stat_wal_receiver))
  from pg_control_checkpoint() c, pg_control_recovery() r)::text`;

const REPLAYED = sql`pg_is_in_recovery(), (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::text, ${DATABASE}`;

const readReplica = ([row]: readonly RawRow[]): ReplicaAnswer => {
  const [position, timeline] = [optional(row?.[1]), optional(row?.[4])];
  return {
    isStandby: isTrue(row?.[0]),
    position: position === undefined ? undefined : BigInt(position),
    database: text(row?.[2]) ?? '',
    system: optional(row?.[3]),
    timeline: timeline === undefined ? undefined : Number(timeline),
  };
};

const REPLICA = fixed(createStatement(sql`select ${REPLAYED}, ${SYSTEM}, ${REPLICA_TIMELINE}`, readReplica));
const REPLICA_ONLY = fixed(createStatement(sql`select ${REPLAYED}, null, null`, readReplica));

/** The question for a replica. It has the same grants as its primary. */
export const replicaQuestion = ({ system }: Identity): Statement<ReplicaAnswer> =>
  system === undefined ? REPLICA_ONLY : REPLICA;

/** Why a server is not a replica of the database; undefined if it is one. */
export function identityMismatch(answer: Identity, own: Identity): string | undefined {
  if (answer.system !== own.system)
    return `it belongs to another system (system identifier ${answer.system}, not ${own.system})`;
  return answer.database === own.database ? undefined : 'it is another database of the same server';
}
