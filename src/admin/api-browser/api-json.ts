// JSON of the API as HTML: indented, with links to the records that it names.
import type { PageLinks } from '../../http/api/page-links.ts';
import type { RecordPage } from '../../resources/records/api-listing.ts';
import { hasAddress } from '../../resources/records/checked-body.ts';
import { joinKey } from '../../db/schema/composite-key.ts';
import { partsOf, type Column, type Model } from '../../db/schema/model.ts';
import { LARGE_RECORD, textOfField } from '../../resources/records/labeled-record.ts';
import {
  indentJson,
  parseJsonFields,
  splitValues,
  type JsonFields,
} from '../../resources/records/json-fields.ts';
import { ANYONE } from '../../resources/access/access.ts';
import type { ResourceView, ResourceViews } from '../../resources/access/resource-view.ts';
import { html, htmlInPieces, type Content, type Html, nextTurn } from '../web/html.ts';
import { apiLinks } from './api-links.ts';

/** Milliseconds of formatting before other requests may run. */
const MAX_SLICE = 8;

/**
 * The foreign key that a column is, or is part of, and the key that it has in a record. It is null if a part is missing, or may
 * have a fraction of a second, which the output leaves out.
 */
function reference(column: Column, fields: JsonFields, { foreignKeys }: Model): [Column, string | null] {
  const whole = column.references ? undefined : foreignKeys.find((one) => partsOf(one).includes(column));
  if (!whole) return [column, textOfField(fields, column.key)];
  const texts = partsOf(whole).map((part) =>
    part.fractionalSecondDigits ? null : textOfField(fields, part.key),
  );
  const present = texts.filter((text) => text !== null);
  return [whole, present.length === texts.length ? joinKey(present) : null];
}

/**
 * Whether a page links to a resource: to all that the caller may read. Without credentials also to others, where browsers ask for
 * them.
 */
export const isLinked = ({ isReadable, methods, seenBy }: ResourceView): boolean =>
  isReadable || (seenBy.key === ANYONE.key && methods.has('GET'));

/** The link of a field's value: to the record itself, or to the record that a foreign key refers to. */
function targetOf(
  column: Column,
  fields: JsonFields,
  { name, model, all }: ResourceView,
): string | undefined {
  const [foreignKey, text] = reference(column, fields, model);
  if (text === null || !hasAddress(text)) return undefined;
  if (column === model.primaryKey) return apiLinks.record(name, text);
  const target = foreignKey.references && all.get(foreignKey.references.name);
  return target && isLinked(target) ? apiLinks.record(target.name, text) : undefined;
}

/** A record as indented JSON, with keys as links. A large record stays as it is: indenting it would block the event loop. */
export async function recordJsonHtml(source: string, resource: ResourceView, depth = 0): Promise<Html> {
  if (source.length > LARGE_RECORD) return htmlInPieces(source);
  const fields = parseJsonFields(source);
  const lines = resource.output.map((column, index): Content => {
    const value = indentJson(fields.get(column.key)?.source ?? 'null', depth + 1);
    const target = targetOf(column, fields, resource);
    return [
      `${index === 0 ? '' : ','}\n${'  '.repeat(depth + 1)}${JSON.stringify(column.key)}: `,
      target === undefined ? value : html`<a href="${target}">${value}</a>`,
    ];
  });
  return html`{${lines}${`\n${'  '.repeat(depth)}`}}`;
}

/** The document of a collection as indented JSON. Lets other requests run in between. */
export async function collectionJsonHtml(
  { page, objects }: RecordPage,
  { next, previous }: PageLinks,
  resource: ResourceView,
): Promise<Html> {
  const linkTo = (text: string): Content =>
    text === '' ? '""' : html`<a href="${text}">${JSON.stringify(text)}</a>`;
  const records: Content[] = [];
  let start = performance.now();
  for (const source of splitValues(String(Buffer.concat(objects)))) {
    const record = await recordJsonHtml(source, resource, 2);
    records.push(records.length === 0 ? '\n    ' : ',\n    ', record);
    if (performance.now() - start < MAX_SLICE) continue;
    await nextTurn();
    start = performance.now();
  }
  const opening = `{\n  "meta": {\n    "model": ${JSON.stringify(resource.name)},\n    "page": ${page},\n    "next": `;
  return html`${opening}${linkTo(next)}${',\n    "previous": '}${linkTo(previous)}${'\n  },\n  "objects": ['}${records}${records.length > 0 && '\n  '}${']\n}'}`;
}

/** The list of resources as indented JSON, with links to those that a GET can list. */
export function indexJsonHtml(source: string, resources: ResourceViews): Html {
  const isListed = (url: string): boolean => {
    const resource = resources.get(url.split('/').at(-2) ?? '');
    return resource !== undefined && isLinked(resource);
  };
  const parts = indentJson(source).split(/(?<="url": ")([^"]*)/);
  return html`${parts.map((part, index) => (index % 2 === 1 && isListed(part) ? html`<a href="${part}">${part}</a>` : part))}`;
}
