import { STATUS_CODES } from 'node:http';
import type { AccessLevel } from '../../config.ts';
import type { JsonSchema } from '../../db/types/column-type.ts';
import { UNAUTHORIZED } from '../message/message.ts';

// The parts of the API's description that are the same for every registry.

export const refer = (
  kind: 'schemas' | 'responses' | 'parameters' | 'headers',
  name: string,
): JsonSchema => ({
  $ref: `#/components/${kind}/${name}`,
});

const RETRY = { 'Retry-After': refer('headers', 'Retry-After') };

interface ProblemKind {
  readonly status: number;
  readonly description: string;
  /** A problem document of the kind, beside its status. */
  readonly detail: string;
  readonly errors?: Readonly<Record<string, readonly string[]>>;
  readonly headers?: JsonSchema;
}

/** The errors that a client may meet, by their names in the document. */
const PROBLEMS: Readonly<Record<string, ProblemKind>> = {
  BadQuery: {
    status: 400,
    description: 'The query has parameters that cannot be used; `errors` names each.',
    detail: 'The query has parameters that cannot be used.',
    errors: { limit: ['must be a positive whole number'] },
  },
  BadBody: {
    status: 400,
    description: 'The body cannot be used; `errors` names each faulty field.',
    detail: 'The body has fields that cannot be used.',
    errors: { name: ['is required'] },
  },
  Forbidden: {
    status: 403,
    description: 'The user is no admin or not the owner, or a browser sent this from a foreign page.',
    detail: 'Only admins may do this.',
  },
  NotFound: {
    status: 404,
    description: 'There is no such record.',
    detail: 'There is no such record.',
  },
  NotAcceptable: {
    status: 406,
    description: 'There is no form of the answer that `Accept` allows.',
    detail: 'There is no such form of this.',
  },
  Conflict: {
    status: 409,
    description: 'Another record has a unique value, or others refer to this one.',
    detail: 'A record with the same value already exists.',
    errors: { name: ['another record has this value'] },
  },
  Changed: {
    status: 412,
    description: 'The record is not in the state that `If-Match` names.',
    detail: 'The record has changed since it was read.',
  },
  TooLarge: {
    status: 413,
    description: 'The body is too large.',
    detail: 'The body is larger than 1048576 bytes.',
  },
  TooLong: {
    status: 414,
    description: 'The query string is longer than 8,192 bytes.',
    detail: 'The query string is longer than 8192 bytes.',
  },
  Unsupported: {
    status: 415,
    description: 'The body is in a form that is not taken.',
    detail: 'The body must be JSON, or a form with a field "data" that holds JSON.',
  },
  Throttled: {
    status: 429,
    description: 'Too many failed logins.',
    detail: 'Too many failed logins. Try again later.',
    headers: RETRY,
  },
  HeadersTooLarge: {
    status: 431,
    description: 'The headers are too large.',
    detail: 'The headers are too large.',
  },
  Failed: {
    status: 500,
    description: 'A fault of the service; `requestId` finds it in the log.',
    detail: 'Something went wrong here.',
  },
  Unavailable: {
    status: 503,
    description: 'The database is out of reach or too slow, or the service overloaded, starting or ending.',
    detail: 'The service is starting.',
    headers: RETRY,
  },
};

const PROBLEM_TYPE = 'application/problem+json';
const PROBLEM_CONTENT = { schema: refer('schemas', 'Problem') };

function problemResponse({ status, description, detail, errors, headers }: ProblemKind): JsonSchema {
  const example = {
    type: 'about:blank',
    title: STATUS_CODES[status],
    status,
    detail,
    ...(errors ? { errors } : {}),
  };
  return {
    description,
    ...(headers ? { headers } : {}),
    content: { [PROBLEM_TYPE]: { ...PROBLEM_CONTENT, example } },
  };
}

const named = Object.entries(PROBLEMS);

const statusOf = (name: string): number => PROBLEMS[name]?.status ?? 401;

/** The responses of an operation by status, given the names of its errors, and those that every operation may meet. */
export const errorResponses = (...names: readonly string[]): JsonSchema => ({
  ...Object.fromEntries(
    [...names, 'HeadersTooLarge', 'Failed', 'Unavailable']
      .sort((one, other) => statusOf(one) - statusOf(other))
      .map((name) => [statusOf(name), refer('responses', name)]),
  ),
  default: refer('responses', 'Other'),
});

