// Recognizes the errors of PostgreSQL, the driver and the network, and turns them into answers to clients.
import { Problem, StartError, unavailable as unavailableFor } from '../../errors.ts';
import type { MessageCode } from '../../messages.ts';
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
  /** What was sent with the statement, as the driver adds it. */
  readonly parameters?: readonly unknown[];
}

export const isDatabaseError = (error: unknown): error is DatabaseError =>
  error instanceof Error && typeof (error as Partial<DatabaseError>).code === 'string';

/** Whether an error names the model's table. */
export const isOfTable = ({ table, schema }: Model, error: DatabaseError): boolean =>
  table.split('.').at(-1) === error.table_name && (schema === undefined || schema === error.schema_name);

/** The columns of the violated unique index. None if it belongs to another table, which a trigger may change. */
export const duplicateColumns = (model: Model, error: DatabaseError): readonly Column[] =>
  isOfTable(model, error) ? (model.uniques.get(error.constraint_name ?? '') ?? []) : [];

/** The `routine` of an error from RAISE in a trigger or function, which may have any SQLSTATE. */
const RAISED = 'exec_stmt_raise';
/** SQLSTATEs of failures of the service. In an error from RAISE they do not mean this: it is a rule of the database. */
const NOT_RAISED = /^(08|0A|25|28|3D|42|55000|57|58|HV)/;
/** SQLSTATEs of a statement with more rows than it may have. In a trigger, they depend on what the client writes. */
const CARDINALITY = /^21/;
/** The `routine` of the error for a row that a policy refuses. Without it, its SQLSTATE means a missing privilege. */
const POLICY = 'ExecWithCheckOptions';

/** SQLSTATEs of errors that depend on the values that a write sends. */
const OF_VALUES = /^(2[12]|54)/;
/** SQLSTATE of a sequence that has reached its end. */
export const SEQUENCE_EXHAUSTED = '2200H';
/** SQLSTATE of triggers or functions that call each other without end, or of values that are nested too deeply. */
const TOO_DEEP = '54001';

/** SQLSTATEs of duplicates and references. */
const REFERENCES = /^23(001|50[35])$/;

/** Whether the connection has ended or was refused: any error other than the server's answer to the statement. */
export function isConnectionError(error: Error): boolean {
  const { severity } = error as { readonly severity?: unknown };
  return severity === undefined || severity === 'FATAL' || severity === 'PANIC';
}

/** Whether PostgreSQL or the network has ended a connection, perhaps before it was open. */
export const isCut = (error: unknown): boolean =>
  isDatabaseError(error) &&
  isConnectionError(error) &&
  ('severity' in error || /^(CONNECTION_CLOSED|ECONNRESET|EPIPE)$/.test(error.code));

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

/** Whether a statement with NOWAIT has found a row locked. A timeout while it waits has the same SQLSTATE. */
export const isLocked = (error: unknown): boolean =>
  isDatabaseError(error) &&
  error.code === '55P03' &&
  error.routine !== 'ProcessInterrupts' &&
  !isInFunction(error);

/** SQLSTATE of a statement that was canceled, such as at its time limit. */
export const QUERY_CANCELED = '57014';

/** The answers to what passes, for each SQLSTATE, its two-character class, or a name from the driver or Node. */
const PASSING: Readonly<Record<string, MessageCode>> = {
  '08': 'unavailable',
  '25006': 'unavailable',
  '28': 'unavailable',
  '3D': 'unavailable',
  '40': 'busy',
  '53': 'busy',
  '55P03': 'busy',
  '57': 'unavailable',
  [QUERY_CANCELED]: 'canceled',
  // The server or the file of a foreign table.
  '58': 'unavailable',
  HV000: 'unavailable',
  HV001: 'unavailable',
  HV00L: 'unavailable',
  HV00M: 'unavailable',
  HV00N: 'unavailable',
  CONNECTION_CLOSED: 'unavailable',
  CONNECTION_ENDED: 'unavailable',
  CONNECTION_DESTROYED: 'unavailable',
  CONNECT_TIMEOUT: 'unavailable',
  NO_PRIMARY: 'unavailable',
  ECONNREFUSED: 'unavailable',
  ECONNRESET: 'unavailable',
  EPIPE: 'unavailable',
  ETIMEDOUT: 'unavailable',
  EHOSTUNREACH: 'unavailable',
  ENETUNREACH: 'unavailable',
  ENOTFOUND: 'unavailable',
  EAI_AGAIN: 'unavailable',
  ENOENT: 'unavailable',
};

