// The OpenAPI paths of each resource, and of the service itself.
import type { Level } from '../../config.ts';
import type { JsonSchema } from '../../db/types/column-type.ts';
import { isKeyless, namedColumns } from '../../db/schema/model.ts';
import { isForAdmins, isOpen, levelOf } from '../../resources/access/access.ts';
import { hasChosenKey, type ResourceView } from '../../resources/access/resource-view.ts';
import { apiSubjects, isOwn, whoMay, type Right } from '../../resources/access/who-may.ts';
import type { Action } from '../../resources/definition/roles.ts';
import { MAX_RECORDS } from '../../resources/records/create-records.ts';
import { POSITION_HEADER } from '../message/write-position.ts';
import { listParameters } from './openapi-parameters.ts';
import { errorResponses, refTo } from './openapi-shared.ts';

const content = (name: string): JsonSchema => ({ 'application/json': { schema: refTo('schemas', name) } });
const header = (...names: readonly string[]): JsonSchema =>
  Object.fromEntries(names.map((name) => [name, refTo('headers', name)]));

const ok = (description: string, name: string, ...headers: readonly string[]): JsonSchema => ({
  description,
  ...(headers.length > 0 ? { headers: header(...headers) } : {}),
  content: content(name),
});

/** @param acceptsLogin whether credentials, though not required, change the result */
const security = (level: Level, acceptsLogin = false): JsonSchema[] => {
  if (!isOpen(level)) return [{ [levelOf(level)]: [] }, { token: [] }];
  return acceptsLogin ? [{}, ...LOGINS] : [];
};

/** Ways to log in as any user. */
const LOGINS: readonly JsonSchema[] = [{ user: [] }, { token: [] }];

const LOGIN = ['Unauthorized', 'Throttled'];
/** The errors that a read at this level can get. */
const readErrors = (level: Level): string[] => [
  ...(isOpen(level) ? [] : LOGIN),
  ...(isForAdmins(level) || typeof level !== 'string' ? ['Forbidden'] : []),
];
const WRITE_ERRORS = [...LOGIN, 'Forbidden', 'BadBody', 'Conflict'];
/** The headers of the response to a write of records. */
const WRITE_HEADERS = [POSITION_HEADER, 'Idempotency-Replayed'];

/** The body as JSON, also as one of these media types, or as JSON text in the field `data` of a form. */
function requestBody(schema: JsonSchema, ...mediaTypes: readonly string[]): JsonSchema {
  const form = {
    schema: {
      type: 'object',
      required: ['data'],
      properties: {
        data: { type: 'string', contentMediaType: 'application/json', contentSchema: schema },
      },
    },
  };
  return {
    required: true,
    content: {
      ...Object.fromEntries(['application/json', ...mediaTypes].map((type) => [type, { schema }])),
      'application/x-www-form-urlencoded': form,
      'multipart/form-data': form,
    },
  };
}

/** One value, or an array of such values. @param minimal the schema of an array's element with `Prefer: return=minimal` */
const oneOrArray = (one: JsonSchema, minimal?: JsonSchema): JsonSchema => ({
  oneOf: [
    one,
    { type: 'array', minItems: 1, maxItems: MAX_RECORDS, items: one },
    ...(minimal ? [{ type: 'array', minItems: 1, maxItems: MAX_RECORDS, items: minimal }] : []),
  ],
});

/** Formats of a collection that a client can choose with `Accept`, in addition to JSON. */
const OTHER_FORMATS: JsonSchema = {
  'text/csv': { schema: { type: 'string' } },
  'application/x-ndjson': { schema: { type: 'string' } },
};

/** Whether foreign keys lead to a resource that only logged-in callers may read, and thus filter by. */
function hasRestrictedFilters(resource: ResourceView): boolean {
  const reached = new Set([resource]);
  // The set grows meanwhile.
  for (const { model, output } of reached)
    for (const { references } of namedColumns(model, output)) {
      const target = references && resource.all.get(references.name);
      if (target) reached.add(target);
    }
  return [...reached].some(({ read, isPersonal }) => !isOpen(read) || isPersonal);
}

