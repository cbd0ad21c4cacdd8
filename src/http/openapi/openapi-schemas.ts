import type { JsonSchema } from '../../db/types/column-type.ts';
import { humanize, type Column } from '../../db/schema/model.ts';
import type { ServedResource } from '../../resources/serve/served-resource.ts';
import { refer } from './openapi-shared.ts';

type Keywords = Record<string, unknown>;

const sentence = (texts: readonly unknown[]): Keywords => {
  const description = texts.filter(Boolean).join(' ');
  return description === '' ? {} : { description };
};

/** NULL as one more type, and as one more value where they are counted up. */
function orNull(schema: JsonSchema): JsonSchema {
  const { type, enum: values } = schema;
  return {
    ...schema,
    ...(type === undefined ? {} : { type: [type, 'null'].flat() }),
    ...(values === undefined ? {} : { enum: [...(values as unknown[]), null] }),
  };
}

const titleOf = ({ name, title }: Column): Keywords => (title === humanize(name) ? {} : { title });

const referenceOf = ({ references }: Column): string =>
  references ? `The \`id\` of a ${references.name}.` : '';

function outputSchema(column: Column): JsonSchema {
  const { output } = column.type.schema(column);
  const described = {
    ...output,
    ...titleOf(column),
    ...sentence([column.help, referenceOf(column), output['description']]),
  };
  return column.nullable ? orNull(described) : described;
}

/** The default as prose: the keyword makes generated types demand the member. */
const defaultOf = ({ initial }: Column): string =>
  initial === undefined ? '' : `Default: \`${JSON.stringify(initial)}\`.`;

/** Choices as an enumeration where a value is written in one way only; a decimal can be 1.5 and "1.50". */
function choicesOf({ choices }: Column, { type }: JsonSchema): Keywords {
  if (!choices) return {};
  return Array.isArray(type)
    ? { description: `One of ${choices.join(', ')}.` }
    : { enum: [...new Set(choices)] };
}

function bodySchema(column: Column): JsonSchema {
  const { body } = column.type.schema(column);
  const choices = choicesOf(column, body);
  const described = {
    ...body,
    ...titleOf(column),
    ...choices,
    ...sentence([
      column.help,
      referenceOf(column),
      body['description'],
      choices['description'],
      defaultOf(column),
    ]),
  };
  return column.nullable ? orNull(described) : described;
}

function exampleOf(column: Column): unknown {
  const { output, example } = column.type.schema(column);
  const [choice] = (column.choices ?? []) as readonly (string | number | boolean)[];
  if (choice === undefined) return example;
  return output['type'] === 'string' ? String(choice) : choice;
}

const object = (
  properties: readonly (readonly [string, JsonSchema])[],
  required: readonly string[],
  more: Keywords = {},
): JsonSchema => ({
  type: 'object',
  ...(required.length > 0 ? { required } : {}),
  properties: Object.fromEntries(properties),
  ...more,
});

const examplesOf = (columns: readonly Column[]): unknown =>
  Object.fromEntries(columns.map((column) => [column.key, exampleOf(column)]));

/** Columns that a body may have and that say nothing there. */
const IGNORED = { description: 'Read-only: ignored here.' };

/** A column whose value the database or the service knows when a new record leaves it out. */
const mayBeMissing = ({ nullable, hasDefault, generated }: Column): boolean =>
  nullable || hasDefault || generated;

/**
 * The schemas of a resource: a record, a page of them, a new record, a change.
 * @param mayWrite whether the caller may write: a POST tells them which columns a new record cannot do without, so the bodies
 * have those of them that the output leaves out; of any other excluded column nobody is told
 */
export function resourceSchemas(resource: ServedResource, mayWrite: boolean): [name: string, JsonSchema][] {
  const { name, model, output, excluded, readonly, owner, methods } = resource;
  const key = model.primaryKey;
  const isIgnored = (column: Column): boolean => readonly.has(column) || column === owner;
  const isTold = (column: Column): boolean =>
    !excluded.has(column) || (mayWrite && methods.has('POST') && !isIgnored(column) && !mayBeMissing(column));
  const shown = model.columns.filter(isTold);
  const written = shown.filter((column) => !isIgnored(column));
  const ignored = shown.filter(isIgnored).map((column): [string, JsonSchema] => [column.key, IGNORED]);
  const members = written.map((column): [string, JsonSchema] => [column.key, bodySchema(column)]);
  const naturalKey = key.hasDefault ? [] : [key];
  const record = examplesOf(output);
  const schemas: [string, JsonSchema][] = [
    [
      name,
      object(
        output.map((column) => [column.key, outputSchema(column)]),
        output.map((column) => column.key),
        { examples: [record] },
      ),
    ],
  ];
  if (methods.has('GET')) {
    const meta = { model: name, page: 1, next: '', previous: '' };
    schemas.push([
      `${name}.Page`,
      object(
        [
          ['meta', refer('schemas', 'Meta')],
          ['objects', { type: 'array', items: refer('schemas', name) }],
        ],
        ['meta', 'objects'],
        { examples: [{ meta, objects: [record] }] },
      ),
    ]);
  }
  if (resource.access === 'default') return schemas;
  if (methods.has('POST')) {
    const properties = naturalKey.map((column): [string, JsonSchema] => [
      'id',
      { ...bodySchema(column), minLength: 1 },
    ]);
    const required = [...naturalKey, ...written.filter((column) => !mayBeMissing(column))];
    const taken = [...naturalKey, ...written.filter((column) => !column.references || !mayBeMissing(column))];
    schemas.push([
      `${name}.New`,
      object(
        [...properties, ...members, ...ignored],
        required.map((column) => column.key),
        { additionalProperties: false, examples: [examplesOf(taken)] },
      ),
    ]);
  }
  if (methods.has('PUT')) {
    const own: [string, JsonSchema] = [
      'id',
      { ...outputSchema(key), description: "The record's own, or left out." },
    ];
    const [first] = written;
    schemas.push([
      `${name}.Change`,
      object([own, ...members, ...ignored], [], {
        additionalProperties: false,
        examples: [examplesOf(first ? [first] : [])],
      }),
    ]);
  }
  return schemas;
}
