// The components of the OpenAPI document that are the same for every registry: errors, headers, and common schemas.
import { STATUS_CODES } from 'node:http';
import { ACCESS_LEVELS } from '../../config.ts';
import type { JsonSchema } from '../../db/types/column-type.ts';
import { badBody, badQuery } from '../../errors.ts';
import { INTERNAL_ERROR, UNAUTHORIZED } from '../message/message.ts';

/** A reference to a component of the document. */
export const refTo = (
  kind: 'schemas' | 'responses' | 'parameters' | 'headers',
  name: string,
): JsonSchema => ({
  $ref: `#/components/${kind}/${name}`,
});

const RETRY = { 'Retry-After': refTo('headers', 'Retry-After') };

interface ProblemKind {
  readonly status: number;
  readonly description: string;
  /** The `detail` of an example. */
  readonly detail: string;
  readonly errors?: Readonly<Record<string, readonly string[]>>;
  readonly headers?: JsonSchema;
}

/** Error responses by their component names. */
const PROBLEMS: Readonly<Record<string, ProblemKind>> = {
  BadQuery: {
    status: 400,
    description: 'Invalid query parameters; `errors` names each.',
    detail: badQuery({}).message,
    errors: { limit: ['must be a positive whole number'] },
  },
  BadBody: {
    status: 400,
    description: 'An invalid body; `errors` names each invalid field.',
    detail: badBody({}).message,
    errors: { name: ['is required'] },
  },
  Forbidden: {
    status: 403,
    description:
      'The user is not an admin or not the owner, or a browser sent the request from another site.',
    detail: 'Only admins may do this.',
  },
  NotFound: {
    status: 404,
    description: 'The record does not exist.',
    detail: 'There is no such record.',
  },
  NotAcceptable: {
    status: 406,
    description: 'No available format matches `Accept`.',
    detail: 'Accept must allow one of application/json, text/html.',
  },
  Conflict: {
    status: 409,
    description: 'Another record has the same unique value, or other records refer to this one.',
    detail: 'A record with the same value already exists.',
    errors: { name: ['another record has this value'] },
  },
  Changed: {
    status: 412,
    description: 'The record does not have the version that `If-Match` names.',
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
    description: 'The body is not in a supported format.',
    detail: 'The body must be application/json, or a form with a field "data".',
  },
  Throttled: {
    status: 429,
    description: 'Too many failed logins.',
    detail: 'Too many failed logins. Try again later.',
    headers: RETRY,
  },
  HeadersTooLarge: {
    status: 431,
    description: 'The URL and headers are too large.',
    detail: 'The URL and headers must be smaller than 32 KiB in total.',
  },
  Failed: {
    status: 500,
    description: 'An internal error; the log has its cause under `requestId`.',
    detail: INTERNAL_ERROR.message,
  },
  Unavailable: {
    status: 503,
    description:
      'The database is unreachable or too slow, or the service is overloaded, starting or stopping.',
    detail: 'The service is starting.',
    headers: RETRY,
  },
};

const PROBLEM_TYPE = 'application/problem+json';
const PROBLEM_CONTENT = { schema: refTo('schemas', 'Problem') };

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

const statusOf = (name: string): number => PROBLEMS[name]?.status ?? 401;

/** The error responses of an operation by status, including those that every operation can return. */
export const errorResponses = (...names: readonly string[]): JsonSchema => ({
  ...Object.fromEntries(
    [...names, 'HeadersTooLarge', 'Failed', 'Unavailable']
      .sort((one, other) => statusOf(one) - statusOf(other))
      .map((name) => [statusOf(name), refTo('responses', name)]),
  ),
  default: refTo('responses', 'Other'),
});

export const RESPONSES: JsonSchema = {
  Unauthorized: {
    description:
      'Credentials are required, but missing or wrong. The only error that is not a problem document.',
    headers: { 'WWW-Authenticate': refTo('headers', 'WWW-Authenticate') },
    content: { 'text/html': { schema: { type: 'string' }, example: UNAUTHORIZED.body } },
  },
  ...Object.fromEntries(Object.entries(PROBLEMS).map(([name, kind]) => [name, problemResponse(kind)])),
  Other: { description: 'Any other error.', content: { [PROBLEM_TYPE]: PROBLEM_CONTENT } },
};

const text = (description: string, example: string): JsonSchema => ({
  description,
  schema: { type: 'string' },
  example,
});

export const HEADERS: JsonSchema = {
  ETag: text('The version of the record, for `If-Match` and `If-None-Match`.', '"768-8dcfc8"'),
  Location: text('The path of the new record.', '/api/model/1/'),
  'WWW-Authenticate': text('The authentication scheme.', 'Basic realm="Login Required"'),
  'Retry-After': {
    description: 'Seconds to wait before the next attempt.',
    schema: { type: 'integer', minimum: 0 },
    example: 1,
  },
  'X-Total-Count': {
    description: 'The number of records that match the filters; only with `Prefer: count=exact`.',
    schema: { type: 'integer', minimum: 0 },
    example: 42,
  },
  'Preference-Applied': text('Confirms that the records were counted.', 'count=exact'),
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
        description: 'Error messages by parameter or field.',
        type: 'object',
        additionalProperties: { type: 'array', items: { type: 'string' } },
      },
      requestId: { type: 'string', description: 'Only with status 500: the `id` of the log line.' },
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
      next: { type: 'string', description: 'The path of the next page; empty on the last page.' },
      previous: { type: 'string', description: 'The path of the previous page; empty on the first page.' },
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
  Level: { type: 'string', enum: ACCESS_LEVELS },
  Status: {
    type: 'object',
    required: ['status'],
    properties: { status: { type: 'string' } },
    examples: [{ status: 'ok' }],
  },
};
