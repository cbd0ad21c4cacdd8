// Foreign keys in forms: the records to choose from, the search for them, and resolving typed words to keys.
import { Problem, type FieldErrors } from '../../errors.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Column } from '../../db/schema/model.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { hasAddress } from '../../resources/records/checked-body.ts';
import { keyIn, textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { isNamed, type Found, type Named } from '../../resources/records/look-up.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import { PASSWORD_FIELDS, type Form } from '../web/form-data.ts';
import { shownTyped, type FormField, type References, type TypedValues } from './form-field.ts';
import { hiddenInputs, html, htmlInPieces, PIECE, type Html } from '../web/html.ts';
import { pageReply, SAFE_HEADERS, type Crumb } from '../web/layout.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';
import { t } from '../web/language.ts';
import { messagesOf } from '../web/widgets.ts';

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
  ...['_csrf', '_lookup', '_find', '_choose', '_for', '_save', '_preview', '_more'],
  ...PASSWORD_FIELDS,
]);

export const relatedOf = ({ references }: Column, { resources }: AdminContext): AdminView | undefined =>
  references && resources.get(references.name);

/** The address of the record that a foreign key refers to; undefined where the caller sees none. */
export function relatedAddress(
  record: LabeledRecord,
  column: Column,
  context: AdminContext,
): string | undefined {
  const [related, key] = [relatedOf(column, context), keyIn(record, column)];
  const isSeen = related && key !== null && typeof record.labels[column.key] === 'string' && hasAddress(key);
  return isSeen ? links.record(related.name, key) : undefined;
}

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

/** The texts that rows have in each foreign key to a resource that the admin area shows. */
function relatedTexts(
  context: AdminContext,
  rows: readonly TypedValues[],
): ReadonlyMap<Column, { readonly related: AdminView; readonly texts: Set<string> }> {
  const found = new Map<Column, { related: AdminView; texts: Set<string> }>();
  for (const [column, { text }] of rows.flatMap((typed) => [...typed])) {
    const related = relatedOf(column, context);
    if (!related) continue;
    const known = found.get(column) ?? { related, texts: new Set() };
    found.set(column, known);
    if (text !== '') known.texts.add(text);
  }
  return found;
}

/** The values of a record in a form, and the stored record, if there is one. */
interface TypedRecord {
  readonly typed: TypedValues;
  readonly stored?: LabeledRecord | undefined;
}

/** The values that the user has typed, without the unchanged ones of a stored record. */
const changedValues = ({ typed, stored }: TypedRecord): TypedValues =>
  stored
    ? new Map([...typed].filter(([{ key }, { text }]) => textOfField(stored.fields, key) !== text))
    : typed;

/** Replaces typed words in records by the key of the record that they mean, if there is only one. */
export async function withKeys<T extends TypedRecord>(
  context: AdminContext,
  records: readonly T[],
): Promise<readonly T[]> {
  const changed = records.map(changedValues);
  const keys = new Map(
    await Promise.all(
      [...relatedTexts(context, changed)].map(async ([column, { related, texts }]) => {
        const labels = await context.browsing.labelsOf(related, texts);
        const keyOf = async (text: string): Promise<string> => {
          if (labels.has(text)) return text;
          return (await recordMeant(context, related, text, mayBeKey(related, text)))?.id ?? text;
        };
        const found = await Promise.all([...texts].map(async (text) => [text, await keyOf(text)] as const));
        return [column, new Map(found)] as const;
      }),
    ),
  );
  return records.map((record, index) => {
    const typed = new Map(record.typed);
    for (const [column, value] of changed[index] ?? [])
      typed.set(column, { ...value, text: keys.get(column)?.get(value.text) ?? value.text });
    return { ...record, typed };
  });
}

/** Maximum options in all selects of one column, above which its fields are a search. */
const MAX_OPTIONS_IN_ROWS = 500;

