// The OpenAPI 3.1 document of the resources, with only what the caller may see.
import { withBasePath } from '../message/base-path.ts';
import { createHash } from 'node:crypto';
import type { AccessLevel } from '../../config.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { JsonSchema } from '../../db/types/column-type.ts';
import {
  MAX_CHARACTERS,
  MAX_ELEMENTS,
  MAX_JSON_VALUES,
  MAX_PATTERNS,
} from '../../query/parse/query-budget.ts';
import { MAX_JOINED_TABLES } from '../../query/plan.ts';
import { accessOf, ANYONE, isOpen, meets, type Caller } from '../../resources/access/access.ts';
import { LazyMap, makeInTurns } from '../../resources/access/lazy-map.ts';
import {
  hasWriters,
  type ResourceView,
  type ResourceViews,
  type Views,
} from '../../resources/access/resource-view.ts';
import { FILTER_SCHEMAS, PARAMETERS } from './openapi-parameters.ts';
import { ACCOUNT_PATHS, describeResource, resourcePaths, SITE_PATHS } from './openapi-paths.ts';
import { resourceSchemas } from './openapi-schemas.ts';
import { HEADERS, RESPONSES, SHARED_SCHEMAS } from './openapi-shared.ts';

const SECURITY_SCHEMES: Readonly<Record<Exclude<AccessLevel, 'default'> | 'token', JsonSchema>> = {
  user: { type: 'http', scheme: 'basic', description: 'Name and password of an active user.' },
  admin: {
    type: 'http',
    scheme: 'basic',
    description: 'Name and password of an active user whose `admin` is true.',
  },
  token: {
    type: 'http',
    scheme: 'bearer',
    description: 'A token of an active user. It may do what its user may, within its scope.',
  },
};

/** The `description` of the document, in Markdown. */
const DESCRIPTION = `
This document describes what its caller may see. Send credentials to see what their user may see.

A slash at the end of a **path** is optional. \`HEAD\` works wherever \`GET\` does; \`OPTIONS\` answers 204 with \`Allow\`.

**Filters** are parameters \`[-]column[__column of the related record]…[__operator]\`. The document lists each column with
each operator that fits it, and the columns of related records one foreign key away. For other filters, see the
parameter \`_filters\`. The rules:

- a leading \`-\` negates a filter: it matches all other records, NULLs included;
- a path may follow up to four foreign keys; a foreign key can be named with or without \`_id\`;
- different parameters are combined with AND; a repeated parameter matches any of its values (with \`ne\` or negated: none).

\`in\` takes values separated by commas; a value with a comma or a double quote is quoted as in CSV. \`is\` takes \`null\`,
and for booleans also \`true\` and \`false\`. \`like\` and \`ilike\` take SQL patterns: \`%\` matches any text, \`_\` any character.
\`contains\` takes elements of an array, separated by commas as for \`in\`, or a JSON value.
A query can have at most ${MAX_PATTERNS} patterns with ${MAX_CHARACTERS} characters in total, look for at most
${MAX_JSON_VALUES} values in JSON and ${MAX_ELEMENTS} elements of arrays, and join at most ${MAX_JOINED_TABLES} tables.

A **body** is a JSON object, or a form whose field \`data\` holds one. The foreign key \`user\` is sent as \`user_id\`.
`.trim();

/** Whether the caller may write. */
const mayWrite = ({ allows }: ResourceView): boolean =>
  (['create', 'update', 'delete'] as const).some((action) => allows.has(action));

/**
 * Whether the document shows the resource: the caller may read it, or meets its read level and may write it, as without a GET or with
 * a token for writing alone.
 */
const isShown = (resource: ResourceView): boolean =>
  (resource.methods.has('GET') && resource.isReadable) ||
  (meets(resource.seenBy, resource.read) && mayWrite(resource));

/** The components of one kind that the text refers to: linters warn about others. */
const usedIn = (text: string, kind: string, components: JsonSchema): JsonSchema =>
  Object.fromEntries(
    Object.entries(components).filter(([name]) => text.includes(`"#/components/${kind}/${name}"`)),
  );

/** What the document says of each resource. */
const partsOf = (resources: ResourceViews) =>
  new LazyMap(resources, (resource) =>
    isShown(resource)
      ? [{ resource, paths: resourcePaths(resource), schemas: resourceSchemas(resource, mayWrite(resource)) }]
      : [],
  );

/** The OpenAPI document of the resources as one access sees them. @param hasUsers whether the service has users */
export function openApiDocument(
  resources: ResourceViews,
  hasUsers: boolean,
  parts = partsOf(resources),
): JsonSchema {
  const shown = [...parts.values()].flat();
  const paths = {
    ...SITE_PATHS,
    ...(hasUsers && ACCOUNT_PATHS),
    ...Object.fromEntries(shown.flatMap((part) => part.paths)),
  };
  const own = Object.fromEntries(shown.flatMap((part) => part.schemas));
  const text = JSON.stringify([paths, own, RESPONSES, SHARED_SCHEMAS]);
  return {
    openapi: '3.1.0',
    info: {
      title: 'API',
      version: '1',
      description: DESCRIPTION,
      license: { name: 'Not stated', identifier: 'NOASSERTION' },
    },
    // Clients append the paths, which begin with a slash.
    servers: [{ url: withBasePath('') }],
    tags: shown.map(({ resource }) => ({ name: resource.name, description: describeResource(resource) })),
    paths,
    components: {
      schemas: { ...usedIn(text, 'schemas', { ...SHARED_SCHEMAS, ...FILTER_SCHEMAS }), ...own },
      parameters: usedIn(text, 'parameters', PARAMETERS),
      headers: usedIn(text, 'headers', HEADERS),
      responses: usedIn(text, 'responses', RESPONSES),
      securitySchemes: Object.fromEntries(
        Object.entries(SECURITY_SCHEMES).filter(([name]) => text.includes(`{"${name}":[]}`)),
      ),
    },
  };
}

/** Documents that are kept: one has megabytes if there are hundreds of resources, and users choose the scopes of their tokens. */
const MAX_DOCUMENTS = 50;

/** Builds the documents of a service, one for each access, on demand, and caches them. */
export function createOpenApi(views: Views, hasUsers: boolean) {
  const cache = new Map<string, { readonly body: Buffer; readonly version: string }>();
  return {
    /** The encoded document and its version, which is a hash of the text. */
    async of(caller: Caller | undefined, yieldIfDue: YieldIfDue) {
      const access = accessOf(caller);
      const cached = cache.get(access.key);
      if (cached) return cached;
      const parts = partsOf(views(access));
      await makeInTurns(parts, yieldIfDue);
      const body = Buffer.from(JSON.stringify(openApiDocument(views(access), hasUsers, parts)));
      const version = createHash('sha256').update(body).digest('base64url').slice(0, 16);
      const text = { body, version };
      const [oldest] = cache.keys();
      if (cache.size >= MAX_DOCUMENTS && oldest !== undefined) cache.delete(oldest);
      cache.set(access.key, text);
      return text;
    },
    /** Whether the document depends on the caller. */
    needsCaller: [...views(ANYONE).values()].some(
      (resource) => !isOpen(resource.read) || resource.isPersonal || hasWriters(resource),
    ),
  };
}
