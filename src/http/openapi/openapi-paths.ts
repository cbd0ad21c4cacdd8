import type { AccessLevel } from '../../config.ts';
import type { JsonSchema } from '../../db/types/column-type.ts';
import type { View } from '../../query/plan.ts';
import type { ServedResource, ServedResources } from '../../resources/serve/served-resource.ts';
import { listParameters } from './openapi-parameters.ts';
import { errorResponses, refer } from './openapi-shared.ts';

const content = (name: string): JsonSchema => ({ 'application/json': { schema: refer('schemas', name) } });
const header = (...names: readonly string[]): JsonSchema =>
  Object.fromEntries(names.map((name) => [name, refer('headers', name)]));

const ok = (description: string, name: string, ...headers: readonly string[]): JsonSchema => ({
  description,
  ...(headers.length > 0 ? { headers: header(...headers) } : {}),
  content: content(name),
});

/** @param mayLogIn whether credentials that are not needed make a difference */
const security = (level: AccessLevel, mayLogIn = false): JsonSchema[] => {
  if (level !== 'default') return [{ [level]: [] }];
  return mayLogIn ? [{}, { user: [] }] : [];
};

const LOGIN = ['Unauthorized', 'Throttled'];
/** What a read at the level may be refused with. */
const readErrors = (level: AccessLevel): string[] => [
  ...(level === 'default' ? [] : LOGIN),
  ...(level === 'admin' ? ['Forbidden'] : []),
];
const WRITE_ERRORS = [...LOGIN, 'Forbidden', 'BadBody', 'Conflict'];

/** The body as JSON, and as the text of a form's field. */
function requestBody(name: string): JsonSchema {
  const schema = refer('schemas', name);
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
      'application/json': { schema },
      'application/x-www-form-urlencoded': form,
      'multipart/form-data': form,
    },
  };
}

/** What a collection comes as beside JSON, for a client that asks for it by `Accept`. */
const FURTHER_FORMS: JsonSchema = {
  'text/csv': { schema: { type: 'string' } },
  'application/x-ndjson': { schema: { type: 'string' } },
};

/** Whether a filter may reach into a resource that not everyone may read. */
const mayReachFurther = ({ output }: ServedResource, resources: ServedResources): boolean =>
  output.some(({ references }) => {
    const target = references && resources.get(references.name);
    return target !== undefined && target.read !== 'default';
  });

const LEVELS: Readonly<Record<AccessLevel, string>> = {
  default: 'anyone',
  user: 'users',
  admin: 'admins',
};

/** One sentence about who may do what. */
export function describeResource({ name, read, access, methods, owner }: ServedResource): string {
  const writer = access === 'default' ? 'nobody' : LEVELS[access];
  const reads = methods.has('GET') ? `Read by ${LEVELS[read]}` : 'Not read';
  const owned = owner ? ` Whoever creates a ${name} owns it; only the owner may change or delete it.` : '';
  return `${reads}, written by ${writer}.${owned}`;
}

/** The two paths of a resource. */
export function resourcePaths(
  resource: ServedResource,
  resources: ServedResources,
  view: View,
): [path: string, item: JsonSchema][] {
  const { name, model, read, access, methods } = resource;
  const mayLogIn = read === 'default' && mayReachFurther(resource, resources);
  const writable = access !== 'default';
  const operation = (verb: string, summary: string, level: AccessLevel, rest: JsonSchema): JsonSchema => ({
    tags: [name],
    operationId: `${verb}_${name}`,
    summary,
    security: security(level, verb === 'list' && mayLogIn),
    ...rest,
  });
  const { output: key } = model.primaryKey.type.schema(model.primaryKey);
  const collection: Record<string, JsonSchema> = {};
  const record: Record<string, JsonSchema> = {};
  if (methods.has('GET')) {
    const login = mayLogIn ? LOGIN : readErrors(read);
    collection['get'] = operation('list', `One page of records of ${name}`, read, {
      parameters: listParameters(resource, resources, view),
      responses: {
        200: {
          description: 'The page; as a stream of lines, all records that the filters match.',
          headers: header('X-Total-Count', 'Preference-Applied'),
          content: { ...content(`${name}.Page`), ...FURTHER_FORMS },
        },
        ...errorResponses('BadQuery', 'NotAcceptable', 'TooLong', ...login),
      },
    });
    record['get'] = operation('get', `One record of ${name}`, read, {
      parameters: [refer('parameters', 'IfNoneMatch')],
      responses: {
        200: ok('The record.', name, 'ETag'),
        304: { description: 'The record is still in the state that was named.', headers: header('ETag') },
        ...errorResponses('BadQuery', 'NotFound', 'NotAcceptable', ...readErrors(read)),
      },
    });
  }
  if (methods.has('POST') && writable) {
    collection['post'] = operation('create', `Create a record of ${name}`, access, {
      requestBody: requestBody(`${name}.New`),
      responses: {
        201: ok('The new record.', name, 'Location', 'ETag'),
        ...errorResponses(...WRITE_ERRORS, 'TooLarge', 'Unsupported'),
      },
    });
  }
  if (methods.has('PUT') && writable) {
    record['put'] = operation('update', `Change a record of ${name}`, access, {
      description: 'Fields that are not sent keep their values.',
      parameters: [refer('parameters', 'IfMatch')],
      requestBody: requestBody(`${name}.Change`),
      responses: {
        200: ok('The changed record.', name, 'ETag'),
        ...errorResponses(...WRITE_ERRORS, 'NotFound', 'Changed', 'TooLarge', 'Unsupported'),
      },
    });
  }
  if (methods.has('DELETE') && writable) {
    record['delete'] = operation('delete', `Delete a record of ${name}`, access, {
      parameters: [refer('parameters', 'IfMatch')],
      responses: {
        200: ok('The record is gone.', 'Deleted'),
        ...errorResponses(...LOGIN, 'BadQuery', 'Forbidden', 'Conflict', 'NotFound', 'Changed'),
      },
    });
  }
  const paths: [string, JsonSchema][] = [];
  if (Object.keys(collection).length > 0) paths.push([`/api/${name}`, collection]);
  if (Object.keys(record).length > 0) {
    const id = { name: 'id', in: 'path', required: true, description: 'Percent-encoded.', schema: key };
    paths.push([`/api/${name}/{id}`, { parameters: [id], ...record }]);
  }
  return paths;
}

const plain = (operationId: string, summary: string, name: string, ...errors: string[]): JsonSchema => ({
  get: {
    operationId,
    summary,
    security: [],
    responses: { 200: ok('The answer.', name), ...errorResponses(...errors) },
  },
});

/** The paths beside those of the resources. */
export const SITE_PATHS: JsonSchema = {
  '/api': plain(
    'index',
    'The resources: names, paths, levels and methods',
    'Index',
    'BadQuery',
    'NotAcceptable',
  ),
  '/api/openapi.json': {
    get: {
      operationId: 'openapi',
      summary: 'This document',
      security: [{}, { user: [] }],
      responses: {
        200: {
          description: 'What the caller may see.',
          headers: header('ETag'),
          content: { 'application/json': { schema: { type: 'object' } } },
        },
        304: { description: 'The document is still the one that was named.', headers: header('ETag') },
        ...errorResponses('BadQuery', ...LOGIN),
      },
    },
  },
  '/healthz': plain('health', 'Whether the process lives', 'Status'),
  '/readyz': plain('ready', 'Whether the service can serve', 'Status'),
};
