import { Problem, unavailable } from '../../errors.ts';
import type { Column, Model } from '../schema/model.ts';

/** What postgres.js rejects with: an error of the server has a five-character SQLSTATE as `code`, one of its own a name. */
export interface DatabaseError extends Error {
  readonly code: string;
  readonly constraint_name?: string;
  readonly schema_name?: string;
  readonly table_name?: string;
  /** The function of the server that has raised it, which no language of messages changes. */
  readonly routine?: string;
}

export const isDatabaseError = (error: unknown): error is DatabaseError =>
  error instanceof Error && typeof (error as Partial<DatabaseError>).code === 'string';

/** Whether it is the model's table that an error names. */
export const isOfTable = ({ table, schema }: Model, error: DatabaseError): boolean =>
  table.split('.').at(-1) === error.table_name && (schema === undefined || schema === error.schema_name);

/** The columns of the unique index that a duplicate has met; none where that is of another table, as a trigger may change one. */
export const duplicated = (model: Model, error: DatabaseError): readonly Column[] =>
  isOfTable(model, error) ? (model.uniques.get(error.constraint_name ?? '') ?? []) : [];

const BUSY = 'The database is busy. Try again.';
export const AWAY = 'The database is out of reach. Try again.';

const VALUES_REFUSED = 'A rule of the database does not allow these values.';
/** What runs RAISE in a function of the database, a trigger's for instance, which may give any SQLSTATE. */
const RAISED = 'exec_stmt_raise';
/** What a raised error cannot mean, as it would end or refuse the connection: a rule of the database speaks. */
const NOT_OF_RULES = /^(08|25|28|3D|42|57)/;
/** A right that is missing is a fault of the set-up, but a row that a policy refuses has the same SQLSTATE. */
const POLICY = 'ExecWithCheckOptions';

/** Whether the connection has ended or was refused, which every error tells that is no answer of the server to the statement. */
export function isCut(error: Error): boolean {
  const { severity } = error as { readonly severity?: unknown };
  return severity === undefined || severity === 'FATAL' || severity === 'PANIC';
}

/**
 * Whether a connection takes no changes. It has been so from its beginning, and may stay so when the database takes changes again,
 * or when the address leads to a server that does.
 */
export const isReadOnly = (error: Error): boolean => (error as Partial<DatabaseError>).code === '25006';

/**
 * Whether a statement was ended because it and another waited for each other, or had seen what the other has changed. A statement
 * that is a transaction of its own was undone whole, and may be sent again.
 */
export const isCollision = (error: Error): boolean =>
  ['40P01', '40001'].includes((error as Partial<DatabaseError>).code ?? '');

/**
 * SQLSTATE (or its two-character class, or a name of the driver's or of Node's) -> the answer. What stands here is what
 * can happen to a valid request: operations turn the errors that they can explain (duplicates, references) into better ones.
 */
const ANSWERS: Readonly<Record<string, readonly [status: number, detail: string]>> = {
  '08': [503, AWAY],
  '0A000': [400, 'The database cannot do this with such a column.'],
  '22': [400, 'A value cannot be used by the database.'],
  '23000': [400, VALUES_REFUSED],
  '23001': [409, 'Other records refer to this one.'],
  '23502': [400, 'The database requires a value that is not there.'],
  '23503': [409, 'Other records refer to this one, or one that it refers to is gone.'],
  '23505': [409, 'There is such a record already.'],
  '23514': [400, VALUES_REFUSED],
  '23P01': [409, 'A rule of the database does not allow these values beside those of another record.'],
  '25006': [503, AWAY],
  '28': [503, AWAY],
  '3D': [503, AWAY],
  '40': [503, BUSY],
  '44000': [400, VALUES_REFUSED],
  '53': [503, BUSY],
  '54': [400, 'A value is too large for the database.'],
  '54011': [400, 'These are too many columns at once for this table.'],
  '55P03': [503, BUSY],
  '57': [503, AWAY],
  '57014': [503, 'The database took too long. Ask for less, or try again.'],
  P0: [400, 'A rule of the database does not allow this.'],
  CONNECTION_CLOSED: [503, AWAY],
  CONNECTION_ENDED: [503, AWAY],
  CONNECTION_DESTROYED: [503, AWAY],
  CONNECT_TIMEOUT: [503, AWAY],
  ECONNREFUSED: [503, AWAY],
  ECONNRESET: [503, AWAY],
  EPIPE: [503, AWAY],
  ETIMEDOUT: [503, AWAY],
  EHOSTUNREACH: [503, AWAY],
  ENETUNREACH: [503, AWAY],
  ENOTFOUND: [503, AWAY],
  EAI_AGAIN: [503, AWAY],
  ENOENT: [503, AWAY],
};

