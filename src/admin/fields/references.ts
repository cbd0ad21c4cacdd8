// Foreign keys in forms: the records to choose from, the search for them, and resolving typed words to keys.
import { Problem, type FieldErrors } from '../../errors.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Column } from '../../db/schema/model.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { hasAddress } from '../../resources/records/checked-body.ts';
import { keyIn, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { isNamed, type Found, type Named } from '../../resources/records/look-up.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import { PASSWORD_FIELDS, type Form } from '../web/form-data.ts';
import {
  markedKey,
  shownTyped,
  type FormField,
  type References,
  type Typed,
  type TypedValues,
} from './form-field.ts';
import { hiddenInputs, html, htmlInPieces, PIECE, type Html } from '../web/html.ts';
import { pageReply, SAFE_HEADERS, type Crumb } from '../web/layout.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';
import { eitherOr, t } from '../web/language.ts';
import { messagesOf } from '../web/widgets.ts';

/** Up to this many records, the field is a select; above, a search. */
const MAX_OPTIONS = 100;
/** Maximum results of a search. */
const MAX_RESULTS = 20;
/** Maximum results among which an exact label is looked for. */
const MAX_COMPARED = 100;
/** Maximum records that an error offers to choose from. */
const MAX_CHOICE = 5;
/** Maximum length of a search (characters). Longer words match no record. */
const LONGEST_WORDS = 1000;

const collator = new Intl.Collator('en', { sensitivity: 'base', numeric: true });

/** Shortens a label for the collator, which takes quadratic time for long runs of combining marks. */
const collationKey = (label: string): string => label.slice(0, 100).replace(/(\p{M}{4})\p{M}+/gu, '$1');

/** A record with its key and its label: `#5 (“Room 2”)`. */
const withKey = ({ id, label }: Named): string =>
  label === `#${id}` ? label : `#${id} (${t('quoted', { text: shortened(label) })})`;

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

/** Whether a text is exactly the key of a record. `007` is not the key 7; it may be a name. */
export const isRecordKey = async (
  context: AdminContext,
  resource: AdminView,
  text: string,
): Promise<boolean> => text !== '' && (await context.browsing.labelsOf(resource, new Set([text]))).has(text);

/** What the search page of a foreign key sends: a marked key, or the words that were there before. */
export const chosenOn = (chosen: string): Typed => {
  const isKey = chosen.startsWith(markedKey(''));
  const text = isKey ? chosen.slice(1) : chosen;
  return { text, isNull: text === '', isKey };
};

/**
 * Whether a text may be the key of a deleted record. Then it must not mean another record that merely contains it in its label.
 */
const mayBeKey = ({ model: { primaryKey } }: AdminView, text: string): boolean =>
  primaryKey.type.parse(text, primaryKey).fault === undefined;

/** Records of a search that a text can mean: those with exactly this label; without any, the only match. */
function namedAmong({ records, hasNext }: Found, text: string, isExact: boolean): readonly Named[] {
  const named = records.filter(isNamed(text));
  return named.length > 0 || isExact || hasNext || records.length > 1 ? named : records;
}

/**
 * The records that each of the texts can mean: the one with this key, also written `#7`, and others with this name. Words that are
 * neither mean the only match of a search.
 * @param maxWords texts that are looked for as words; others mean none
 */
export async function recordsMeant(
  context: AdminContext,
  resource: AdminView,
  texts: readonly string[],
  maxWords = Infinity,
): Promise<ReadonlyMap<string, readonly Named[]>> {
  const { browsing } = context;
  const labels = await browsing.labelsOf(
    resource,
    new Set(texts.flatMap((text) => [text, text.replace(/^#/, '')])),
  );
  const keyOf = (text: string): string | undefined =>
    [text, text.replace(/^#/, '')].find((one) => labels.has(one));
  const namesakes = await browsing.labeled(
    resource,
    texts.filter((text) => keyOf(text) !== undefined && text.length <= LONGEST_WORDS),
  );
  const names = await browsing.labelsOf(resource, new Set([...namesakes.values()].flat()));
  const found = new Map<string, readonly Named[]>();
  let words = 0;
  for (const text of texts) {
    const key = keyOf(text);
    if (key !== undefined) {
      const ids = [key, ...(namesakes.get(text) ?? []).filter((id) => id !== key)];
      found.set(text, ids.map((id) => ({ id, label: names.get(id) ?? labels.get(id) ?? '' }))); // prettier-ignore
    } else if (text.trim() !== '' && text.length <= LONGEST_WORDS && (words += 1) <= maxWords) {
      const matches = await browsing.lookUp(resource, text, MAX_COMPARED);
      found.set(text, namedAmong(matches, text, mayBeKey(resource, text)));
    }
  }
  return found;
}

/** Several records that a text can mean, to choose from; undefined if there are too many. */
export const choiceOf = (records: readonly Named[]): string | undefined =>
  records.length > 1 && records.length <= MAX_CHOICE
    ? t('mayMean', { meant: eitherOr(records.map(withKey)) })
    : undefined;

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

/** The foreign keys that the user has typed as words, or as keys that no page has shown. */
const typedWords = ({ typed }: TypedRecord): TypedValues =>
  new Map(
    [...typed].filter(
      ([column, { text, isKey }]) => !isKey || column.type.parse(text, column).fault !== undefined,
    ),
  );

/** The key of the record that typed words mean. What the page did not show yet, it shows first. */
function keyFor(value: Typed, [record, ...others]: readonly Named[]): Typed {
  const { text } = value;
  if (!record) return value;
  if (others.length > 0) return { ...value, fault: choiceOf([record, ...others]) ?? t('chooseOneRecord') };
  const isTyped = record.id === text || isNamed(text)(record) || text === `#${record.id}`;
  const fault = isTyped ? undefined : t('meansRecord', { record: withKey(record) });
  return { text: record.id, isNull: false, isKey: true, fault };
}

/** Replaces typed words in records by the key of the record that they mean, if there is only one. */
export async function withKeys<T extends TypedRecord>(
  context: AdminContext,
  records: readonly T[],
): Promise<readonly T[]> {
  const words = records.map(typedWords);
  const meant = new Map(
    await Promise.all(
      [...relatedTexts(context, words)].map(
        async ([column, { related, texts }]) =>
          [column, await recordsMeant(context, related, [...texts])] as const,
      ),
    ),
  );
  return records.map((record, index) => {
    const typed = new Map(record.typed);
    for (const [column, value] of words[index] ?? [])
      typed.set(column, keyFor(value, meant.get(column)?.get(value.text) ?? []));
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
        return [column, { options, labels }] as const;
      }),
    ),
  );
  return values.map(
    (typed) =>
      new Map(
        [...typed].flatMap(([column, { text, isKey }]) => {
          const { options, labels } = found.get(column) ?? {};
          const label = options || !isKey ? undefined : labels?.get(text);
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
  field: FormField,
  form: Form,
  crumbs: readonly Crumb[],
): Promise<Reply> {
  const { column, name, label: title } = field;
  const related = relatedOf(column, context);
  if (!related) throw new Problem(400, t('noRecordsToChoose', { name }));
  const { text: typed, isKey } = field.read(form);
  const given = form.get('_find') ?? (isKey || (await isRecordKey(context, related, typed)) ? '' : typed);
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
            <button name="_choose" value="${markedKey(id)}" class="choice">
              ${label} <span class="key">${id}</span>
            </button>
          </li>`,
      )}
    </ul>
    ${hasNext && html`<p class="hint">${t('enterMoreWords')}</p>`}
    <div class="buttons">
      <button
        class="secondary"
        name="_choose"
        value="${await htmlInPieces(isKey ? markedKey(typed) : typed)}"
      >
        ${t('cancel')}
      </button>
      ${column.nullable && html`<button class="secondary" name="_choose" value="${markedKey('')}">${t('chooseNoValue')}</button>`}
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
export async function lookUp(context: ResourceContext): Promise<Reply> {
  const { request, browsing, resource } = context;
  const search = LinkParameters.parse(request.query).get('_search') ?? '';
  const found = await browsing.lookUp(resource, search, MAX_RESULTS);
  const records = found.records.map(({ id, label }) => ({ id, label }));
  const [match, other] = found.records.some(({ id }) => id === search.trim())
    ? ((await recordsMeant(context, resource, [search.trim()])).get(search.trim()) ?? [])
    : namedAmong(found, search, mayBeKey(resource, search));
  return {
    status: 200,
    headers: { ...SAFE_HEADERS, 'Content-Type': 'application/json; charset=utf-8' },
    body: JSON.stringify({ records, more: found.hasNext, match: other ? undefined : match?.id }),
  };
}
