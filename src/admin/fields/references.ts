// Foreign keys in forms: the records to choose from, the search for them, and resolving typed words to keys.
import { Problem } from '../../errors.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Column } from '../../db/schema/model.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { isNamed, type Found, type Named } from '../../resources/records/look-up.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import { PASSWORD_FIELDS, type Form } from '../web/form-data.ts';
import type { FieldState, FormField, References, TypedValues } from './form-field.ts';
import { arrayToText } from '../web/array-lines.ts';
import { hiddenInputs, html, htmlInPieces, PIECE, type Html } from '../web/html.ts';
import { pageReply, SAFE_HEADERS, type Crumb } from '../web/layout.ts';
import { LinkParameters } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';

/** Up to this many records, the field is a select; above, a search. */
const MAX_OPTIONS = 100;
/** Maximum results of a search. */
const MAX_RESULTS = 20;
/** Maximum results among which an exact label is looked for. */
const MAX_COMPARED = 100;
/** Maximum length of a search (characters). Longer words match no record. */
const LONGEST_WORDS = 1000;

const collator = new Intl.Collator('en', { sensitivity: 'base', numeric: true });

/** Shortens a label for the collator, which takes quadratic time for long runs of combining marks. */
const collationKey = (label: string): string => label.slice(0, 100).replace(/(\p{M}{4})\p{M}+/gu, '$1');

/** Compares labels in natural order: `Part 2` before `part 10`. */
export const compareLabels = (one: string, other: string): number =>
  collator.compare(collationKey(one), collationKey(other));

/** Fields that the search page does not carry on: buttons, tokens and passwords. */
const DROPPED_FIELDS = new Set([
  '_csrf',
  '_lookup',
  '_find',
  '_choose',
  '_for',
  '_save',
  '_preview',
  ...PASSWORD_FIELDS,
]);

export const relatedOf = ({ references }: Column, { resources }: AdminContext): AdminView | undefined =>
  references && resources.get(references.name);

/** Finds a record by its key. */
async function findRecord(
  context: AdminContext,
  resource: AdminView,
  key: string,
): Promise<Named | undefined> {
  if (key === '') return undefined;
  const { records } = await context.browsing.labels(resource, { query: 'limit=1', search: '', ids: [key] });
  return records[0];
}

/** Whether a text is exactly the key of a record. `007` is not the key 7; it may be a name. */
export const isRecordKey = async (
  context: AdminContext,
  resource: AdminView,
  text: string,
): Promise<boolean> => (await findRecord(context, resource, text))?.id === text;

/**
 * Whether a text may be the key of a deleted record. Then it must not mean another record that merely contains it in its label.
 */
const mayBeKey = ({ model: { primaryKey } }: AdminView, text: string): boolean =>
  primaryKey.type.parse(text, primaryKey).fault === undefined;

/**
 * The only record that a text can mean, of those that a search for it has found: the one with exactly this key, else the only one
 * with exactly this label, else the only match.
 * @param isExact whether only an exact key or label counts
 */
function matchAmong({ records, hasNext }: Found, text: string, isExact: boolean): Named | undefined {
  if (text.trim() === '' || text.length > LONGEST_WORDS) return undefined;
  const keyed = records.find(({ id }) => id === text);
  if (keyed) return keyed;
  const [same, other] = records.filter(isNamed(text));
  if (same) return other ? undefined : same;
  return !isExact && !hasNext && records.length === 1 ? records[0] : undefined;
}

/**
 * Finds the only record that the words can mean.
 * @param isExact whether only an exact key or label counts
 */
export async function recordMeant(
  context: AdminContext,
  resource: AdminView,
  words: string,
  isExact = false,
): Promise<Named | undefined> {
  if (words.length > LONGEST_WORDS) return undefined;
  return matchAmong(await context.browsing.lookUp(resource, words, MAX_COMPARED), words, isExact);
}

/**
 * Replaces typed words by the key of the record that they mean, if there is only one.
 * @param stored the stored record; its unchanged keys are not looked up
 */
export async function withKeys(
  context: AdminContext,
  typed: TypedValues,
  stored: LabeledRecord | undefined,
): Promise<TypedValues> {
  const keyOf = async (column: Column, text: string): Promise<string> => {
    const related = relatedOf(column, context);
    if (!related || text === '' || (stored && textOfField(stored.fields, column.key) === text)) return text;
    if (await isRecordKey(context, related, text)) return text;
    return (await recordMeant(context, related, text, mayBeKey(related, text)))?.id ?? text;
  };
  return new Map(
    await Promise.all(
      [...typed].map(
        async ([column, value]) => [column, { ...value, text: await keyOf(column, value.text) }] as const,
      ),
    ),
  );
}