/** Whether credentials change what a list returns, although it does not require them. */
const gainsByLogin = (resource: ResourceView): boolean =>
  !isOpen(resource.costly) || resource.maxCount !== undefined || hasRestrictedFilters(resource);

const rightsTo = (resource: ResourceView, ...actions: readonly Action[]): readonly Right[] =>
  actions.flatMap((action) =>
    whoMay(apiSubjects(resource.roles), ({ access }) => resource.for(access).rights[action]),
  );

const namesOf = (rights: readonly Right[]): string[] => [...new Set(rights.map(({ who }) => who))];

/** Who may read, write and own records, in one or two sentences. */
export function describeResource(resource: ResourceView): string {
  const { name, owner } = resource;
  /** Those who have the rights, and whether only for some records. */
  const who = (rights: readonly Right[]): string => {
    const unlimited = namesOf(rights.filter((right) => !right.rows || isOwn(right, owner)));
    const names = namesOf(rights).map((one) => (unlimited.includes(one) ? one : `${one} (some records)`));
    return names.join(', ') || 'no one';
  };
  const writers = rightsTo(resource, 'create', 'update', 'delete');
  const others = namesOf(rightsTo(resource, 'update', 'delete').filter((right) => !isOwn(right, owner)));
  const owners = ['the owner', ...(others.length > 0 ? [others.join(', ')] : [])].join(' and ');
  const owned =
    owner && writers.length > 0
      ? ` The user who creates a ${name} owns it; only ${owners} can change or delete it.`
      : '';
  return `Readable by ${who(rightsTo(resource, 'read'))}, writable by ${who(writers)}.${owned}`;
}

