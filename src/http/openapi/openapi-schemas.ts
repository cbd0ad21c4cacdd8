// The JSON schemas of a resource: its records, pages of them, and the bodies of POST and PUT.
import type { JsonSchema } from '../../db/types/column-type.ts';
import { choicesOf, orNull } from '../../db/types/column-schemas.ts';
import { hasNaturalKey, humanize, isKeyPart, mayBeNull, type Column } from '../../db/schema/model.ts';
import type { ResourceView } from '../../resources/access/resource-view.ts';
import { refTo } from './openapi-shared.ts';

type Keywords = Record<string, unknown>;

const descriptionOf = (texts: readonly unknown[]): Keywords => {
  const description = texts.filter(Boolean).join(' ');
  return description === '' ? {} : { description };
};

const titleOf = ({ name, title }: Column): Keywords => (title === humanize(name) ? {} : { title });

const referenceOf = ({ references }: Column): string =>
  references ? `The \`id\` of a ${references.name}.` : '';

function outputSchema(column: Column): JsonSchema {
  const { output } = column.type.schema(column);
  const described = {
    ...output,
    ...titleOf(column),
    ...descriptionOf([column.help, referenceOf(column), output['description'], labelsOf(column)]),
  };
  return mayBeNull(column) ? orNull(described) : described;
}

/** The default as text: with the keyword `default`, type generators make the field required. */
const defaultOf = ({ initial }: Column): string =>
  initial === undefined ? '' : `Default: \`${JSON.stringify(initial)}\`.`;

/** What the choices mean, as people see them. */
const labelsOf = ({ choiceLabels }: Column): string =>
  choiceLabels ? `${[...choiceLabels].map(([value, label]) => `\`${value}\`: ${label}`).join(', ')}.` : '';

function bodySchema(column: Column, isNullable = column.nullable): JsonSchema {
  const { body } = column.type.schema(column);
  const choices = choicesOf(column.choices, body);
  const described = {
    ...body,
    ...titleOf(column),
    ...choices,
    ...descriptionOf([
      column.help,
      referenceOf(column),
      body['description'],
      choices['description'],
      labelsOf(column),
      defaultOf(column),
    ]),
  };
  return isNullable ? orNull(described) : described;
}

/** Whether a PUT may send NULL. Any column of a view may hold it, and the record can be sent back. */
const takesNull = ({ model, excluded }: ResourceView, column: Column): boolean =>
  column.nullable ||
  (!model.isTable && !column.isPassword && !excluded.has(column) && !isKeyPart(model, column));

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

/** Schema of a column that a body may contain without effect. */
const IGNORED = { description: 'Read-only: ignored in a body.' };

/** Whether a new record can leave the column out. */
const isOptional = ({ nullable, hasDefault, generated }: Column): boolean =>
  nullable || hasDefault || generated;

/**
 * The schemas of a resource: a record, a page, and the bodies of POST and PUT.
 * @param mayWrite whether the caller may write. The error of an incomplete POST names required columns even if they are
 * excluded, so the bodies list those. No schema lists any other excluded column.
 */
export function resourceSchemas(resource: ResourceView, mayWrite: boolean): [name: string, JsonSchema][] {
  const { name, model, output, formatted, excluded, readonly, owner, methods, settable } = resource;
  const key = model.primaryKey;
  const isIgnored = (column: Column): boolean => readonly.has(column) || column === owner;
  const isListed = (column: Column): boolean =>
    !excluded.has(column) ||
    (mayWrite &&
      methods.has('POST') &&
      settable.create.has(column) &&
      !isIgnored(column) &&
      !isOptional(column));
  const listed = model.columns.filter(isListed);
  const writable = listed.filter((column) => !isIgnored(column));
  const ignored = listed.filter(isIgnored).map((column): [string, JsonSchema] => [column.key, IGNORED]);
  const fields = writable.map((column): [string, JsonSchema] => [column.key, bodySchema(column)]);
  const sets = model.uniqueSets.filter((columns) => columns.every((column) => listed.includes(column)));
  const described = descriptionOf(
    sets.map(
      (columns) => `No two records have the same ${columns.map(({ key }) => `\`${key}\``).join(', ')}.`,
    ),
  );
  /** A key that the database does not generate, so POST must send it. */
  const naturalKey = hasNaturalKey(model) ? [key] : [];
  const record = examplesOf(formatted);
  const schemas: [string, JsonSchema][] = [
    [
      name,
      object(
        formatted.map((column) => [column.key, outputSchema(column)]),
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
          ['meta', refTo('schemas', 'Meta')],
          ['objects', { type: 'array', items: refTo('schemas', name) }],
        ],
        ['meta', 'objects'],
        { examples: [{ meta, objects: [record] }] },
      ),
    ]);
  }
  if (resource.hasCallers('POST')) {
    const keyFields = naturalKey.map((column): [string, JsonSchema] => [
      'id',
      { ...bodySchema(column), minLength: 1 },
    ]);
    const required = [...naturalKey, ...writable.filter((column) => !isOptional(column))];
    const inExample = [
      ...naturalKey,
      ...writable.filter((column) => !column.references || !isOptional(column)),
    ];
    schemas.push([
      `${name}.New`,
      object(
        [...keyFields, ...fields, ...ignored],
        required.map((column) => column.key),
        { ...described, additionalProperties: false, examples: [examplesOf(inExample)] },
      ),
    ]);
  }
  if (resource.hasCallers('PUT')) {
    const keyField: [string, JsonSchema] = [
      'id',
      { ...outputSchema(key), description: "Optional; must equal the record's key." },
    ];
    const changes = writable.map((column): [string, JsonSchema] => [
      column.key,
      bodySchema(column, takesNull(resource, column)),
    ]);
    const changeable = writable.filter((column) => !isKeyPart(model, column));
    const [first] = changeable;
    schemas.push([
      `${name}.Change`,
      object([keyField, ...changes, ...ignored], [], {
        ...described,
        additionalProperties: false,
        examples: [examplesOf(first ? [first] : [])],
      }),
    ]);
  }
  return schemas;
}
