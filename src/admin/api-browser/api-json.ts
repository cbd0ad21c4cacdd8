// JSON of the API as HTML: indented, with links to the records that it names.
import { hasAddress } from '../../resources/records/checked-body.ts';
import { joinKey } from '../../db/schema/composite-key.ts';
import { partsOf, type Column, type Model } from '../../db/schema/model.ts';
import { sizeKey } from '../../query/entries/preview-sql.ts';
import { textOfField } from '../../resources/records/record-entry.ts';
import {
  indentJson,
  parseJsonFields,
  splitValues,
  type JsonFields,
} from '../../resources/records/json-fields.ts';
import type { ServedResource, ServedResources } from '../../resources/serve/served-resource.ts';
import { html, type Content, type Html, nextTurn } from '../web/html.ts';
import { apiLinks } from './api-links.ts';
import { grouped } from '../web/display-text.ts';

/** Milliseconds of formatting before other requests may run. */
const MAX_SLICE = 8;

/**
 * The foreign key that a column is, or is part of, and the key that it has in a record. It is null if a part is missing, or may
 * have a fraction of a second, which the output leaves out.
 */
function reference(column: Column, fields: JsonFields, { foreignKeys }: Model): [Column, string | null] {
  const whole = column.references ? undefined : foreignKeys.find((one) => partsOf(one).includes(column));
  if (!whole) return [column, textOfField(fields, column.key)];
  const isWhole = (part: Column): boolean =>
    fields.has(part.key) && !fields.has(sizeKey(part)) && !part.fractionalSecondDigits;
  const texts = partsOf(whole).map((part) => (isWhole(part) ? textOfField(fields, part.key) : null));
  const present = texts.filter((text) => text !== null);
  return [whole, present.length === texts.length ? joinKey(present) : null];
}

/** The link of a field's value: to the record itself, or to the record that a foreign key refers to. */
function targetOf(
  column: Column,
  fields: JsonFields,
  { name, model }: ServedResource,
  resources: ServedResources,
): string | undefined {
  const [foreignKey, text] = reference(column, fields, model);
  if (text === null || !hasAddress(text)) return undefined;
  if (column === model.primaryKey) return apiLinks.record(name, text);
  const target = foreignKey.references && resources.get(foreignKey.references.name);
  return target?.methods.has('GET') ? apiLinks.record(target.name, text) : undefined;
}

/** The beginning of a long value and a link to all of it. A closing quote would make it look complete. */
function truncatedValue(
  column: Column,
  size: string,
  fields: JsonFields,
  { name, model }: ServedResource,
): Content {
  const text = textOfField(fields, column.key) ?? '';
  const beginning = column.type.json === 'bare' ? text : JSON.stringify(text).slice(0, -1);
  const remark = `truncated: ${grouped(Number(size))} bytes in total`;
  const id = textOfField(fields, model.primaryKey.key);
  const hasLink = id !== null && hasAddress(id) && !fields.has(sizeKey(model.primaryKey));
  return [beginning, '… ', hasLink ? html`<a href="${apiLinks.recordJson(name, id)}">${remark}</a>` : remark];
}

function shownValue(
  column: Column,
  fields: JsonFields,
  resource: ServedResource,
  resources: ServedResources,
  depth: number,
): Content {
  const size = fields.get(sizeKey(column))?.source;
  if (size !== undefined) return truncatedValue(column, size, fields, resource);
  const value = indentJson(fields.get(column.key)?.source ?? 'null', depth);
  const target = targetOf(column, fields, resource, resources);
  return target === undefined ? value : html`<a href="${target}">${value}</a>`;
}

/**
 * A record as indented JSON, with keys as links.
 * @param source JSON from `Listing.preview` or of a page, where PostgreSQL has truncated long values
 */
export function recordJsonHtml(
  source: string,
  resource: ServedResource,
  resources: ServedResources,
  depth = 0,
): Html {
  const fields = parseJsonFields(source);
  const indent = '  '.repeat(depth + 1);
  const lines = resource.output.map((column, index): Content => {
    const value = shownValue(column, fields, resource, resources, depth + 1);
    return [index === 0 ? '\n' : ',\n', `${indent}${JSON.stringify(column.key)}: `, value];
  });
  return html`{${lines}${`\n${'  '.repeat(depth)}`}}`;
}

/** The document of a collection as indented JSON. Lets other requests run in between. */
export async function collectionJson(
  meta: { readonly page: bigint; readonly next: string; readonly previous: string },
  objects: string,
  resource: ServedResource,
  resources: ServedResources,
): Promise<Html> {
  const linkTo = (text: string): Content =>
    text === '' ? '""' : html`<a href="${text}">${JSON.stringify(text)}</a>`;
  const records: Content[] = [];
  let start = performance.now();
  for (const source of splitValues(objects)) {
    const record = recordJsonHtml(source, resource, resources, 2);
    records.push(records.length === 0 ? '\n    ' : ',\n    ', record);
    if (performance.now() - start < MAX_SLICE) continue;
    await nextTurn();
    start = performance.now();
  }
  const opening = `{\n  "meta": {\n    "model": ${JSON.stringify(resource.name)},\n    "page": ${meta.page},\n    "next": `;
  return html`${opening}${linkTo(meta.next)}${',\n    "previous": '}${linkTo(meta.previous)}${'\n  },\n  "objects": ['}${records}${records.length > 0 && '\n  '}${']\n}'}`;
}
