// Recognizes the errors of PostgreSQL, the driver and the network, and turns them into answers to clients.
import { Problem, StartError, unavailable } from '../../errors.ts';
import type { Column, Model } from '../schema/model.ts';

/** An error of postgres.js or Node. Its `code` is the SQLSTATE (five characters) of a server error, or a name. */
export interface DatabaseError extends Error {
  readonly code: string;
  readonly constraint_name?: string;
  readonly column_name?: string;
  readonly schema_name?: string;
  readonly table_name?: string;
  /** The domain whose constraint was violated. postgres.js names the field so. */
  readonly 'data type_name'?: string;
  /** Where it was raised, if not by the statement itself: the functions and statements of a trigger. */
  readonly where?: string;
  /** The PostgreSQL function that raised the error. Unlike the message, it is never translated. */
  readonly routine?: string;
}

export const isDatabaseError = (error: unknown): error is DatabaseError =>
  error instanceof Error && typeof (error as Partial<DatabaseError>).code === 'string';

/** Whether an error names the model's table. */
export const isOfTable = ({ table, schema }: Model, error: DatabaseError): boolean =>
  table.split('.').at(-1) === error.table_name && (schema === undefined || schema === error.schema_name);

/** The columns of the violated unique index. None if it belongs to another table, which a trigger may change. */
export const duplicateColumns = (model: Model, error: DatabaseError): readonly Column[] =>
  isOfTable(model, error) ? (model.uniques.get(error.constraint_name ?? '') ?? []) : [];

const BUSY = 'The database is busy. Try again.';
export const UNAVAILABLE = 'The database is unavailable. Try again.';

/** What a trigger or a rule refused, when it does not say more. */
export const NOT_ALLOWED = 'A rule of the database does not allow this.';
const VALUES_REFUSED = 'A rule of the database does not allow these values.';
/** The `routine` of an error from RAISE in a trigger or function, which may have any SQLSTATE. */
const RAISED = 'exec_stmt_raise';
/** SQLSTATEs of failures of the service. In an error from RAISE they do not mean this: it is a rule of the database. */
const NOT_RAISED = /^(08|0A|25|28|3D|42|55000|57|58|HV)/;
/** SQLSTATEs of a statement with more rows than it may have. In a trigger, they depend on what the client writes. */
const CARDINALITY = /^21/;
/** The `routine` of the error for a row that a policy refuses. Without it, its SQLSTATE means a missing privilege. */
const POLICY = 'ExecWithCheckOptions';

/** SQLSTATEs of duplicates and references. */
const REFERENCES = /^23(001|50[35])$/;

/** Whether the connection has ended or was refused: any error other than the server's answer to the statement. */
export function isConnectionError(error: Error): boolean {
  const { severity } = error as { readonly severity?: unknown };
  return severity === undefined || severity === 'FATAL' || severity === 'PANIC';
}

/** A code of PostgreSQL, also from a pooler that gives no severity. Those of Node have no digits. */
const SQLSTATE = /^(?=.*\d)[\dA-Z]{5}$/;

/**
 * Whether the network or TLS ended or refused a connection, with any of Node's codes. The driver adds the statement to the errors
 * that it passes on. A TypeError or a RangeError is a fault of the program, and may have a code as well.
 */
const isNetworkError = (error: DatabaseError): boolean =>
  'query' in error &&
  !SQLSTATE.test(error.code) &&
  !(error instanceof TypeError) &&
  !(error instanceof RangeError);

/** The `routine` of the errors with which PostgreSQL refuses a change because the transaction is read-only, or it is a standby. */
const READ_ONLY_ROUTINES = /^PreventCommand(IfReadOnly|DuringRecovery)$/;

/**
 * Whether the connection is read-only. It may stay so when the database takes changes again, or the address leads to another
 * server: only a new connection helps. A function, or the server of a foreign table, may fail with the same SQLSTATE.
 * @param isDirect whether no pooler is in between. Then `where` is set only by functions, because the service turns
 * `log_parameter_max_length_on_error` off
 */
export function isReadOnlyError(error: Error, isDirect = false): boolean {
  const { code, routine = '', where } = error as Partial<DatabaseError>;
  return code === '25006' && READ_ONLY_ROUTINES.test(routine) && (!isDirect || where === undefined);
}

/** Whether it is a deadlock or a serialization failure. A single statement was rolled back whole and may be sent again. */
export const isRetryable = (error: Error): boolean =>
  ['40P01', '40001'].includes((error as Partial<DatabaseError>).code ?? '');

/** SQLSTATE of a statement that was canceled, such as at its time limit. */
export const QUERY_CANCELED = '57014';

