import { STATUS_CODES } from 'node:http';

/** What is wrong, by query parameter or body field. */
export type FieldErrors = Record<string, string[]>;

interface ProblemOptions {
  readonly errors?: FieldErrors;
  readonly headers?: Record<string, string>;
}

/**
 * An answer other than success that may be shown to the client: everything in it is public. Any other error that reaches
 * the one place that catches (`http/handler.ts`) becomes a bare 500.
 */
export class Problem extends Error {
  readonly status: number;
  readonly errors: FieldErrors | undefined;
  readonly headers: Record<string, string>;

  constructor(status: number, detail: string, options: ProblemOptions = {}) {
    super(detail);
    this.name = 'Problem';
    this.status = status;
    this.errors = options.errors;
    this.headers = options.headers ?? {};
  }
}

/** The RFC 9457 problem document of an answer; `extra` holds members of our own such as `errors` and `requestId`. */
export function problemDocument(status: number, detail: string, extra: Record<string, unknown> = {}): string {
  return JSON.stringify({
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail,
    ...extra,
  });
}

export const notFound = (detail = 'There is nothing here.'): Problem => new Problem(404, detail);

/** The most parameters or fields that an answer names, and the most characters of a name that it repeats. */
export const MAX_REPORTED = 100;
const MAX_NAME = 200;

/** The beginning of a text that a client sent, for an error message. */
export const excerpt = (text: string): string =>
  text.length <= MAX_NAME ? text : `${text.slice(0, MAX_NAME).toWellFormed()}…`;

/** The first errors; the last of them says how many more there are. */
function firstErrors(errors: FieldErrors, what: string): FieldErrors {
  const names = Object.keys(errors);
  const more = names.length - MAX_REPORTED;
  if (more <= 0) return errors;
  const reported: FieldErrors = {};
  for (const name of names.slice(0, MAX_REPORTED))
    for (const message of errors[name] ?? []) addError(reported, name, message);
  addError(reported, names[MAX_REPORTED - 1] ?? '', `and ${more} more ${what} cannot be used`);
  return reported;
}

/** The answer to a query with these faults. Duplicate messages are removed. */
export function badQuery(errors: FieldErrors): Problem {
  // Deduplicating on insert would be quadratic.
  for (const [name, messages] of Object.entries(errors)) errors[name] = [...new Set(messages)];
  return new Problem(400, 'The query has parameters that cannot be used.', {
    errors: firstErrors(errors, 'parameters'),
  });
}

export const badBody = (errors: FieldErrors): Problem =>
  new Problem(400, 'The body has fields that cannot be used.', { errors: firstErrors(errors, 'fields') });

export const unavailable = (detail: string, retryAfter = 1): Problem =>
  new Problem(503, detail, { headers: { 'Retry-After': String(retryAfter) } });

/** The answer to a request that the service has no room for. Those of one client are paced, see `http/pace.ts`. */
export class Refusal extends Problem {}

const RETRY = { headers: { 'Retry-After': '1' } };

/** Made once, as they are thrown when there is least time for it. */
export const OVERLOADED = new Refusal(503, 'The service is overloaded. Try again.', RETRY);
export const TOO_MANY = new Refusal(
  429,
  'Too many of your requests are waiting already. Try again later.',
  RETRY,
);

/** Something that keeps the service from starting: its message is for whoever starts it and is printed without a stack. */
export class StartError extends Error {
  /** What is wrong, a sentence each; the message itself where it is but one thing. */
  readonly faults: readonly string[];

  constructor(message: string, faults: readonly string[] = [message]) {
    super(message);
    this.name = 'StartError';
    this.faults = faults;
  }
}

/** One start error that lists every fault, a line each. */
export function startError(title: string, faults: readonly string[]): StartError {
  return new StartError([`${title}:`, ...faults.map((fault) => `  - ${fault}`)].join('\n'), faults);
}

/** Adds one message to a map of field errors. A long name is cut. */
export function addError(errors: FieldErrors, name: string, message: string): void {
  const field = excerpt(name);
  // A client chooses the names: `__proto__` and `constructor` must be ordinary keys.
  const list = Object.hasOwn(errors, field) ? errors[field] : undefined;
  if (list) list.push(message);
  else
    Object.defineProperty(errors, field, {
      value: [message],
      enumerable: true,
      configurable: true,
      writable: true,
    });
}
