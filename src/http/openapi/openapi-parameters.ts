import type { Operator, JsonSchema } from '../../db/types/column-type.ts';
import type { Column } from '../../db/schema/model.ts';
import type { View } from '../../query/plan.ts';
import type { ServedResource, ServedResources } from '../../resources/serve/served-resource.ts';
import { refer } from './openapi-shared.ts';

const severally = (items: JsonSchema): JsonSchema => ({ anyOf: [items, { type: 'array', items }] });

/** The values of filters, by the operator or the JSON type of the column. */
export const FILTER_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  'Filter.string': severally({ type: 'string' }),
  'Filter.integer': severally({ type: 'integer' }),
  'Filter.number': severally({ type: 'number' }),
  'Filter.digits': severally({ type: ['string', 'number'] }),
  'Filter.boolean': severally({ type: 'boolean' }),
  'Filter.pattern': { description: 'An SQL pattern.', ...severally({ type: 'string', maxLength: 256 }) },
  'Filter.in': { type: 'string', description: 'Values separated by commas, quoted as in CSV.' },
  'Filter.is': { type: 'string', enum: ['null', 'none'] },
  'Filter.isBoolean': { enum: ['null', 'none', 'true', 'false', true, false] },
};

function valueSchema(column: Column, operator: Operator): string {
  if (operator === 'in') return 'Filter.in';
  if (operator === 'like' || operator === 'ilike') return 'Filter.pattern';
  const { type = 'string' } = column.type.schema(column).body;
  if (operator === 'is') return type === 'boolean' ? 'Filter.isBoolean' : 'Filter.is';
  return Array.isArray(type) ? 'Filter.digits' : `Filter.${String(type)}`;
}

/** A parameter for each operator of the column; `eq` goes without its name. */
const filtersOf = (column: Column, path: string): [name: string, JsonSchema][] =>
  [...column.type.operators].map((operator) => [
    operator === 'eq' ? path : `${path}__${operator}`,
    refer('schemas', valueSchema(column, operator)),
  ]);

/** The filters of a collection: its own columns, and those of records that it refers to as far as the view reaches. */
function filters(resource: ServedResource, resources: ServedResources, view: View): Map<string, JsonSchema> {
  const related = resource.output.flatMap((column) => {
    const target =
      column.references && view.joinable(column.references) && resources.get(column.references.name);
    // The related record's key is the foreign key itself.
    const columns = target ? target.output.filter((one) => one !== target.model.primaryKey) : [];
    return columns.flatMap((one) => filtersOf(one, `${column.name}__${one.name}`));
  });
  const own = resource.output.flatMap((column) => filtersOf(column, column.name));
  // A column goes before an operator of the same name.
  return new Map([...own, ...related]);
}

const count = (most?: number): JsonSchema => ({
  type: 'integer',
  minimum: 1,
  ...(most ? { default: most } : {}),
});

/** The parameters of GET on a collection. */
export function listParameters(
  resource: ServedResource,
  resources: ServedResources,
  view: View,
): readonly JsonSchema[] {
  const sorted = resource.output.filter(({ type }) => !type.unordered).map(({ name }) => name);
  const [first = 'id'] = sorted.slice(1);
  const parameters = [...filters(resource, resources, view)].map(([name, schema]) => ({
    name,
    in: 'query',
    schema,
  }));
  return [
    {
      name: 'ordering',
      in: 'query',
      description: `Columns separated by commas, \`-\` in front of one for descending: ${sorted.join(', ')}, and those across foreign keys (\`user__username\`).`,
      schema: { type: 'string' },
      example: `-${first}`,
    },
    {
      name: 'limit',
      in: 'query',
      description: `Records on a page: ${resource.limit} without it, ${resource.maxLimit} at most.`,
      schema: count(),
    },
    { name: 'page', in: 'query', description: 'The number of the page.', schema: count() },
    refer('parameters', 'Prefer'),
    ...parameters,
    refer('parameters', '_filters'),
  ];
}

export const PARAMETERS: Readonly<Record<string, JsonSchema>> = {
  Prefer: {
    name: 'Prefer',
    in: 'header',
    description: '`count=exact` asks for `X-Total-Count`, at the price of counting.',
    schema: { type: 'string' },
    example: 'count=exact',
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description: 'The answer is 304 where the record is still in this state.',
    schema: { type: 'string' },
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description: 'The answer is 412 where the record is no longer in this state.',
    schema: { type: 'string' },
  },
  _filters: {
    name: '_filters',
    in: 'query',
    description:
      'Not a parameter of that name: any further filters, each as a parameter of its own. Negated ones, and those across more than one foreign key.',
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