/**
 * The answer for each SQLSTATE, its two-character class, or a name from the driver or Node. It lists what can happen to a valid
 * request. Operations explain some of these errors better (duplicates, references).
 */
const ANSWERS: Readonly<Record<string, readonly [status: number, detail: string]>> = {
  '08': [503, UNAVAILABLE],
  '0A000': [400, 'The database does not support this for a column of this type.'],
  '22': [400, 'The database does not accept one of the values.'],
  '23000': [400, VALUES_REFUSED],
  '23001': [409, 'Other records refer to this one.'],
  '23502': [400, 'A value that the database requires is missing.'],
  '23503': [409, 'Other records refer to this one, or a record that it refers to does not exist.'],
  '23505': [409, 'A record with the same value already exists.'],
  '23514': [400, VALUES_REFUSED],
  '23P01': [409, 'The values conflict with those of another record.'],
  '25006': [503, UNAVAILABLE],
  // A trigger that runs before the write has changed or deleted the same row.
  '27000': [409, NOT_ALLOWED],
  '28': [503, UNAVAILABLE],
  '3D': [503, UNAVAILABLE],
  '40': [503, BUSY],
  '44000': [400, VALUES_REFUSED],
  '53': [503, BUSY],
  '54': [400, 'A value is too large for the database.'],
  // Values that are nested too deeply, or triggers that cause each other without end.
  '54001': [
    400,
    'The database cannot process this: values are nested, or its rules call each other, too deeply.',
  ],
  '54011': [400, 'Too many columns of this table are used at once.'],
  // A materialized view that was created or refreshed WITH NO DATA.
  '55000': [503, 'The data is not ready. Try again.'],
  '55P03': [503, BUSY],
  '57': [503, UNAVAILABLE],
  [QUERY_CANCELED]: [503, 'The database took too long. Request less data, or try again.'],
  // The server or the file of a foreign table.
  '58': [503, UNAVAILABLE],
  HV: [503, UNAVAILABLE],
  P0: [400, NOT_ALLOWED],
  CONNECTION_CLOSED: [503, UNAVAILABLE],
  CONNECTION_ENDED: [503, UNAVAILABLE],
  CONNECTION_DESTROYED: [503, UNAVAILABLE],
  CONNECT_TIMEOUT: [503, UNAVAILABLE],
  NO_PRIMARY: [503, UNAVAILABLE],
  ECONNREFUSED: [503, UNAVAILABLE],
  ECONNRESET: [503, UNAVAILABLE],
  EPIPE: [503, UNAVAILABLE],
  ETIMEDOUT: [503, UNAVAILABLE],
  EHOSTUNREACH: [503, UNAVAILABLE],
  ENETUNREACH: [503, UNAVAILABLE],
  ENOTFOUND: [503, UNAVAILABLE],
  EAI_AGAIN: [503, UNAVAILABLE],
  ENOENT: [503, UNAVAILABLE],
};

/** The answer to a write was lost, so it is not known whether the change was made. */
export class LostWrite extends Error {
  constructor(cause: Error) {
    super(`the answer to a write was lost: ${cause.message}`, { cause });
  }
}

const LOST =
  'The database did not answer. It is not known whether the change was made: check before you try again.';

/** Whether a function of a trigger raised the error, such as for a reference in another table. */
export const isInFunction = ({ where }: DatabaseError): boolean => where !== undefined;

/** Whether a trigger or a function raised the error with RAISE, so that it chose the names in it. */
export const isRaised = ({ routine }: DatabaseError): boolean => routine === RAISED;

/** The answer to a client for a database error, or undefined for an internal error. */
export function toProblem(error: unknown): Problem | undefined {
  if (error instanceof LostWrite) return unavailable(LOST);
  if (!isDatabaseError(error)) return undefined;
  if (error.code === '42501' && error.routine === POLICY) return new Problem(400, VALUES_REFUSED);
  if (REFERENCES.test(error.code) && isInFunction(error)) return new Problem(409, NOT_ALLOWED);
  const known =
    ANSWERS[error.code] ?? (error.code.length === 5 ? ANSWERS[error.code.slice(0, 2)] : undefined);
  const isRule = isRaised(error)
    ? !known || NOT_RAISED.test(error.code)
    : isInFunction(error) && CARDINALITY.test(error.code);
  const answer = isRule ? ANSWERS['P0'] : known;
  if (!answer) {
    // For instance a database that accepts no connections (55000), or a role that lost its privilege to connect (42501).
    const isRefused = error.code.length === 5 && isConnectionError(error);
    return isRefused || isNetworkError(error) ? unavailable(UNAVAILABLE) : undefined;
  }
  const [status, detail] = answer;
  return status === 503 ? unavailable(detail) : new Problem(status, detail);
}

