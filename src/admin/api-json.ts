import type { Column } from '../db/model.ts';
import { textOfMember } from '../resources/browse.ts';
import { indentJson, parseMembers, splitValues } from '../resources/members.ts';
import type { ServedResource, ServedResources } from '../resources/served.ts';
import { html, type Content, type Html } from './html.ts';
import { apiLinks } from './api-links.ts';

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

/** A record on many lines, its keys as links to the records that they name. */
export function recordJson(
  source: string,
  resource: ServedResource,
  resources: ServedResources,
  depth = 0,
): Html {
  const members = parseMembers(source);
  const indent = '  '.repeat(depth + 1);
  const lines = resource.output.map((column, index): Content => {
    const value = indentJson(members.get(column.key)?.source ?? 'null', depth + 1);
    const text = textOfMember(members, column.key);
    const target = text === null ? undefined : targetOf(column, text, resource, resources);
    const shown = target === undefined ? value : html`<a href="${target}">${value}</a>`;
    return [index === 0 ? '\n' : ',\n', `${indent}${JSON.stringify(column.key)}: `, shown];
  });
  return html`{${lines}${`\n${'  '.repeat(depth)}`}}`;
}

/** The document of a collection, the records in it as they came. */
export function collectionJson(
  meta: { readonly page: bigint; readonly next: string; readonly previous: string },
  objects: string,
  resource: ServedResource,
  resources: ServedResources,
): Html {
  const address = (text: string): Content =>
    text === '' ? '""' : html`<a href="${text}">${JSON.stringify(text)}</a>`;
  const records = splitValues(objects).map((source, index): Content => [
    index === 0 ? '\n    ' : ',\n    ',
    recordJson(source, resource, resources, 2),
  ]);
  const before = `{\n  "meta": {\n    "model": ${JSON.stringify(resource.name)},\n    "page": ${meta.page},\n    "next": `;
  return html`${before}${address(meta.next)}${',\n    "previous": '}${address(meta.previous)}${'\n  },\n  "objects": ['}${records}${records.length > 0 && '\n  '}${']\n}'}`;
}