/** The options or the current label for each foreign key of a form. The options of a model are read once. */
export async function referencesOf(
  context: AdminContext,
  typed: TypedValues,
): Promise<ReadonlyMap<Column, References>> {
  const lists = new Map<AdminView, Promise<readonly Named[] | undefined>>();
  const optionsOf = (related: AdminView): Promise<readonly Named[] | undefined> => {
    const query = `limit=${MAX_OPTIONS}`;
    const list =
      lists.get(related) ??
      context.browsing
        .labels(related, { query, search: '' })
        .then(({ records, hasNext }) =>
          hasNext
            ? undefined
            : records
                .toSorted((one, other) => compareLabels(one.label, other.label))
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
      const chosen = options ? undefined : await findRecord(context, related, text);
      return [column, { options, label: chosen && shortened(chosen.label) }] as const;
    }),
  );
  return new Map(found.filter((one) => one !== undefined));
}

/** The label of the record that a key refers to; undefined for an unknown key and for a column that refers to no records. */
export const labelIn = (references: References | undefined, key: string): string | undefined =>
  references?.label ?? references?.options?.find(({ id }) => id === key)?.label;

/** Escapes the long texts of a form in pieces: escaping 1 MB at once would block the event loop for up to 60 ms. */
export async function renderLongTexts(typed: TypedValues): Promise<ReadonlyMap<Column, Html>> {
  const rendered = new Map<Column, Html>();
  for (const [column, { text }] of typed)
    if (text.length > PIECE)
      rendered.set(column, await htmlInPieces(column.type.element ? arrayToText(text, column) : text));
  return rendered;
}

/** Loads what the fields of a form show beside their values. @returns a function that renders one of them */
export async function fieldRows(
  context: AdminContext,
  typed: TypedValues,
): Promise<(field: FormField, state?: FieldState) => Html | false> {
  const references = await referencesOf(context, typed);
  const longTexts = await renderLongTexts(typed);
  return (field, state) => {
    const { column } = field;
    const value = typed.get(column);
    const { images } = context.adminArea;
    const more = { references: references.get(column), longText: longTexts.get(column), images };
    return value !== undefined && field.render(value, { ...state, ...more });
  };
}

/** The form's values as hidden fields, so that the search page can return them. */
const carriedFields = (form: Form): Promise<readonly Html[]> =>
  hiddenInputs(form.entries.filter(([name]) => !DROPPED_FIELDS.has(name)));

/**
 * The search page for a foreign key, for browsers without the script. The choice returns to the form. Words in the field are the
 * first search.
 */
export async function showLookup(
  context: AdminContext,
  { column, name, label: title }: FormField,
  form: Form,
  crumbs: readonly Crumb[],
): Promise<Reply> {
  const related = relatedOf(column, context);
  if (!related) throw new Problem(400, `The column ${name} has no records to choose from.`);
  const typed = (form.get(name) ?? '').trim();
  const given = form.get('_find') ?? ((await isRecordKey(context, related, typed)) ? '' : typed);
  const words = given.slice(0, LONGEST_WORDS).toWellFormed();
  const { records, hasNext } = await context.browsing.lookUp(related, words, MAX_RESULTS);
  const body = html`<form method="post" class="lookup" action="${withBasePath(context.request.path)}">
    <input type="hidden" name="_csrf" value="${context.csrf}" />
    <input type="hidden" name="_for" value="${name}" />
    ${await carriedFields(form)}
    <div class="search">
      <label for="find">Search ${related.title}</label>
      <input type="search" id="find" name="_find" value="${words}" autofocus />
      <button class="secondary" name="_lookup" value="${name}">Search</button>
    </div>
    ${records.length === 0 && html`<p class="empty">No matching records${words !== '' && html` for “${words}”`}.</p>`}
    <ul class="choices">
      ${records.map(
        ({ id, label }) =>
          html`<li>
            <button name="_choose" value="${id}" class="choice">
              ${label} <span class="key">${id}</span>
            </button>
          </li>`,
      )}
    </ul>
    ${hasNext && html`<p class="hint">More records match. Enter more words.</p>`}
    <div class="buttons">
      <button class="secondary" name="_choose" value="${await htmlInPieces(form.get(name) ?? '')}">
        Cancel
      </button>
      ${column.nullable && html`<button class="secondary" name="_choose" value="">No value</button>`}
    </div>
  </form>`;
  return pageReply(context, {
    title: `${title}: choose from ${related.title}`,
    crumbs: [...crumbs, title],
    kind: 'form',
    body,
  });
}

/**
 * The records that match `_search`, as JSON for the script. `more` says whether further records match, and `match` is the key of
 * the record that a form with this text would save.
 */
export async function lookUp({ request, browsing, resource }: ResourceContext): Promise<Reply> {
  const search = LinkParameters.parse(request.query).get('_search') ?? '';
  const found = await browsing.lookUp(resource, search, MAX_RESULTS);
  const records = found.records.map(({ id, label }) => ({ id, label }));
  const match = matchAmong(found, search, mayBeKey(resource, search))?.id;
  return {
    status: 200,
    headers: { ...SAFE_HEADERS, 'Content-Type': 'application/json; charset=utf-8' },
    body: JSON.stringify({ records, more: found.hasNext, match }),
  };
}