/** The paths of a resource: of the collection, and of a record. */
export function resourcePaths(resource: ResourceView): [path: string, item: JsonSchema][] {
  const { name, model, read, needed, hasCallers, costly, methods } = resource;
  const acceptsLogin = isOpen(read) && gainsByLogin(resource);
  const write = (method: 'POST' | 'PUT' | 'DELETE'): Level =>
    isOpen(needed(method)) ? 'user' : needed(method);
  const operation = (verb: string, summary: string, level: Level, rest: JsonSchema): JsonSchema => ({
    tags: [name],
    operationId: `${verb}_${name}`,
    summary,
    security: security(level, verb === 'list' && acceptsLogin),
    ...rest,
  });
  const { output: key } = model.primaryKey.type.schema(model.primaryKey);
  const collection: Record<string, JsonSchema> = {};
  const record: Record<string, JsonSchema> = {};
  if (methods.has('GET')) {
    const login = readErrors(isForAdmins(costly) ? costly : acceptsLogin ? 'user' : read);
    const isCached = resource.cache !== undefined;
    collection['get'] = operation('list', `List records of ${name}, one page at a time`, read, {
      parameters: [...(isCached ? [refTo('parameters', 'IfNoneMatch')] : []), ...listParameters(resource)],
      responses: {
        200: {
          description: 'One page. As `application/x-ndjson`, all records that match the filters.',
          headers: header('X-Total-Count', 'Preference-Applied', 'Link', ...(isCached ? ['ETag'] : [])),
          content: { ...content(`${name}.Page`), ...OTHER_FORMATS },
        },
        ...(isCached && { 304: { description: 'The page has not changed.', headers: header('ETag') } }),
        ...errorResponses('BadQuery', 'NotAcceptable', 'TooLong', ...login),
      },
    });
    record['get'] = operation('get', `Get a record of ${name}`, read, {
      parameters: [refTo('parameters', 'IfNoneMatch'), refTo('parameters', 'Position')],
      responses: {
        200: ok('The record.', name, 'ETag'),
        304: { description: 'The record has not changed.', headers: header('ETag') },
        ...errorResponses('BadQuery', 'NotFound', 'NotAcceptable', ...readErrors(read)),
      },
    });
  }
  if (hasCallers('POST')) {
    collection['post'] = operation('create', `Create a record of ${name}`, write('POST'), {
      description: 'An array of records creates all of them, or none.',
      parameters: [refTo('parameters', 'PreferReturn'), refTo('parameters', 'IdempotencyKey')],
      requestBody: requestBody(oneOrArray(refTo('schemas', `${name}.New`))),
      responses: {
        201: {
          description: 'The new record, or an array of the new records.',
          headers: header('Location', 'ETag', 'Preference-Applied', ...WRITE_HEADERS),
          content: { 'application/json': { schema: oneOrArray(refTo('schemas', name), key) } },
        },
        ...errorResponses(...WRITE_ERRORS, 'OtherRequest', 'TooLarge', 'Unsupported'),
      },
    });
  }
  if (hasCallers('PUT')) {
    const mayCreate = hasChosenKey(resource) && hasCallers('POST');
    const change = (...mediaTypes: readonly string[]): JsonSchema => ({
      parameters: [
        refTo('parameters', 'IfMatch'),
        refTo('parameters', 'PreferHandling'),
        ...(mayCreate ? [refTo('parameters', 'IfNoneMatchAny')] : []),
        refTo('parameters', 'IdempotencyKey'),
      ],
      requestBody: requestBody(refTo('schemas', `${name}.Change`), ...mediaTypes),
      responses: {
        200: ok('The changed record.', name, 'ETag', 'Preference-Applied', ...WRITE_HEADERS),
        ...(mayCreate
          ? {
              201: ok(
                'The new record, with `If-None-Match: *`.',
                name,
                'Location',
                'ETag',
                'Preference-Applied',
                ...WRITE_HEADERS,
              ),
            }
          : {}),
        ...errorResponses(...WRITE_ERRORS, 'OtherRequest', 'NotFound', 'Changed', 'TooLarge', 'Unsupported'),
      },
    });
    const summary = `Change a record of ${name}`;
    const description = 'Fields that are not sent keep their values.';
    record['put'] = operation('update', summary, write('PUT'), { description, ...change() });
    record['patch'] = operation('patch', summary, write('PUT'), {
      description: 'The same as PUT.',
      ...change('application/merge-patch+json'),
    });
  }
  if (hasCallers('DELETE')) {
    record['delete'] = operation('delete', `Delete a record of ${name}`, write('DELETE'), {
      parameters: [refTo('parameters', 'IfMatch'), refTo('parameters', 'IdempotencyKey')],
      responses: {
        200: ok('The record was deleted.', 'Deleted', ...WRITE_HEADERS),
        ...errorResponses(
          ...LOGIN,
          'BadQuery',
          'Forbidden',
          'Conflict',
          'NotFound',
          'Changed',
          'OtherRequest',
        ),
      },
    });
  }
  const paths: [string, JsonSchema][] = [];
  if (Object.keys(collection).length > 0) paths.push([`/api/${name}`, collection]);
  if (Object.keys(record).length > 0 && !isKeyless(model)) {
    const id = { name: 'id', in: 'path', required: true, description: 'Percent-encoded.', schema: key };
    paths.push([`/api/${name}/{id}`, { parameters: [id], ...record }]);
  }
  return paths;
}

/** A GET path that needs no credentials. */
const publicPath = (operationId: string, summary: string, name: string, ...errors: string[]): JsonSchema => ({
  get: {
    operationId,
    summary,
    security: [],
    responses: { 200: ok('Success.', name), ...errorResponses(...errors) },
  },
});

