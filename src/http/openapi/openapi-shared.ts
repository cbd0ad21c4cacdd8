// The components of the OpenAPI document that are the same for every registry: errors, headers, and common schemas.
import { ACCESS_LEVELS } from '../../config.ts';
import type { JsonSchema } from '../../db/types/column-type.ts';
import { badQuery } from '../../errors.ts';
import { MAX_QUERY_BYTES } from '../../query/parse/grammar.ts';
import { MAX_HEADERS } from '../message/request-head.ts';
import { POSITION_HEADER } from '../message/write-position.ts';
import { problemReply, UNAUTHORIZED } from '../message/message.ts';

/** A reference to a component of the document. */
export const refTo = (
  kind: 'schemas' | 'responses' | 'parameters' | 'headers',
  name: string,
): JsonSchema => ({
  $ref: `#/components/${kind}/${name}`,
});

/** The responses with a problem document, by their component names. */
const PROBLEMS: Readonly<Record<string, readonly [status: number, description: string]>> = {
  BadQuery: [400, 'Invalid query parameters; `errors` names each.'],
  BadBody: [400, 'An invalid body; `errors` names each invalid field.'],
  Forbidden: [
    403,
    'The user is not an admin or not the owner, or a browser sent the request from another site.',
  ],
  NotFound: [404, 'The record does not exist.'],
  NotAcceptable: [406, 'No available format matches `Accept`.'],
  Conflict: [409, 'Another record has the same unique value, or other records refer to this one.'],
  Changed: [412, 'The record has no version that `If-Match` lists, or one that `If-None-Match` excludes.'],
  TooLarge: [413, 'The body is too large.'],
  TooLong: [414, `The query string is longer than ${MAX_QUERY_BYTES.toLocaleString('en-US')} bytes.`],
  Unsupported: [415, 'The body is not in a supported format.'],
  OtherRequest: [422, 'Another request had this `Idempotency-Key`.'],
  Throttled: [429, 'Too many failed logins or requests.'],
  HeadersTooLarge: [
    431,
    `The URL and headers are too large, there are more than ${MAX_HEADERS} headers, or \`If-Match\` or \`If-None-Match\` is too long.`,
  ],
  Failed: [500, 'An internal error; the log has its cause under `requestId`.'],
  Unavailable: [
    503,
    'The database is unreachable or too slow, or the service is overloaded, starting or stopping.',
  ],
};

const PROBLEM_CONTENT = { 'application/problem+json': { schema: refTo('schemas', 'Problem') } };
const RETRY = { headers: { 'Retry-After': refTo('headers', 'Retry-After') } };

const statusOf = (name: string): number => PROBLEMS[name]?.[0] ?? 401;

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
    description: 'Credentials are required, but missing or wrong. The body is always this text.',
    headers: { 'WWW-Authenticate': refTo('headers', 'WWW-Authenticate') },
    content: { 'text/html': { schema: { type: 'string' }, example: UNAUTHORIZED.body } },
  },
  ...Object.fromEntries(
    Object.entries(PROBLEMS).map(([name, [status, description]]) => [
      name,
      { description, ...(status === 429 || status === 503 ? RETRY : {}), content: PROBLEM_CONTENT },
    ]),
  ),
  Other: { description: 'Any other error.', content: PROBLEM_CONTENT },
};

const text = (description: string, example: string): JsonSchema => ({
  description,
  schema: { type: 'string' },
  example,
});

export const HEADERS: JsonSchema = {
  ETag: text(
    'The version of the record, for `If-Match` and `If-None-Match`; of a page, only for the latter.',
    '"768-8dcfc8"',
  ),
  Location: text('The path of the new record.', '/api/model/1/'),
  'WWW-Authenticate': text('The authentication scheme.', 'Basic realm="Login Required"'),
  'Retry-After': {
    description: 'Seconds to wait before the next attempt.',
    schema: { type: 'integer', minimum: 0 },
    example: 1,
  },
  'X-Total-Count': {
    description:
      'The number of records that match the filters; only with `Prefer: count=…`. `10000+` means more than 10,000.',
    schema: { type: 'string', pattern: '^\\d+\\+?$' },
    example: '42',
  },
  Link: text('Of CSV: the paths of the next and previous pages.', '</api/model/?page=2>; rel="next"'),
  [POSITION_HEADER]: text(
    'Only with replicas: the position of this write, for the same header of later reads. Refused writes may have it, too.',
    'q3Vb0yJm7tGx1cKfU5hZ2wRkPnA8sLdE4oTiXvYgHj6MzCqWuBNrFaS9eQpDl-_I',
  ),
  'Idempotency-Replayed': text(
    'Only of a repeated request, whose `Idempotency-Key` an earlier one had: nothing was written again.',
    'true',
  ),
  'Preference-Applied': text('The preferences of `Prefer` that the response follows.', 'count=exact'),
};

