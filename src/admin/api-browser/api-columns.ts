// Descriptions of a resource for the pages of the API: who may use it, and what its columns are.
import type { AccessLevel } from '../../config.ts';
import { ARRAY_TYPES } from '../../db/types/array-types.ts';
import { COLUMN_TYPES, KEY_TYPES } from '../../db/types/column-types.ts';
import { isKeyPart, namedColumns, type Column, type Model } from '../../db/schema/model.ts';
import {
  hasWriters,
  type ServedResource,
  type ServedResources,
} from '../../resources/serve/served-resource.ts';
import { apiLinks } from './api-links.ts';
import { textsOf } from '../fields/form-values.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { table } from '../web/widgets.ts';

const TYPE_NAMES = new Map<unknown, string>([
  ...[...Object.entries(KEY_TYPES), ...Object.entries(COLUMN_TYPES)].map(
    ([name, type]) => [type, name] as const,
  ),
  ...Object.entries(ARRAY_TYPES).map(([name, type]) => [type, `array of ${name}`] as const),
]);

const READERS: Readonly<Record<AccessLevel, string>> = { default: 'anyone', user: 'users', admin: 'admins' };
const WRITERS: Readonly<Record<AccessLevel, string>> = { default: 'no one', user: 'users', admin: 'admins' };

/**
 * Who may read and write, and with which methods.
 * @param namesOwner whether the caller may know the resource's columns
 */
export function accessSummary(resource: ServedResource, namesOwner = true): Html {
  const { read, access, owner, output, methods } = resource;
  const isWritable = hasWriters(resource);
  return html`<p>
    Readable by ${methods.has('GET') ? READERS[read] : 'no one'}, writable by
    ${isWritable ? WRITERS[access] : 'no one'}.${
      owner &&
      isWritable &&
      html` Only the owner${namesOwner && output.includes(owner) && html` (<code>${owner.key}</code>)`} can
      change or delete a record.`
    }
    Methods: ${[...methods].flatMap((method) => (method === 'PUT' ? ['PUT', 'PATCH'] : method)).join(', ')}.
  </p>`;
}

function typeOf(column: Column, visible: ServedResources): Content {
  const name = TYPE_NAMES.get(column.type) ?? 'text';
  const { references, parts } = column;
  if (!references) return name;
  const target = visible.has(references.name)
    ? html`<a href="${apiLinks.collection(references.name)}">${references.name}</a>`
    : references.name;
  if (parts) return html`the id of ${target}, by ${parts.map(({ key }) => key).join(', ')}`;
  return html`${name}, the id of ${target}`;
}

const isUnique = (column: Column, { wholeUniques }: Model): boolean =>
  wholeUniques.some(([first, ...others]) => first === column && others.length === 0);

/** Constraints and help of a column, as short phrases. */
function notesOf(column: Column, { readonly, owner, model }: ServedResource): Content {
  const limits = column.elementFacts ?? column;
  const options = textsOf(limits);
  const limitNotes = [
    column.elementFacts?.nullable === false && 'not null',
    options && `one of ${options.join(', ')}`,
    limits.maxLength !== undefined && !options && `at most ${limits.maxLength} characters`,
    limits.minLength !== undefined && `at least ${limits.minLength} characters`,
    limits.min !== undefined && `at least ${limits.min}`,
    limits.max !== undefined && `at most ${limits.max}`,
  ].filter(Boolean);
  const notes = [
    column.nullable && 'may be null',
    column !== model.primaryKey && readonly.has(column) && 'read-only',
    isKeyPart(model, column) && 'a part of the key',
    column === owner && 'set to the user who creates the record',
    column !== model.primaryKey && isUnique(column, model) && 'unique',
    ...(column.elementFacts
      ? [limitNotes.length > 0 && `each element: ${limitNotes.join(', ')}`]
      : limitNotes),
    column.help,
  ];
  return notes.filter(Boolean).join('; ');
}

/** The table of the columns that the API shows. */
export function columnTable(resource: ServedResource, visible: ServedResources): Html {
  const { name, model, output } = resource;
  const rows = namedColumns(model, output).map((column) => [
    html`<code>${column.key}</code>`,
    typeOf(column, visible),
    [...column.type.operators].join(', '),
    output.includes(column) ? notesOf(column, resource) : 'only in filters and orderings',
  ]);
  return table(['Column', 'Type', 'Filters', 'Notes'], rows, { caption: `Columns of ${name}` });
}