/** The paths that do not belong to a resource. */
export const SITE_PATHS: JsonSchema = {
  '/api': publicPath(
    'index',
    'List the resources: names, paths, access levels and methods',
    'Index',
    'BadQuery',
    'NotAcceptable',
  ),
  '/api/openapi.json': {
    get: {
      operationId: 'openapi',
      summary: 'Get this document',
      security: [{}, ...LOGINS],
      responses: {
        200: {
          description: 'The OpenAPI document of what the caller may see.',
          headers: header('ETag'),
          content: { 'application/json': { schema: { type: 'object' } } },
        },
        304: { description: 'The document has not changed.', headers: header('ETag') },
        ...errorResponses('BadQuery', ...LOGIN),
      },
    },
  },
  '/healthz': publicPath('health', 'Check that the process runs', 'Status'),
  '/readyz': publicPath('ready', 'Check that the service can handle requests', 'Status'),
};

const WITH_PASSWORD: readonly JsonSchema[] = [{ user: [] }];

/** The change feed, and the paths of the caller's own account, in a service with users. */
export const ACCOUNT_PATHS: JsonSchema = {
  '/api/-/changes': {
    get: {
      operationId: 'list_changes',
      summary: 'List the changes that you may see, the oldest first',
      security: [{}, ...LOGINS],
      parameters: [
        {
          name: 'after',
          in: 'query',
          description: 'The `id` of a change, `meta.after` of a page, or `now`. Without it, all changes.',
          schema: { type: 'string' },
        },
        {
          name: 'Last-Event-ID',
          in: 'header',
          description: 'The same for `text/event-stream`. It takes precedence.',
          schema: { type: 'string' },
        },
      ],
      responses: {
        200: {
          description:
            'A page. As `application/x-ndjson`, the changes until now, and a last line with `meta`; as `text/event-stream`, also those to come.',
          content: {
            ...content('Changes'),
            'application/x-ndjson': { schema: { type: 'string' } },
            'text/event-stream': { schema: { type: 'string' } },
          },
        },
        ...errorResponses('BadQuery', 'NotAcceptable', 'Forbidden', ...LOGIN),
      },
    },
  },
  '/api/-/me': {
    get: {
      operationId: 'me',
      summary: 'Get who you are and what you may do',
      security: LOGINS,
      responses: {
        200: ok('Your record as you may read it, your roles, and what you may do.', 'Me'),
        ...errorResponses('BadQuery', 'NotAcceptable', ...LOGIN),
      },
    },
  },
  '/api/-/password': {
    post: {
      operationId: 'change_password',
      summary: 'Change your password, which ends your sessions of the admin area',
      security: WITH_PASSWORD,
      requestBody: requestBody(refTo('schemas', 'NewPassword')),
      responses: {
        204: { description: 'The password was changed.', headers: header(POSITION_HEADER) },
        ...errorResponses(...LOGIN, 'NotAcceptable', 'Forbidden', 'BadBody', 'TooLarge', 'Unsupported'),
      },
    },
  },
  '/api/-/tokens': {
    get: {
      operationId: 'list_tokens',
      summary: 'List your tokens, or as an admin the latest 1,000 of all users',
      security: WITH_PASSWORD,
      responses: {
        200: ok('The tokens, the latest first. Their texts are not shown.', 'Tokens'),
        ...errorResponses('BadQuery', 'NotAcceptable', 'Forbidden', ...LOGIN),
      },
    },
    post: {
      operationId: 'create_token',
      summary: 'Make a token',
      description: 'The response shows the token. It cannot be shown again.',
      security: WITH_PASSWORD,
      requestBody: requestBody(refTo('schemas', 'NewToken')),
      responses: {
        201: ok('The new token.', 'MadeToken', 'Location', POSITION_HEADER),
        ...errorResponses(...WRITE_ERRORS, 'NotAcceptable', 'TooLarge', 'Unsupported'),
      },
    },
  },
  '/api/-/tokens/{id}': {
    parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
    delete: {
      operationId: 'revoke_token',
      summary: 'Revoke a token of yours, or as an admin of any user',
      security: WITH_PASSWORD,
      responses: {
        200: ok('The token was revoked.', 'Deleted', POSITION_HEADER),
        ...errorResponses(...LOGIN, 'BadQuery', 'NotAcceptable', 'Forbidden', 'NotFound'),
      },
    },
  },
};
