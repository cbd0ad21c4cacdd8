import { Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Column } from '../../db/schema/model.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { textOfField, type RecordEntry } from '../../resources/records/record-entry.ts';
import { isNamed, type Named } from '../../resources/records/look-up.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { PASSWORD_FIELDS, type Form } from '../web/form-data.ts';
import type { References } from './form-fields.ts';
import type { TypedValues } from './form-values.ts';
import { hiddenInputs, html, htmlInPieces, type Html } from '../web/html.ts';
import { pageReply, SAFE_HEADERS, type Crumb } from '../web/layout.ts';
import { Parameters } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';
import type { AdminRequest } from '../web/admin-request.ts';

/** Up to so many records a plain list to choose from will do. */
const MOST_OPTIONS = 100;
/** How many a search shows. */
const MOST_FOUND = 20;
/** Of so many that words find, one is looked for that is called just so. */
const MOST_COMPARED = 100;
/** Characters of a search: more can match nothing, and name no record. */
const LONGEST_WORDS = 1000;

const collator = new Intl.Collator('en', { sensitivity: 'base', numeric: true });

/** What is compared of a name: the collator takes quadratic time for long runs of combining marks. */
const compared = (label: string): string => label.slice(0, 100).replace(/(\p{M}{4})\p{M}+/gu, '$1');

/** Compares names in the order in which people look for them: `Part 2` before `part 10`. */
export const compare = (one: string, other: string): number =>
  collator.compare(compared(one), compared(other));

/** Fields that a page in between does not carry on: those that steer a form, and passwords. */
const DROPPED = new Set(['_csrf', '_lookup', '_find', '_choose', '_for', '_save', ...PASSWORD_FIELDS]);

export const relatedOf = ({ references }: Column, { resources }: AdminContext): AdminResource | undefined =>
  references && resources.get(references.name);

/** The record of a key; undefined where there is none. */
async function recordOf(
  context: AdminContext,
  resource: AdminResource,
  key: string,
): Promise<Named | undefined> {
  if (key === '') return undefined;
  const { entries } = await context.browsing.labels(resource, { query: 'limit=1', search: '', ids: [key] });
  return entries[0];
}

/** Whether a text is the key of a record, just as it is shown; `007` may well be a name. */
export const isRecordKey = async (
  context: AdminContext,
  resource: AdminResource,
  text: string,
): Promise<boolean> => (await recordOf(context, resource, text))?.id === text;

/**
 * The one record that words can only mean: it is called just so, or nothing else has them.
 * @param isExact whether it must be called just so
 */
export async function recordMeant(
  context: AdminContext,
  resource: AdminResource,
  words: string,
  isExact = false,
): Promise<Named | undefined> {
  if (words.length > LONGEST_WORDS) return undefined;
  const { entries, hasNext } = await context.browsing.lookUp(resource, words, MOST_COMPARED);
  const [same, other] = entries.filter(isNamed(words));
  if (same) return other ? undefined : same;
  return !isExact && !hasNext && entries.length === 1 ? entries[0] : undefined;
}

/**
 * What was typed, with keys in the place of words that can only mean one record.
 * @param stored what is left of it is not looked up
 */
export async function withKeys(
  context: AdminContext,
  typed: TypedValues,
  stored: RecordEntry | undefined,
): Promise<TypedValues> {
  const keyOf = async (column: Column, text: string): Promise<string> => {
    const related = relatedOf(column, context);
    if (!related || text === '' || (stored && textOfField(stored.members, column.key) === text)) return text;
    if (await isRecordKey(context, related, text)) return text;
    // It may be the key of a record that is gone by now: that must not become another one that only has it in its name.
    const isExact = column.type.parse(text, column).fault === undefined;
    return (await recordMeant(context, related, text, isExact))?.id ?? text;
  };
  return new Map(
    await Promise.all(
      [...typed].map(
        async ([column, value]) => [column, { ...value, text: await keyOf(column, value.text) }] as const,
      ),
    ),
  );
}

/** What each foreign key of a form can refer to, and what it refers to now. */
export async function referencesOf(
  context: AdminContext,
  typed: TypedValues,
): Promise<ReadonlyMap<Column, References>> {
  const lists = new Map<AdminResource, Promise<readonly Named[] | undefined>>();
  const optionsOf = (related: AdminResource): Promise<readonly Named[] | undefined> => {
    const query = `limit=${MOST_OPTIONS}`;
    const list =
      lists.get(related) ??
      context.browsing
        .labels(related, { query, search: '' })
        .then(({ entries, hasNext }) =>
          hasNext
            ? undefined
            : entries
                .toSorted((one, other) => compare(one.label, other.label))
                .map(({ id, label }) => ({ id, label: shortened(label) })),
        );
    lists.set(related, list);
    return list;
  };
  const found = await Promise.all(
    [...typed].map(async ([column, { text }]) => {
      const related = relatedOf(column, context);
      if (!related) return undefined;
      const options = await optionsOf(related);
      const chosen = options ? undefined : await recordOf(context, related, text);
      return [column, { options, label: chosen && shortened(chosen.label) }] as const;
    }),
  );
  return new Map(found.filter((one) => one !== undefined));
}

/** All that was typed, for a page in between. */
const carried = (form: Form): Promise<readonly Html[]> =>
  hiddenInputs(form.entries.filter(([name]) => !DROPPED.has(name)));

/**
 * A step between: the records that a foreign key may refer to, found by words; the choice comes back to the form. Words that stand
 * in the field are the first search.
 */
export async function showLookup(
  context: AdminContext,
  adminRequest: AdminRequest,
  column: Column,
  form: Form,
  crumbs: readonly Crumb[],
): Promise<Reply> {
  const related = relatedOf(column, context);
  if (!related) throw new Problem(400, 'This column refers to nothing.');
  const typed = (form.get(column.key) ?? '').trim();
  const given = form.get('_find') ?? ((await isRecordKey(context, related, typed)) ? '' : typed);
  const words = given.slice(0, LONGEST_WORDS).toWellFormed();
  const { entries, hasNext } = await context.browsing.lookUp(related, words, MOST_FOUND);
  const body = html`<form method="post" class="lookup" action="${adminRequest.request.path}">
    <input type="hidden" name="_csrf" value="${adminRequest.csrf}" />
    <input type="hidden" name="_for" value="${column.key}" />
    ${await carried(form)}
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
      <button class="secondary" name="_choose" value="${await htmlInPieces(form.get(column.key) ?? '')}">
        Back without choosing
      </button>
      ${column.nullable && html`<button class="secondary" name="_choose" value="">No value</button>`}
    </div>
  </form>`;
  return pageReply(adminRequest, {
    title: `${column.title}: choose from ${related.title}`,
    crumbs: [...crumbs, { text: column.title }],
    kind: 'form',
    body,
  });
}

/** Records that the words of `_search` can mean, as JSON for the script, and whether there are more. */
export async function lookUp(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
): Promise<Reply> {
  const search = Parameters.parse(adminRequest.request.query).get('_search') ?? '';
  const { entries, hasNext } = await context.browsing.lookUp(resource, search, MOST_FOUND);
  const records = entries.map(({ id, label }) => ({ id, label }));
  return {
    status: 200,
    headers: { ...SAFE_HEADERS, 'Content-Type': 'application/json; charset=utf-8' },
    body: JSON.stringify({ records, more: hasNext }),
  };
}