export const RESPONSES: JsonSchema = {
  Unauthorized: {
    description:
      'Credentials are needed, and are missing or wrong. The one error that is no problem document.',
    headers: { 'WWW-Authenticate': refer('headers', 'WWW-Authenticate') },
    content: { 'text/html': { schema: { type: 'string' }, example: UNAUTHORIZED.body } },
  },
  ...Object.fromEntries(named.map(([name, kind]) => [name, problemResponse(kind)])),
  Other: { description: 'Any other error.', content: { [PROBLEM_TYPE]: PROBLEM_CONTENT } },
};

const text = (description: string, example: string): JsonSchema => ({
  description,
  schema: { type: 'string' },
  example,
});

export const HEADERS: JsonSchema = {
  ETag: text('The state of the record, for `If-Match` and `If-None-Match`.', '"768-8dcfc8"'),
  Location: text('The path of the new record.', '/api/model/1/'),
  'WWW-Authenticate': text('What the service wants to know.', 'Basic realm="Login Required"'),
  'Retry-After': { description: 'Seconds.', schema: { type: 'integer', minimum: 0 }, example: 1 },
  'X-Total-Count': {
    description: 'How many records the filters match; only where `Prefer: count=exact` asks for it.',
    schema: { type: 'integer', minimum: 0 },
    example: 42,
  },
  'Preference-Applied': text('Says that the count was made.', 'count=exact'),
};

export const SHARED_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  Problem: {
    description: 'A problem document (RFC 9457).',
    type: 'object',
    required: ['type', 'title', 'status', 'detail'],
    properties: {
      type: { type: 'string' },
      title: { type: 'string' },
      status: { type: 'integer' },
      detail: { type: 'string' },
      errors: {
        description: 'What is wrong, by parameter or field.',
        type: 'object',
        additionalProperties: { type: 'array', items: { type: 'string' } },
      },
      requestId: { type: 'string', description: 'Of a 500: the `id` of the line in the log.' },
    },
  },
  Deleted: {
    type: 'object',
    required: ['deleted'],
    properties: { deleted: { type: 'integer', const: 1 } },
    examples: [{ deleted: 1 }],
  },
  Meta: {
    type: 'object',
    required: ['model', 'page', 'next', 'previous'],
    properties: {
      model: { type: 'string' },
      page: { type: 'integer', minimum: 1 },
      next: { type: 'string', description: 'The path of the next page; empty where there is none.' },
      previous: { type: 'string', description: 'The path of the page before; empty where there is none.' },
    },
  },
  Index: {
    type: 'object',
    required: ['resources'],
    properties: {
      resources: {
        type: 'array',
        items: {
          type: 'object',
          required: ['name', 'url', 'read', 'access', 'methods'],
          properties: {
            name: { type: 'string' },
            url: { type: 'string' },
            read: { $ref: '#/components/schemas/Level' },
            access: { $ref: '#/components/schemas/Level' },
            methods: { type: 'array', items: { enum: ['GET', 'POST', 'PUT', 'DELETE'] } },
          },
        },
      },
    },
  },
  Level: { type: 'string', enum: ['default', 'user', 'admin'] satisfies AccessLevel[] },
  Status: {
    type: 'object',
    required: ['status'],
    properties: { status: { type: 'string' } },
    examples: [{ status: 'ok' }],
  },
};

export const SECURITY_SCHEMES: Readonly<Record<Exclude<AccessLevel, 'default'>, JsonSchema>> = {
  user: { type: 'http', scheme: 'basic', description: 'The name and the password of an active user.' },
  admin: { type: 'http', scheme: 'basic', description: 'The same, of a user whose `admin` is true.' },
};

export const DESCRIPTION = `
What the caller may see of this API: with credentials that may do more, this document has more.

**Paths** may end with a slash. \`HEAD\` works wherever \`GET\` does; \`OPTIONS\` answers 204 with \`Allow\`.

**Filters** are parameters \`[-]column[__column of the related record]…[__operator]\`. The document lists each column with
each operator that fits it, and the columns of related records one foreign key away. Beyond that (see the parameter
\`_filters\`):

- a leading \`-\` negates a filter: it keeps every record that the filter does not match, NULLs included;
- a path may follow up to four foreign keys; a foreign key may be called with \`_id\`, too;
- different parameters must all hold; the same parameter again means any of its values (with \`ne\`, and negated: none).

\`in\` takes values separated by commas; a value with a comma or a double quote is quoted as in CSV. \`is\` takes \`null\`,
and of truth values \`true\` and \`false\`. \`like\` and \`ilike\` take SQL patterns: \`%\` is any text, \`_\` any character.
A query has at most 20 patterns, with 256 characters in all.

**Bodies** are JSON objects, or forms whose field \`data\` holds one. A foreign key \`user\` is \`user_id\`.
`.trim();
