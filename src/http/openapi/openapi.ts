import { createHash } from 'node:crypto';
import type { AccessLevel } from '../../config.ts';
import type { JsonSchema } from '../../db/types/column-type.ts';
import {
  viewOf,
  type Caller,
  type ServedResource,
  type ServedResources,
} from '../../resources/serve/served-resource.ts';
import { FILTER_SCHEMAS, PARAMETERS } from './openapi-parameters.ts';
import { describeResource, resourcePaths, SITE_PATHS } from './openapi-paths.ts';
import { resourceSchemas } from './openapi-schemas.ts';
import { DESCRIPTION, HEADERS, RESPONSES, SHARED_SCHEMAS, SECURITY_SCHEMES } from './openapi-shared.ts';

const RANK: readonly AccessLevel[] = ['default', 'user', 'admin'];

type MayDo = (level: AccessLevel) => boolean;

/** Whether the document has the resource: whoever may not read it, or not write what only takes writes, sees nothing of it. */
function isShown({ methods, read, access }: ServedResource, may: MayDo): boolean {
  if (methods.has('GET')) return may(read);
  return access !== 'default' && may(read) && may(access);
}

/** The parts of a map that the rest of the document refers to, directly or through one another. */
function used(parts: JsonSchema, kind: string, text: string): JsonSchema {
  const refers = (where: string, name: string): boolean => where.includes(`"#/components/${kind}/${name}"`);
  let found: Record<string, unknown> = {};
  for (let size = -1; size < Object.keys(found).length;) {
    size = Object.keys(found).length;
    const all = text + JSON.stringify(found);
    found = Object.fromEntries(Object.entries(parts).filter(([name]) => refers(all, name)));
  }
  return found;
}

/**
 * The OpenAPI document of the resources.
 * @param level what the caller meets: `default` is nobody
 */
export function openApiDocument(resources: ServedResources, level: AccessLevel): JsonSchema {
  const may: MayDo = (needed) => RANK.indexOf(needed) <= RANK.indexOf(level);
  const view = viewOf(resources, may);
  const shown = [...resources.values()].filter((resource) => isShown(resource, may));
  const writes = ({ access }: ServedResource): boolean => access !== 'default' && may(access);
  const paths = {
    ...SITE_PATHS,
    ...Object.fromEntries(shown.flatMap((resource) => resourcePaths(resource, resources, view))),
  };
  const own = Object.fromEntries(shown.flatMap((resource) => resourceSchemas(resource, writes(resource))));
  const text = JSON.stringify([paths, own, RESPONSES]);
  return {
    openapi: '3.1.0',
    info: {
      title: 'API',
      version: '1',
      description: DESCRIPTION,
      license: { name: 'Not stated', identifier: 'NOASSERTION' },
    },
    servers: [{ url: '/' }],
    tags: shown.map((resource) => ({ name: resource.name, description: describeResource(resource) })),
    paths,
    components: {
      schemas: { ...used({ ...SHARED_SCHEMAS, ...FILTER_SCHEMAS }, 'schemas', text), ...own },
      parameters: used(PARAMETERS, 'parameters', text),
      headers: used(HEADERS, 'headers', text),
      responses: used(RESPONSES, 'responses', text),
      securitySchemes: Object.fromEntries(
        Object.entries(SECURITY_SCHEMES).filter(([name]) => text.includes(`{"${name}":[]}`)),
      ),
    },
  };
}

/** The document as it is sent, and the version of its text. */
export interface OpenApiText {
  readonly body: string;
  readonly version: string;
}

/** The documents of a service: there are as many as levels, each made when it is asked for and kept. */
export function createOpenApi(resources: ServedResources): {
  readonly of: (caller: Caller | undefined) => OpenApiText;
  /** Whether credentials can make a difference. */
  readonly needsCaller: boolean;
} {
  const made = new Map<AccessLevel, OpenApiText>();
  return {
    of(caller) {
      const level = caller === undefined ? 'default' : caller.admin ? 'admin' : 'user';
      const known = made.get(level);
      if (known) return known;
      const body = JSON.stringify(openApiDocument(resources, level));
      const version = createHash('sha256').update(body).digest('base64url').slice(0, 16);
      const text = { body, version };
      made.set(level, text);
      return text;
    },
    needsCaller: [...resources.values()].some(
      ({ read, access }) => read !== 'default' || access !== 'default',
    ),
  };
}
