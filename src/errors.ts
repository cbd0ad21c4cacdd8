// Errors with a public message: those that become responses, and those that keep the service from starting.
import { STATUS_CODES } from 'node:http';
import { messageOf, textOf, type Message } from './messages.ts';

/** Error messages by query parameter or body field. */
export type FieldErrors = Record<string, string[]>;

interface ProblemOptions {
  readonly errors?: FieldErrors;
  readonly headers?: Record<string, string>;
}

/**
 * An error response for the client; everything in it is public. Any other error becomes a bare 500 in
 * `http/server/error-replies.ts`.
 */
export class Problem extends Error {
  readonly status: number;
  readonly errors: FieldErrors | undefined;
  readonly headers: Record<string, string>;

  constructor(status: number, detail: Message | string, options: ProblemOptions = {}) {
    const { stackTraceLimit } = Error;
    // A stack trace would cost a third of a refused request, and is never read. Confined, the limit is frozen: an assignment would
    // throw an error.
    Reflect.set(Error, 'stackTraceLimit', 0);
    super(textOf(detail));
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
    this.name = 'Problem';
    this.status = status;
    this.errors = options.errors;
    this.headers = options.headers ?? {};
  }
}

/** A problem with the body as a whole. A page can replace its subject: `The file ${predicate}`. */
export class BodyProblem extends Problem {
  /** The message without its subject, such as `is not UTF-8.` */
  readonly predicate: string;

  constructor(status: number, predicate: Message, options?: ProblemOptions) {
    super(status, messageOf('ofBody', { predicate }), options);
    this.predicate = textOf(predicate);
  }
}

/** The RFC 9457 problem document as JSON; `extra` adds fields such as `errors` and `requestId`. */
export function problemDocument(status: number, detail: string, extra: Record<string, unknown> = {}): string {
  return JSON.stringify({
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail,
    ...extra,
  });
}

export const notFound = (detail: Message | string = messageOf('noResource')): Problem =>
  new Problem(404, detail);

/** The maximum number of parameters or fields that one error response lists. */
export const MAX_REPORTED = 100;
/** The maximum length of a name in an error message (UTF-16 units). */
const MAX_NAME = 200;

/**
 * Shortens text from a client for use in an error message or in the log.
 * @param max UTF-16 units
 */
export const excerpt = (text: string, max = MAX_NAME): string =>
  text.length <= max ? text : `${text.slice(0, max).toWellFormed()}…`;

/** Keeps the first errors and adds the number of the others to the last one. */
function firstErrors(errors: FieldErrors, rest: 'moreParameters' | 'moreFields'): FieldErrors {
  const names = Object.keys(errors);
  const more = names.length - MAX_REPORTED;
  if (more <= 0) return errors;
  const reported: FieldErrors = {};
  for (const name of names.slice(0, MAX_REPORTED))
    for (const message of errors[name] ?? []) addError(reported, name, message);
  addError(reported, names[MAX_REPORTED - 1] ?? '', messageOf(rest, { count: more }));
  return reported;
}

/** A 400 for invalid query parameters. Duplicate messages are removed, also in the given `errors`. */
export function badQuery(errors: FieldErrors): Problem {
  // Deduplicating on insert would be quadratic.
  for (const [name, messages] of Object.entries(errors)) errors[name] = [...new Set(messages)];
  return new Problem(400, messageOf('invalidQuery'), {
    errors: firstErrors(errors, 'moreParameters'),
  });
}

/** A 400 for invalid body fields. @param note a sentence about the whole body, with a leading space */
export const badBody = (errors: FieldErrors, note?: Message): Problem =>
  new Problem(400, `${textOf(messageOf('invalidBody'))}${textOf(note ?? '')}`, {
    errors: firstErrors(errors, 'moreFields'),
  });

/** A 503; `retryAfter` is in seconds. */
export const unavailable = (detail: Message, retryAfter = 1): Problem =>
  new Problem(503, detail, { headers: { 'Retry-After': String(retryAfter) } });

/** Rejects a request because of overload. Instances are shared, so the message is in the language of the request that reads it. */
export class Refusal extends Problem {
  constructor(status: number, detail: Message, options?: ProblemOptions) {
    super(status, detail, options);
    Object.defineProperty(this, 'message', { get: () => textOf(detail) });
  }
}

export const RETRY = { headers: { 'Retry-After': '1' } };

/** Shared instances, because they are thrown under overload. */
export const RECORD_BUSY = new Refusal(503, messageOf('recordBusy'), RETRY);
export const OVERLOADED = new Refusal(503, messageOf('overloaded'), RETRY);

/** An error in a registry, or in the tables of the database. */
export interface Fault {
  /** The model's name, or else `resource 3`, `panel "Sales"` or `the registry`. */
  readonly model: string;
  /** The faulty key inside the resource, such as `columns.email.type`; empty for the resource as a whole. */
  readonly key: string;
  /** The fault, without the two above. */
  readonly text: string;
  /** The SQL that changes the database instead, after comments on its locks and on rows that it would not accept. */
  readonly alter?: string | undefined;
}

/** A fault inside of something that the caller knows. */
export type KeyFault = Omit<Fault, 'model'>;

/** A list with this fault, or an empty one: `key` is the faulty key, `text` describes it. */
export const faultIf = (isFaulty: boolean, key: string, text: string): KeyFault[] =>
  isFaulty ? [{ key, text }] : [];

/** A fault in one line: `note: columns.created.type: must be one of…`. */
const printFault = ({ model, key, text }: Fault): string =>
  [model, key, text].filter((part) => part !== '').join(': ');

/** An error that prevents the start. The operator sees its message without a stack trace. */
export class StartError extends Error {
  /** One text per problem; the message alone if there is only one. */
  readonly faults: readonly string[];

  constructor(message: string, faults: readonly string[] = [message]) {
    super(message);
    this.name = 'StartError';
    this.faults = faults;
  }
}

/** A start error that lists each fault on its own line. */
export function startError(title: string, faults: readonly (Fault | string)[]): StartError {
  const texts = faults.map((fault) => (typeof fault === 'string' ? fault : printFault(fault)));
  return new StartError([`${title}:`, ...texts.map((text) => `  - ${text}`)].join('\n'), texts);
}

/** The errors of one field or parameter. */
export const errorOf = (name: string, message: Message | string): FieldErrors => ({
  [name]: [textOf(message)],
});

/** Adds a message to a map of field errors. Long names are shortened. */
export function addError(errors: FieldErrors, name: string, message: Message | string): void {
  const field = excerpt(name);
  // Clients choose the names, so `__proto__` and `constructor` must work as ordinary keys.
  const list = Object.hasOwn(errors, field) ? errors[field] : undefined;
  if (list) list.push(textOf(message));
  else
    Object.defineProperty(errors, field, {
      value: [textOf(message)],
      enumerable: true,
      configurable: true,
      writable: true,
    });
}