/** SQLSTATEs of invalid values, too many rows, violated constraints and what PostgreSQL does not support. Raised inside a function, they are a rule of the database as well. */
const IN_FUNCTION = /^(2[123]|0A)/;

/** SQLSTATEs of rules: check and exclusion constraints, NOT NULL, views with a check option, and triggers. */
const RULES = /^(23000|23502|23514|23P01|27000|44000|P0...)$/;

/** Whether a rule of the database refused a write, other than a duplicate or a reference. */
export const isRuleError = (error: DatabaseError): boolean =>
  RULES.test(error.code) || isRaised(error) || (isInFunction(error) && IN_FUNCTION.test(error.code));

/** Nothing is found for a character that the database's encoding lacks. @throws any other error */
export function undefinedIfUnencodable(error: unknown): undefined {
  if (isDatabaseError(error) && error.code === '22P05') return undefined;
  throw error;
}

/** The answer to a client for any error, or undefined for an internal error. */
export const asProblem = (error: unknown): Problem | undefined =>
  error instanceof Problem ? error : toProblem(error);

/** SQLSTATEs that waiting does not resolve, such as a refused login or a database that does not exist. */
const REFUSALS = /^(28|3D|42|55000|57014)/;
/** The same for PgBouncer, by message: all its errors have one SQLSTATE, temporary ones too. */
const POOLER_REFUSALS = /^unsupported startup parameter|^no such (database|user)|auth\w* failed/i;

/** Whether a server refuses the service for good. */
export const isRefusal = ({ code, message }: Pick<DatabaseError, 'code' | 'message'>): boolean =>
  code === '08P01' ? POOLER_REFUSALS.test(message) : REFUSALS.test(code);

/** Node's message when the server closes the connection as TLS starts: PostgreSQL without TLS does so. */
const NO_TLS = /before secure TLS connection was established/;

const lacksTls = ({ message }: DatabaseError): boolean => NO_TLS.test(message);

/** Node's codes for a certificate of an unknown authority. */
const UNKNOWN_AUTHORITY = /^(UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED|DEPTH_ZERO)/;

/** Node's codes for a network or a system that may work later, beyond those in ANSWERS. */
const PASSING = /^E(ADDRNOTAVAIL|AI_FAIL|CONNABORTED|HOSTDOWN|MFILE|NETDOWN|NFILE|NOBUFS)$/;

/** Whether waiting does not resolve an error of the network or of TLS, such as an expired certificate. */
const isLasting = (error: DatabaseError): boolean =>
  isNetworkError(error) && !(error.code in ANSWERS) && !PASSING.test(error.code);

/** Why the database cannot be used, for the operator. It contains no password. */
export function reasonOf(error: DatabaseError): string {
  const { message, code } = error;
  if (lacksTls(error)) return 'the server does not support TLS. Check sslmode in DATABASE_URL';
  if (UNKNOWN_AUTHORITY.test(code))
    return `${message}. Set NODE_EXTRA_CA_CERTS in the environment, not with --env-file, to a file with the missing authority`;
  return message || code;
}

/** Errors that DATABASE_URL can cause: unreachable host, refused login, unknown database. */
const ADDRESS_FAULTS = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|CONNECT_TIMEOUT|28|3D)/;

/** Names the setting if it can be the cause of the error. */
export const addressHint = (error: unknown): string =>
  isDatabaseError(error) && ADDRESS_FAULTS.test(error.code) ? '. Check DATABASE_URL' : '';

/** Turns a database error into a StartError with the reason. Returns other errors unchanged. */
export const databaseFault = (error: unknown): unknown =>
  isDatabaseError(error)
    ? new StartError(`The database cannot be used: ${reasonOf(error)}${addressHint(error)}`)
    : error;

/**
 * Whether the database is unavailable for now and worth waiting for, and does not refuse the service. Also for the problem that
 * stands for a lost connection.
 */
export function isTemporarilyUnavailable(error: unknown): boolean {
  if (isDatabaseError(error) && [lacksTls, isRefusal, isReadOnlyError, isLasting].some((one) => one(error)))
    return false;
  return asProblem(error)?.status === 503;
}

/** Why a long write was canceled while other clients waited for its connection. */
export const longWrite = (): Problem =>
  unavailable(
    'The change took too long, perhaps because a record was locked, and other clients were waiting. Try again.',
  );

/** Why an anonymous read was canceled at its time limit. */
export const tooLong = (): Problem =>
  unavailable('The query takes too long. Request less data, or try again.', 5);
