// What happens to a form whose record, or a row of which, has changed since the form was made.
import { addError, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { StoredRecord } from '../../resources/records/labeled-record.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { valuesOf, type FormField, type Typed } from '../fields/form-field.ts';
import { attributes, hiddenInputs, html, type Html } from '../web/html.ts';
import { listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import { t } from '../web/language.ts';
import { links } from '../web/admin-links.ts';
import { labelIn, referencesIn, renderLongTexts } from '../fields/references.ts';
import { emptyText, nothing, shortened, shownValue } from '../web/display-text.ts';
import { table } from '../web/widgets.ts';
import { differencesOf, originFields, storedRecord, type FormRecord } from './form-record.ts';
import { rowName, type InlineRow } from './inline-rows.ts';

/** A row that has changed, with the values of both sides. @param errors gets what the user must look at */
export function mergedRow(row: InlineRow, stored: StoredRecord, errors: FieldErrors): InlineRow {
  const now = storedRecord(row, stored);
  const differences = differencesOf(row, stored);
  const isShown = differences.some(({ changedBy }) => changedBy !== 'mine');
  if (row.fields.length > 0 && !isShown) return { ...now, typed: row.typed };
  addError(errors, rowName(row), t('rowHasChanged'));
  const kept = row.isDeleted ? [] : differences.filter(({ changedBy }) => changedBy !== 'theirs');
  for (const { field, theirs, changedBy } of kept) {
    const text = shortened(stored.labels[field.column.key] || (theirs?.text ?? ''), 40);
    if (!changedBy) addError(errors, field.name, theirs ? t('isNow', { text }) : t('nowTooLong'));
  }
  const typed = new Map([...now.typed, ...kept.map(({ field, mine }) => [field.column, mine] as const)]);
  return { ...now, typed, isDeleted: false };
}

/** Maximum characters shown of a value, and how many of them precede the first difference. */
const MAX_SHOWN = 2000;
const CONTEXT_BEFORE = 100;

/** The part of a text to compare with another one: of a long text, the part around the first difference. */
function excerpt(text: string, other: string): string {
  if (text.length <= MAX_SHOWN) return text;
  let same = 0;
  while (same < text.length && text[same] === other[same]) same += 1;
  const from = same + CONTEXT_BEFORE > MAX_SHOWN ? same - CONTEXT_BEFORE : 0;
  const part = text.slice(from, from + MAX_SHOWN).toWellFormed();
  return `${from > 0 ? '… ' : ''}${part}${from + MAX_SHOWN < text.length ? ' …' : ''}`;
}

const CHOICE = '_take.';
const takeName = ({ name }: FormField): string => `${CHOICE}${name}`;

/** Whether a form field holds a choice between the two values of a column. */
export const isChoice = (name: string): boolean => name.startsWith(CHOICE);

/** The record with its stored values where the user has chosen those. */
export const resolveConflict = (record: FormRecord, form: Form): FormRecord => ({
  ...record,
  typed: valuesOf(record.fields, (field) => {
    const isTheirs = form.get(takeName(field)) === 'theirs';
    const mine = record.typed.get(field.column);
    return mine && ((isTheirs && record.stored && field.stored(record.stored)) || mine);
  }),
});

/** The page that shows both values of each field side by side. It sends the form again, based on the current record. */
export async function showConflict(
  context: ResourceContext,
  record: FormRecord,
  stored: StoredRecord,
  form: Form,
): Promise<Reply> {
  const { resource } = context;
  const { typed } = record;
  const now = storedRecord(
    { ...record, fields: record.fields.filter(({ column }) => typed.has(column)) },
    stored,
  );
  const tooLong = new Map([...typed].filter(([column]) => !now.typed.has(column)));
  const longTexts = await renderLongTexts(tooLong);
  const [mineNamed, theirsNamed] = await referencesIn(context, [{ typed }, now]);
  const shown = (field: FormField, one: Typed, other: Typed, named: typeof mineNamed): Html | string => {
    const { text, isNull, fault } = one;
    if (text === '') return isNull ? nothing() : emptyText();
    if (fault !== undefined) return text;
    return labelIn(named?.get(field.column), text) ?? shownValue(field.column, excerpt(text, other.text));
  };
  const rows = differencesOf(record, stored).flatMap(({ field, mine, theirs, changedBy }) => {
    const { column, label } = field;
    if (!theirs) {
      if (changedBy === 'theirs') return [];
      const state = attributes({ readonly: true, 'aria-label': label });
      const copy = html`<textarea${state}>${'\n'}${longTexts.get(column) ?? mine.text}</textarea>`;
      return [[label, copy, t('nowTooLong')]];
    }
    // The user may have preferred another stored value to this one before.
    const choice = form.get(takeName(field)) === 'theirs' ? 'theirs' : changedBy;
    const radio = (side: 'mine' | 'theirs', value: Html | string): Html => {
      const state = { name: takeName(field), value: side, required: true, checked: choice === side };
      return html`<label class="choice"
        ><input type="radio" ${attributes(state)} /> <span class="value">${value}</span></label
      >`;
    };
    const [my, their] = [shown(field, mine, theirs, mineNamed), shown(field, theirs, mine, theirsNamed)];
    return [[label, radio('mine', my), radio('theirs', their)]];
  });
  const withoutField = new Set([...tooLong.keys()].map(({ key }) => key));
  const kept = form.entries.filter(
    ([name]) =>
      (!name.startsWith('_') && !withoutField.has(name)) ||
      ['_save', '_list', '_next', '_form'].includes(name),
  );
  const hidden = await hiddenInputs(kept);
  const body = html` <p class="notice" role="alert">${t('chooseValues')}</p>
    <form method="post" action="${links.record(resource.name, stored.id)}" class="conflict" data-unsaved>
      <input type="hidden" name="_csrf" value="${context.csrf}" />
      ${originFields(now)} ${hidden}
      ${table([t('field'), t('yourValue'), t('currentValue')], rows, { className: 'records compare' })}
      <div class="buttons">
        <button class="primary">${t('save')}</button>
        <a class="button" href="${links.inList(resource.name, stored.id, form.get('_list'))}" data-discard
          >${t('discardChanges')}</a
        >
        ${
          resource.recorded &&
          resource.allows.has('history') &&
          html`<a class="button" href="${links.part(resource.name, stored.id, 'history')}" target="_blank"
            >${t('showHistory')}</a
          >`
        }
      </div>
    </form>`;
  return pageReply(context, {
    title: t('conflictOf', { label: shortened(stored.label, 80) }),
    crumbs: [listCrumb(resource), recordCrumb(resource, stored), t('conflict')],
    kind: 'form',
    status: 409,
    body,
  });
}