/** The options or the current labels for each foreign key in records. The options of a model are read once. */
export async function referencesIn(
  context: AdminContext,
  records: readonly TypedRecord[],
): Promise<readonly ReadonlyMap<Column, References>[]> {
  const lists = new Map<AdminView, Promise<readonly Named[] | undefined>>();
  const readOptions = async (related: AdminView): Promise<readonly Named[] | undefined> => {
    const query = `limit=${MAX_OPTIONS}`;
    const found = await context.browsing.labels(related, { query, search: '' });
    if (found.hasNext) return undefined;
    return found.records
      .toSorted((one, other) => compareLabels(one.label, other.label))
      .map(({ id, label }) => ({ id, label: shortened(label) }));
  };
  const changed = relatedTexts(context, records.map(changedValues));
  const values = records.map(({ typed }) => typed);
  const found = new Map(
    await Promise.all(
      [...relatedTexts(context, values)].map(async ([column, { related, texts }]) => {
        const reading = lists.get(related) ?? readOptions(related);
        lists.set(related, reading);
        const all = await reading;
        const fields = values.filter((typed) => typed.has(column)).length;
        const options = all && all.length * fields <= MAX_OPTIONS_IN_ROWS ? all : undefined;
        const labels = all
          ? new Map(all.map(({ id, label }) => [id, label]))
          : await context.browsing.labelsOf(related, texts);
        const others = [...(changed.get(column)?.texts ?? [])].filter((text) => !labels.has(text));
        const inOtherForm = await Promise.all(
          others.map(async (text) => [text, (await findRecord(context, related, text))?.label] as const),
        );
        return [column, { options, labels: new Map([...labels, ...inOtherForm]) }] as const;
      }),
    ),
  );
  return values.map(
    (typed) =>
      new Map(
        [...typed].flatMap(([column, { text }]) => {
          const { options, labels } = found.get(column) ?? {};
          const label = options ? undefined : labels?.get(text);
          return labels ? [[column, { options, label: label && shortened(label) }] as const] : [];
        }),
      ),
  );
}

/** The label of the record that a key refers to; undefined for an unknown key and for a column that refers to no records. */
export const labelIn = (references: References | undefined, key: string): string | undefined =>
  references?.label ?? references?.options?.find(({ id }) => id === key)?.label;

/** Escapes the long texts of a form in pieces: escaping 1 MB at once would block the event loop for up to 60 ms. */
export async function renderLongTexts(typed: TypedValues): Promise<ReadonlyMap<Column, Html>> {
  const rendered = new Map<Column, Html>();
  for (const [column, value] of typed)
    if (value.text.length > PIECE) rendered.set(column, await htmlInPieces(shownTyped(column, value)));
  return rendered;
}

/** Renders a field of a record; undefined for one without a value. @param previewed the name of the field that is previewed */
export type RenderField = (
  field: FormField,
  errors: FieldErrors,
  previewed?: string,
  hasFocus?: boolean,
) => Html | undefined;

/** Loads what the fields of records show beside their values. @returns for each record, a function that renders one of its fields */
export async function fieldRenderers(
  context: AdminContext,
  records: readonly TypedRecord[],
): Promise<readonly RenderField[]> {
  const found = await referencesIn(context, records);
  const renderers: RenderField[] = [];
  for (const [index, { typed, stored }] of records.entries()) {
    const longTexts = await renderLongTexts(typed);
    renderers.push((field, errors, previewed, hasFocus) => {
      const { column, name } = field;
      const value = typed.get(column);
      return (
        value &&
        field.render(value, {
          before: stored && field.stored(stored),
          errors: messagesOf(errors, name),
          references: found[index]?.get(column),
          longText: longTexts.get(column),
          isPreviewed: name === previewed,
          hasFocus,
        })
      );
    });
  }
  return renderers;
}

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
  if (!related) throw new Problem(400, t('noRecordsToChoose', { name }));
  const typed = (form.get(name) ?? '').trim();
  const given = form.get('_find') ?? ((await isRecordKey(context, related, typed)) ? '' : typed);
  const words = given.slice(0, LONGEST_WORDS).toWellFormed();
  const { records, hasNext } = await context.browsing.lookUp(related, words, MAX_RESULTS);
  const body = html`<form method="post" class="lookup" action="${withBasePath(context.request.path)}">
    <input type="hidden" name="_csrf" value="${context.csrf}" />
    <input type="hidden" name="_for" value="${name}" />
    ${await hiddenInputs(form.entries.filter(([name]) => !DROPPED_FIELDS.has(name)))}
    <div class="search">
      <label for="find">${t('searchIn', { title: related.title })}</label>
      <input type="search" id="find" name="_find" value="${words}" autofocus />
      <button class="secondary" name="_lookup" value="${name}">${t('search')}</button>
    </div>
    ${records.length === 0 && html`<p class="empty">${words === '' ? t('noMatches') : t('noMatchesFor', { words })}</p>`}
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
    ${hasNext && html`<p class="hint">${t('enterMoreWords')}</p>`}
    <div class="buttons">
      <button class="secondary" name="_choose" value="${await htmlInPieces(form.get(name) ?? '')}">
        ${t('cancel')}
      </button>
      ${column.nullable && html`<button class="secondary" name="_choose" value="">${t('chooseNoValue')}</button>`}
    </div>
  </form>`;
  return pageReply(context, {
    title: t('chooseFrom', { column: title, title: related.title }),
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