/**
 * The answers to a write that the database refuses, for each SQLSTATE or its class. Operations explain some of these errors better
 * (duplicates, references). In a read, the same errors are faults of a view or a function.
 */
const WRITE_ANSWERS: Readonly<Record<string, readonly [status: number, code: MessageCode]>> = {
  '0A000': [400, 'notSupported'],
  '22': [400, 'badValue'],
  '23000': [400, 'valuesNotAllowed'],
  '23001': [409, 'referenced'],
  '23502': [400, 'valueMissing'],
  '23503': [409, 'badReference'],
  '23505': [409, 'duplicate'],
  '23514': [400, 'valuesNotAllowed'],
  '23P01': [409, 'conflict'],
  // A trigger that runs before the write has changed or deleted the same row.
  '27000': [409, 'notAllowed'],
  '44000': [400, 'valuesNotAllowed'],
  '54': [400, 'tooLarge'],
  '54001': [400, 'tooDeep'],
  P0: [400, 'notAllowed'],
};

/** The entry of a table for the code of an error, or for its class. */
const entryOf = <T>(entries: Readonly<Record<string, T>>, { code }: DatabaseError): T | undefined =>
  entries[code] ?? (code.length === 5 ? entries[code.slice(0, 2)] : undefined);

/** The answer to a write was lost, so it is not known whether the change was made. */
export class LostWrite extends Error {
  constructor(cause: Error) {
    super(`the answer to a write was lost: ${cause.message}`, { cause });
  }
}

const problem = (status: number, code: MessageCode): Problem => new Problem(status, { code });

/** A 503; `retryAfter` is in seconds. */
const unavailable = (code: MessageCode, retryAfter?: number): Problem => unavailableFor({ code }, retryAfter);

/** Whether a function of a trigger raised the error, such as for a reference in another table. */
export const isInFunction = ({ where }: DatabaseError): boolean => where !== undefined;

/** Whether a trigger or a function raised the error with RAISE, so that it chose the names in it. */
export const isRaised = ({ routine }: DatabaseError): boolean => routine === RAISED;

/** Whether a value that was sent has a character that the encoding of the database lacks. A view may fail in the same way. */
const isUnencodable = ({ code, routine, parameters = [] }: DatabaseError): boolean =>
  code === '22P05' &&
  routine === 'report_untranslatable_char' &&
  parameters.some((one) => typeof one === 'string' && /[^\0-\x7f]/.test(one));
/** SQLSTATE of a limit in the settings of PostgreSQL, such as `temp_file_limit`. */
const LIMIT_EXCEEDED = '53400';
/** The `routine` of the error for a materialized view without data. */
const NOT_POPULATED = 'ExecOpenScanRelation';

/**
 * The answer to a client for an error that any statement can meet: what passes, and texts that cannot be stored. Undefined for all
 * others, which are faults of the database unless they are `refusal`s of a write.
 */
export function toProblem(error: unknown): Problem | undefined {
  if (error instanceof LostWrite) return unavailable('lostWrite');
  if (!isDatabaseError(error) || isRefusedByRaise(error)) return undefined;
  const { code, routine } = error;
  if (code === LIMIT_EXCEEDED) return problem(503, 'tooMuchSpace');
  if (isUnencodable(error)) return problem(400, 'badValue');
  if (code === '55000' && routine === NOT_POPULATED) return unavailable('notReady');
  const passing = entryOf(PASSING, error);
  if (passing !== undefined) return unavailable(passing);
  // For instance a database that accepts no connections (55000), or a role that lost its privilege to connect (42501).
  const isRefused = code.length === 5 && isConnectionError(error);
  return isRefused || isNetworkError(error) ? unavailable('unavailable') : undefined;
}

/** Whether RAISE chose a code that otherwise means a failure of the service. */
const isRefusedByRaise = (error: DatabaseError): boolean => isRaised(error) && NOT_RAISED.test(error.code);