const EXAMPLE = badQuery({ limit: ['must be a positive whole number'] });

/** The schema of an object with these fields, all of them required. */
const objectOf = (properties: JsonSchema, more: JsonSchema = {}): JsonSchema => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
  ...more,
});

const NAMES: JsonSchema = { type: 'array', items: { type: 'string' } };

/** What a token may do of what its user may do. */
const SCOPE: JsonSchema = {
  resources: {
    type: ['array', 'null'],
    minItems: 1,
    items: { type: 'string' },
    description: 'The names of resources; `null` for all of them.',
  },
  methods: {
    type: ['array', 'null'],
    minItems: 1,
    items: { enum: ['GET', 'POST', 'PUT', 'DELETE'] },
    description: '`null` for all of them.',
  },
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
    examples: [JSON.parse(problemReply(EXAMPLE, '').body as string)],
  },
  Deleted: objectOf({ deleted: { type: 'integer', const: 1 } }, { examples: [{ deleted: 1 }] }),
  Meta: objectOf({
    model: { type: 'string' },
    page: { type: 'integer', minimum: 0, description: 'Page number; 0 with a cursor.' },
    next: { type: 'string', description: 'The path of the next page; empty on the last page.' },
    previous: { type: 'string', description: 'The path of the previous page; empty on the first page.' },
  }),
  Index: objectOf({
    resources: {
      type: 'array',
      items: objectOf({
        name: { type: 'string' },
        url: { type: 'string' },
        read: refTo('schemas', 'Level'),
        access: refTo('schemas', 'Level'),
        methods: { type: 'array', items: { enum: ['GET', 'POST', 'PUT', 'DELETE'] } },
      }),
    },
  }),
  Level: { type: 'string', enum: ACCESS_LEVELS },
  Changes: objectOf({
    meta: objectOf({
      after: { type: 'string', description: 'The cursor for the next page.' },
      more: { type: 'boolean', description: 'Whether the next page may have changes already.' },
    }),
    objects: {
      type: 'array',
      items: objectOf({
        id: { type: 'string', description: 'The cursor after this change.' },
        at: { type: 'string' },
        model: { type: 'string' },
        record: { type: ['integer', 'string'], description: 'The `id` of the record.' },
        action: { enum: ['create', 'update', 'delete'] },
        source: { enum: ['api', 'admin', 'command'] },
        user: { type: ['object', 'null'], description: 'Who made the change, if you may see that.' },
        before: {
          type: ['object', 'null'],
          description: 'Of an update, only what it changed. Null with `unreadable`.',
        },
        after: { type: ['object', 'null'] },
      }),
    },
  }),
  Me: objectOf({
    id: { type: ['integer', 'string'] },
    username: { type: 'string' },
    roles: { type: 'array', items: { type: 'string' }, description: 'Also the built-in `user` and `admin`.' },
    record: { type: ['object', 'null'], description: 'Your record as you may read it, if you may.' },
    resources: {
      description:
        'What you may do by resource: the fields that you see and set, and whether you may delete.',
      type: 'object',
      additionalProperties: {
        type: 'object',
        properties: { read: NAMES, create: NAMES, update: NAMES, delete: { const: true } },
      },
    },
  }),
  NewPassword: {
    type: 'object',
    required: ['current', 'password'],
    properties: {
      current: { type: 'string', description: 'The current password.' },
      password: { type: 'string', description: 'The new password.' },
      revoke: { type: 'boolean', description: 'Whether all your tokens are revoked.' },
    },
  },
  NewToken: {
    type: 'object',
    properties: {
      label: { type: 'string', maxLength: 255 },
      ...SCOPE,
      expires: {
        type: ['string', 'null'],
        description: 'In 90 days if it is left out; `null` for a token that does not expire.',
      },
    },
    examples: [{ label: 'nightly', resources: null, methods: ['GET'], expires: null }],
  },
  MadeToken: objectOf({
    id: { type: 'integer' },
    token: { type: 'string', pattern: '^vt_\\d+_[0-9a-f]{72}$' },
    label: { type: 'string' },
    ...SCOPE,
    expires: { type: ['string', 'null'] },
  }),
  Tokens: objectOf({
    tokens: {
      type: 'array',
      items: objectOf({
        id: { type: 'integer' },
        user: { type: ['string', 'null'], description: 'The user name; `null` for a deleted user.' },
        label: { type: 'string' },
        ...SCOPE,
        created: { type: 'string' },
        expires: { type: ['string', 'null'] },
        used: { type: ['string', 'null'], description: 'The day of the last use (UTC).' },
        valid: { type: 'boolean' },
      }),
    },
  }),
  Status: objectOf({ status: { type: 'string' } }, { examples: [{ status: 'ok' }] }),
};
