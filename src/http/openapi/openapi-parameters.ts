// The OpenAPI parameters of a collection: filters, ordering, paging, and the headers of requests.
import type { Operator, JsonSchema } from '../../db/types/column-type.ts';
import { namedColumns, type Column } from '../../db/schema/model.ts';
import { MAX_CHARACTERS } from '../../query/parse/query-budget.ts';
import type { ResourceView } from '../../resources/access/resource-view.ts';
import { POSITION_HEADER } from '../message/write-position.ts';
import { refTo } from './openapi-shared.ts';

/** A filter may be repeated, so its value is one item or an array. */
const repeatable = (items: JsonSchema): JsonSchema => ({ anyOf: [items, { type: 'array', items }] });

/** Schemas of filter values, named by the operator or by the JSON type of the column. */
export const FILTER_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  'Filter.string': repeatable({ type: 'string' }),
  'Filter.integer': repeatable({ type: 'integer' }),
  'Filter.number': repeatable({ type: 'number' }),
  'Filter.digits': repeatable({ type: ['string', 'number'] }),
  'Filter.boolean': repeatable({ type: 'boolean' }),
  'Filter.pattern': {
    description: 'An SQL pattern: `%` matches any text, `_` any character.',
    ...repeatable({ type: 'string', maxLength: MAX_CHARACTERS }),
  },
  'Filter.in': { type: 'string', description: 'Values separated by commas, quoted as in CSV.' },
  'Filter.array': {
    description: 'A JSON array such as `["a","b"]`.',
    ...repeatable({ type: 'string' }),
  },
  'Filter.contains': repeatable({
    type: 'string',
    description: 'The elements that the array must have, separated by commas, quoted as in CSV.',
  }),
  'Filter.json': repeatable({ type: 'string', description: 'A JSON value that the value must contain.' }),
  'Filter.is': { type: 'string', enum: ['null', 'none'] },
  'Filter.isBoolean': { enum: ['null', 'none', 'true', 'false', true, false] },
};

function valueSchema(column: Column, operator: Operator): string {
  if (operator === 'in') return 'Filter.in';
  if (operator === 'contains') return column.type.element ? 'Filter.contains' : 'Filter.json';
  if (operator === 'like' || operator === 'ilike') return 'Filter.pattern';
  const { type = 'string' } = column.type.schema(column).body;
  if (operator === 'is') return type === 'boolean' ? 'Filter.isBoolean' : 'Filter.is';
  return Array.isArray(type) ? 'Filter.digits' : `Filter.${String(type)}`;
}

/** One parameter for each operator of the column. `eq` is the bare name. */
const filtersOf = (column: Column, path: string): [name: string, JsonSchema][] =>
  [...column.type.operators].map((operator) => [
    operator === 'eq' ? path : `${path}__${operator}`,
    refTo('schemas', valueSchema(column, operator)),
  ]);

/** Filters by the resource's columns, and by columns one foreign key away in resources that the caller may read. */
function filtersByName(resource: ResourceView): Map<string, JsonSchema> {
  const { all, visibility } = resource;
  const named = namedColumns(resource.model, resource.output);
  const related = named.flatMap((column) => {
    const target =
      column.references && visibility.joinable(column.references) && all.get(column.references.name);
    // `user__id` would be the same filter as `user`.
    const columns = target ? target.output.filter((one) => one !== target.model.primaryKey) : [];
    return columns.flatMap((one) => filtersOf(one, `${column.name}__${one.name}`));
  });
  const own = named.flatMap((column) => filtersOf(column, column.name));
  // Later entries win: a related column named `in` takes precedence over the operator `in`.
  return new Map([...own, ...related]);
}

const POSITIVE_INTEGER: JsonSchema = { type: 'integer', minimum: 1 };

/** The parameters of GET on a collection. */
export function listParameters(resource: ResourceView): readonly JsonSchema[] {
  const sortable = namedColumns(resource.model, resource.output)
    .filter(({ type }) => !type.unordered)
    .map(({ name }) => name);
  // The key is the first, if there is one.
  const example = sortable[1] ?? sortable[0] ?? '';
  const parameters = [...filtersByName(resource)].map(([name, schema]) => ({
    name,
    in: 'query',
    schema,
  }));
  return [
    {
      name: 'ordering',
      in: 'query',
      description: `Columns separated by commas; a leading \`-\` sorts descending. Columns: ${sortable.join(', ')}, and those across foreign keys (\`user__username\`).`,
      schema: { type: 'string' },
      example: `-${example}`,
    },
    {
      name: 'limit',
      in: 'query',
      description: `Records per page: ${resource.limit} by default, ${resource.maxLimit} at most.`,
      schema: POSITIVE_INTEGER,
    },
    { name: 'page', in: 'query', description: 'Page number, starting at 1.', schema: POSITIVE_INTEGER },
    ...(resource.hasCursors ? [refTo('parameters', 'cursor')] : []),
    refTo('parameters', 'Prefer'),
    refTo('parameters', 'Position'),
    ...parameters,
    refTo('parameters', '_filters'),
  ];
}

export const PARAMETERS: Readonly<Record<string, JsonSchema>> = {
  cursor: {
    name: 'cursor',
    in: 'query',
    description: 'A place in the list, from a link of an earlier response. It replaces `page`.',
    schema: { type: 'string' },
  },
  Prefer: {
    name: 'Prefer',
    in: 'header',
    description:
      '`count=exact` adds the total as `X-Total-Count`, which takes time on a large table; `count=capped` counts up to a limit, and `count=estimated` is inexact for many records. `paging=cursor` adds cursors instead of page numbers to the links; `paging=none` outputs all records that match the filters as `text/csv`.',
    schema: { type: 'string' },
    example: 'count=exact',
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description: 'The `ETag` of an earlier response. If nothing has changed since, the response is 304.',
    schema: { type: 'string' },
  },
  IfNoneMatchAny: {
    name: 'If-None-Match',
    in: 'header',
    description: '`*` creates the record; if there is one already, the response is 412.',
    schema: { type: 'string', enum: ['*'] },
  },
  PreferReturn: {
    name: 'Prefer',
    in: 'header',
    description:
      '`return=minimal` returns only the keys of several new records. `handling=strict` makes read-only fields errors.',
    schema: { type: 'string', examples: ['return=minimal'] },
  },
  PreferHandling: {
    name: 'Prefer',
    in: 'header',
    description: '`handling=strict` makes read-only fields errors. Without it, they are ignored.',
    schema: { type: 'string', examples: ['handling=strict'] },
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description: 'The `ETag` of an earlier response. If the record has changed since, the response is 412.',
    schema: { type: 'string' },
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'A key that you choose for this request. If you repeat the request with it within 24 hours, nothing is written again, and the response is the same.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[ -~]+$' },
  },
  Position: {
    name: POSITION_HEADER,
    in: 'header',
    description:
      'The same header of the response to an earlier write. With replicas, only it makes sure that the response has this write.',
    schema: { type: 'string' },
  },
  _filters: {
    name: '_filters',
    in: 'query',
    description:
      'Any other filters, each sent as its own parameter: negated filters, and filters across more than one foreign key.',
    style: 'form',
    explode: true,
    schema: {
      type: 'object',
      propertyNames: { pattern: '^-?[A-Za-z][A-Za-z0-9_]*$' },
      additionalProperties: { type: 'string' },
    },
    example: { '-id': '1' },
  },
};