/** SQLSTATEs of errors whose message quotes the value. */
const QUOTING = /^22(003|007|008|023|P02)$/;

/** Whether a value contains a text, such as an array an element, which no letter or digit continues. An empty one has quotes. */
const hasPart = (value: string, part: string): boolean =>
  value.split(part === '' ? '""' : part).some((rest, at, all) => {
    const before = all[at - 1] ?? 'x';
    return !/[\p{L}\p{N}]$/u.test(before) && !/^[\p{L}\p{N}]/u.test(rest);
  });

/**
 * Whether one of the values that a write sends can be the reason for an error about a value: any of them for a rule of the table
 * itself, such as a check constraint. A view or a function may fail for another reason, so there the value must be in the error.
 */
function isOfValues(error: DatabaseError, values: readonly (string | null)[], { isTable }: Model): boolean {
  const { code, message } = error;
  if (isTable && !isInFunction(error)) return values.length > 0;
  if (code === '22012') return values.some((value) => Number(value || NaN) === 0);
  const quoted = QUOTING.test(code) ? /"(.*?)"/s.exec(message)?.[1] : undefined;
  if (quoted === undefined) return values.length > 0;
  return values.some((value) => message.includes(`"${value}"`) || hasPart(value ?? '', quoted));
}

/**
 * The answer to a write that the database refuses because of what the request sent: its values, or by a rule of the database.
 * @param values all that the write sends. A trigger that fails for another reason is a fault of the database, and so is a
 * sequence that has reached its end
 */
export function refusal(
  error: DatabaseError,
  values: readonly (string | null)[],
  model: Model,
): Problem | undefined {
  const { code, routine } = error;
  const passing = toProblem(error);
  if (passing) return passing;
  if (code === '42501' && routine === POLICY) return problem(400, 'valuesNotAllowed');
  if (REFERENCES.test(code) && isInFunction(error)) return problem(409, 'notAllowed');
  const isOwn = !isRaised(error);
  if (isOwn && (code === SEQUENCE_EXHAUSTED || (code === TOO_DEEP && isInFunction(error)))) return undefined;
  if (isOwn && OF_VALUES.test(code) && !isOfValues(error, values, model)) return undefined;
  const known = entryOf(WRITE_ANSWERS, error);
  const isRule = isOwn ? isInFunction(error) && CARDINALITY.test(code) : !known || NOT_RAISED.test(code);
  const answer = isRule ? WRITE_ANSWERS['P0'] : known;
  return answer && problem(...answer);
}

/** A fault of the database in a write: its message is the reason, for the log and for admins. Clients get a 500. */
export class DatabaseFault extends Error {
  constructor(cause: DatabaseError, reason = cause.message) {
    super(reason, { cause });
  }
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
  if (isDatabaseError(error) && isUnencodable(error)) return undefined;
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

/** Node's codes for a network or a system that may work later, beyond those in PASSING. */
const ALSO_PASSING = /^E(ADDRNOTAVAIL|AI_FAIL|CONNABORTED|HOSTDOWN|MFILE|NETDOWN|NFILE|NOBUFS)$/;

/** Whether waiting does not resolve an error of the network or of TLS, such as an expired certificate. */
const isLasting = (error: DatabaseError): boolean =>
  isNetworkError(error) && !(error.code in PASSING) && !ALSO_PASSING.test(error.code);

/** Why the database cannot be used, for the operator. It contains no password. */
export function reasonOf(error: DatabaseError): string {
  const { message, code } = error;
  if (lacksTls(error)) return 'the server does not support TLS. Check sslmode in DATABASE_URL';
  if (UNKNOWN_AUTHORITY.test(code))
    return `${message}. Set ?sslrootcert= in DATABASE_URL to a file with the missing authority`;
  if (message.startsWith('unrecognized configuration parameter'))
    return `${message}. Check the parameters of DATABASE_URL`;
  return message || code;
}

/** Errors that DATABASE_URL can cause: unreachable host, refused login, unknown database. */
const ADDRESS_FAULTS =
  /^(ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|CONNECT_TIMEOUT|28|3D)/;

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
export const longWrite = (): Problem => unavailable('writeCanceled');

/** Why an anonymous read was canceled at its time limit. */
export const tooLong = (): Problem => unavailable('readTooLong', 5);