/** Stands for the error of a write whose answer was lost: whether the change was made, only the database knows. */
export class LostWrite extends Error {
  constructor(cause: Error) {
    super(`the answer to a write was lost: ${cause.message}`, { cause });
  }
}

const LOST =
  'The database did not answer: it is not known whether the change was made. Look before you try again.';

/** The problem that a database error means to a client, or undefined for one that is a fault of ours. */
export function toProblem(error: unknown): Problem | undefined {
  if (error instanceof LostWrite) return unavailable(LOST);
  if (!isDatabaseError(error)) return undefined;
  if (error.code === '42501' && error.routine === POLICY) return new Problem(400, VALUES_REFUSED);
  const isRaised = error.routine === RAISED;
  const known =
    ANSWERS[error.code] ?? (error.code.length === 5 ? ANSWERS[error.code.slice(0, 2)] : undefined);
  const answer = isRaised && (!known || NOT_OF_RULES.test(error.code)) ? ANSWERS['P0'] : known;
  // For instance a database that takes no connections (55000), or a role that has no right to it any more (42501).
  if (!answer) return error.code.length === 5 && isCut(error) ? unavailable(AWAY) : undefined;
  const [status, detail] = answer;
  return status === 503 ? unavailable(detail) : new Problem(status, detail);
}

/** No rows, where the database cannot hold what was looked for: a sign that its encoding does not have. */
export function noSuchText(error: unknown): [] {
  if (isDatabaseError(error) && error.code === '22P05') return [];
  throw error;
}

/** Whatever was thrown as a problem, or undefined for a fault of ours. */
export const asProblem = (error: unknown): Problem | undefined =>
  error instanceof Problem ? error : toProblem(error);

/** What waiting does not mend: a refused login, a database that does not exist or takes none. */
const REFUSALS = /^(28|3D|42|55000|57014)/;
/** The same in PgBouncer's words, whose errors all have one SQLSTATE: those that pass as well. */
const POOLER_REFUSALS = /^unsupported startup parameter|^no such (database|user)|auth\w* failed/i;

const isRefusal = ({ code, message }: DatabaseError): boolean =>
  code === '08P01' ? POOLER_REFUSALS.test(message) : REFUSALS.test(code);

/** What Node says where a server closes the connection as soon as TLS begins. PostgreSQL does so where it offers none. */
const NO_TLS = /before secure TLS connection was established/;

const refusesTls = ({ message }: DatabaseError): boolean => NO_TLS.test(message);

/** What Node says of a certificate of an authority that it does not know. */
const UNKNOWN_AUTHORITY = /^(UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED|DEPTH_ZERO)/;

/** Why the database cannot be used, for whoever starts the program: the words of the server, or better ones; no password. */
export function reasonOf(error: DatabaseError): string {
  const { message, code } = error;
  if (refusesTls(error)) return 'the server offers no TLS. Look at sslmode in DATABASE_URL';
  if (UNKNOWN_AUTHORITY.test(code))
    return `${message}. NODE_EXTRA_CA_CERTS, in the environment and not by --env-file, names a file of further authorities`;
  return message || code;
}

/** The database is not there (yet), as against one that refuses us: worth waiting for. */
export function isAway(error: unknown): boolean {
  if (!isDatabaseError(error) || refusesTls(error)) return false;
  return toProblem(error)?.status === 503 && !isRefusal(error);
}
