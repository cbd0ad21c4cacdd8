import { Problem } from '../errors.ts';
import type { Reply } from '../http/message.ts';
import type { Column } from '../db/model.ts';
import type { AdminResource } from '../resources/admin.ts';
import type { Entry } from '../resources/browse.ts';
import type { Desk } from './desk.ts';
import type { Form } from './form-data.ts';
import type { References } from './form-fields.ts';
import type { TypedValues } from './form-values.ts';
import { html } from './html.ts';
import { pageReply, SAFE_HEADERS, type Crumb } from './layout.ts';
import { Parameters } from './links.ts';
import type { Visit } from './visit.ts';

/** Up to so many records a plain list to choose from will do. */
const MOST_OPTIONS = 100;
/** How many a search shows. */
const MOST_FOUND = 20;

/** Fields of a form that steer it, as against what was typed; passwords do not go back to the browser. */
const STEERING = new Set(['_csrf', '_lookup', '_find', '_choose', '_for', '_save', '_password', '_repeat']);

export const relatedOf = ({ references }: Column, { resources }: Desk): AdminResource | undefined =>
  references && resources.get(references.name);

/** What each foreign key of a form can refer to, and what it refers to now. */
export async function referencesOf(desk: Desk, typed: TypedValues): Promise<ReadonlyMap<Column, References>> {
  const lists = new Map<AdminResource, Promise<readonly Entry[] | undefined>>();
  const optionsOf = (related: AdminResource): Promise<readonly Entry[] | undefined> => {
    const query = `limit=${MOST_OPTIONS}`;
    const list =
      lists.get(related) ??
      desk.browsing
        .list(related, { query, search: '' })
        .then(({ entries, hasNext }) => (hasNext ? undefined : entries));
    lists.set(related, list);
    return list;
  };
  const labelOf = async (related: AdminResource, id: string): Promise<string | undefined> => {
    try {
      return id === '' ? undefined : (await desk.browsing.read(related, id)).label;
    } catch (error) {
      if (error instanceof Problem && error.status === 404) return undefined;
      throw error;
    }
  };
  const found = await Promise.all(
    [...typed].map(async ([column, { text }]) => {
      const related = relatedOf(column, desk);
      if (!related) return undefined;
      const options = await optionsOf(related);
      return [column, { options, label: options ? undefined : await labelOf(related, text) }] as const;
    }),
  );
  return new Map(found.filter((one) => one !== undefined));
}

/** All that was typed, for a page in between. */
const carried = (form: Form) =>
  form.entries
    .filter(([name]) => !STEERING.has(name))
    .map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`);

/** A step between: the records that a foreign key may refer to, found by words; the choice comes back to the form. */
export async function showLookup(
  desk: Desk,
  visit: Visit,
  column: Column,
  form: Form,
  crumbs: readonly Crumb[],
): Promise<Reply> {
  const related = relatedOf(column, desk);
  if (!related) throw new Problem(400, 'This column refers to nothing.');
  const words = form.get('_find') ?? '';
  const query = `limit=${MOST_FOUND}`;
  const { entries, hasNext } = await desk.browsing.list(related, { query, search: words });
  const body = html`<form method="post" class="lookup" action="${visit.request.path}">
    <input type="hidden" name="_csrf" value="${visit.csrf}" />
    <input type="hidden" name="_for" value="${column.key}" />
    ${carried(form)}
    <div class="search">
      <label for="find">Search ${related.title}</label>
      <input type="search" id="find" name="_find" value="${words}" autofocus />
      <button class="secondary" name="_lookup" value="${column.key}">Search</button>
    </div>
    ${entries.length === 0 && html`<p class="empty">Nothing fits “${words}”.</p>`}
    <ul class="choices">
      ${entries.map(
        ({ id, label }) =>
          html`<li>
            <button name="_choose" value="${id}" class="choice">
              ${label} <span class="key">${id}</span>
            </button>
          </li>`,
      )}
    </ul>
    ${hasNext && html`<p class="hint">There are more: give more words.</p>`}
    <div class="buttons">
      <button class="secondary" name="_choose" value="${form.get(column.key)}">Back without choosing</button>
      ${column.nullable && html`<button class="secondary" name="_choose" value="">No value</button>`}
    </div>
  </form>`;
  return pageReply(visit, {
    title: `${column.title}: choose from ${related.title}`,
    crumbs: [...crumbs, { text: column.title }],
    kind: 'form',
    body,
  });
}

/** Records whose names have the words of `_search`, as JSON for the script. */
export async function lookUp(desk: Desk, visit: Visit, resource: AdminResource): Promise<Reply> {
  const search = Parameters.parse(visit.request.query).get('_search') ?? '';
  const { entries } = await desk.browsing.list(resource, { query: `limit=${MOST_FOUND}`, search });
  const records = entries.map(({ id, label }) => ({ id, label }));
  return {
    status: 200,
    headers: { ...SAFE_HEADERS, 'Content-Type': 'application/json; charset=utf-8' },
    body: JSON.stringify({ records }),
  };
}
