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

/** The answer to a query with these faults, each of which is told once however often it is there. */
export function badQuery(errors: FieldErrors): Problem {
  // Here and not where they are added: there it would take each time as long as there are errors.
  for (const messages of Object.values(errors)) messages.splice(0, messages.length, ...new Set(messages));
  return new Problem(400, 'The query has parameters that cannot be used.', { errors });
}

export const badBody = (errors: FieldErrors): Problem =>
  new Problem(400, 'The body has fields that cannot be used.', { errors });

export const unavailable = (detail: string, retryAfter = 1): Problem =>
  new Problem(503, detail, { headers: { 'Retry-After': String(retryAfter) } });

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

/** Adds one message to a map of field errors. */
export function addError(errors: FieldErrors, field: string, message: string): void {
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
