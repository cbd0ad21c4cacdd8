import { setImmediate } from 'node:timers/promises';
import type { Column } from '../../db/schema/model.ts';
import { sizeKey } from '../../query/statements/preview-sql.ts';
import { textOfField } from '../../resources/records/record-entry.ts';
import {
  indentJson,
  parseJsonFields,
  splitValues,
  type JsonFields,
} from '../../resources/records/json-fields.ts';
import type { ServedResource, ServedResources } from '../../resources/serve/served-resource.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { apiLinks } from './api-links.ts';
import { grouped } from '../web/display-text.ts';

/** Milliseconds after which other requests are served before the next record. */
const TURN = 8;

/** Where a member's value leads: the record itself, or the one that a foreign key refers to. */
function targetOf(
  column: Column,
  text: string,
  { name, model }: ServedResource,
  resources: ServedResources,
): string | undefined {
  if (text === '') return undefined; // no address names a record with such a key
  if (column === model.primaryKey) return apiLinks.record(name, text);
  const target = column.references && resources.get(column.references.name);
  return target?.methods.has('GET') ? apiLinks.record(target.name, text) : undefined;
}

/** The beginning of a long value, without the quote that would make it look complete, and the way to the rest. */
function cutValue(
  column: Column,
  size: string,
  members: JsonFields,
  { name, model }: ServedResource,
): Content {
  const text = textOfField(members, column.key) ?? '';
  const beginning = column.type.json === 'bare' ? text : JSON.stringify(text).slice(0, -1);
  const remark = `cut: ${grouped(Number(size))} bytes in full`;
  const id = textOfField(members, model.primaryKey.key);
  const isNamed = id !== null && id !== '' && !members.has(sizeKey(model.primaryKey));
  return [beginning, '… ', isNamed ? html`<a href="${apiLinks.recordJson(name, id)}">${remark}</a>` : remark];
}

function shownValue(
  column: Column,
  members: JsonFields,
  resource: ServedResource,
  resources: ServedResources,
  depth: number,
): Content {
  const size = members.get(sizeKey(column))?.source;
  if (size !== undefined) return cutValue(column, size, members, resource);
  const value = indentJson(members.get(column.key)?.source ?? 'null', depth);
  const text = textOfField(members, column.key);
  const target = text === null ? undefined : targetOf(column, text, resource, resources);
  return target === undefined ? value : html`<a href="${target}">${value}</a>`;
}

/**
 * A record on many lines, its keys as links to the records that they name.
 * @param source its JSON, with long values cut by `preview`
 */
export function recordJson(
  source: string,
  resource: ServedResource,
  resources: ServedResources,
  depth = 0,
): Html {
  const members = parseJsonFields(source);
  const indent = '  '.repeat(depth + 1);
  const lines = resource.output.map((column, index): Content => {
    const value = shownValue(column, members, resource, resources, depth + 1);
    return [index === 0 ? '\n' : ',\n', `${indent}${JSON.stringify(column.key)}: `, value];
  });
  return html`{${lines}${`\n${'  '.repeat(depth)}`}}`;
}

/** The document of a collection, the records in it as they came. Other requests are served in between. */
export async function collectionJson(
  meta: { readonly page: bigint; readonly next: string; readonly previous: string },
  objects: string,
  resource: ServedResource,
  resources: ServedResources,
): Promise<Html> {
  const address = (text: string): Content =>
    text === '' ? '""' : html`<a href="${text}">${JSON.stringify(text)}</a>`;
  const records: Content[] = [];
  let start = performance.now();
  for (const source of splitValues(objects)) {
    const record = recordJson(source, resource, resources, 2);
    records.push(records.length === 0 ? '\n    ' : ',\n    ', record);
    if (performance.now() - start < TURN) continue;
    await setImmediate();
    start = performance.now();
  }
  const before = `{\n  "meta": {\n    "model": ${JSON.stringify(resource.name)},\n    "page": ${meta.page},\n    "next": `;
  return html`${before}${address(meta.next)}${',\n    "previous": '}${address(meta.previous)}${'\n  },\n  "objects": ['}${records}${records.length > 0 && '\n  '}${']\n}'}`;
}
