// The page for a form whose record has changed since the form was opened.
import type { Reply } from '../../http/message/message.ts';
import type { StoredRecord } from '../../resources/records/labeled-record.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import {
  digestOf,
  digestsIn,
  fieldsOf,
  isSame,
  originIn,
  originOf,
  valuesOf,
  type FormField,
  type Typed,
  type TypedValues,
} from '../fields/form-field.ts';
import { attributes, hiddenInputs, html, type Html } from '../web/html.ts';
import { listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import { t } from '../web/language.ts';
import { links } from '../web/admin-links.ts';
import { labelIn, referencesOf, renderLongTexts } from '../fields/references.ts';
import { emptyText, nothing, shortened, shownValue } from '../web/display-text.ts';
import { table } from '../web/widgets.ts';

/** A form whose record has changed since the form was loaded. */
export interface Conflict {
  readonly stored: StoredRecord;
  readonly typed: TypedValues;
  /** The form as it was sent, with digests of the values that it was loaded with. */
  readonly form: Form;
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

/**
 * The preselected value of a column: the user's earlier choice, or the side that changed it. Undefined where both sides changed
 * it.
 * @param origin the digest of the value that the form was loaded with
 */
function choiceOf(
  mine: Typed,
  theirs: Typed,
  chosen: string | undefined,
  origin: string | undefined,
): 'mine' | 'theirs' | undefined {
  if (chosen === 'theirs') return chosen;
  // The user preferred this value to an older stored one. If that has changed again, the user must choose again.
  if (chosen === 'mine') return origin === digestOf(theirs) ? chosen : undefined;
  if (origin === digestOf(mine)) return 'theirs';
  return origin === digestOf(theirs) ? 'mine' : undefined;
}

/** The typed values, replaced by the stored ones where the user has chosen those. */
export const resolveConflict = (resource: AdminView, { stored, typed, form }: Conflict): TypedValues =>
  valuesOf(fieldsOf(resource, false), (field) => {
    const isTheirs = form.get(takeName(field)) === 'theirs';
    const mine = typed.get(field.column);
    return mine && ((isTheirs && field.stored(stored)) || mine);
  });

/** The page that shows both values of each field side by side. It sends the form again, based on the current record. */
export async function showConflict(
  context: ResourceContext,
  { stored, typed, form }: Conflict,
): Promise<Reply> {
  const { resource } = context;
  const fields = fieldsOf(resource, false).filter(({ column }) => typed.has(column));
  const others = valuesOf(fields, (field) => field.stored(stored));
  const tooLong = new Map([...typed].filter(([column]) => !others.has(column)));
  const longTexts = await renderLongTexts(tooLong);
  const [mineNamed, theirsNamed] = await Promise.all([
    referencesOf(context, typed),
    referencesOf(context, others),
  ]);
  const shown = (field: FormField, one: Typed, other: Typed, named: typeof mineNamed): Html | string => {
    const { text, isNull } = one;
    if (text === '') return isNull ? nothing() : emptyText();
    return labelIn(named.get(field.column), text) ?? shownValue(field.column, excerpt(text, other.text));
  };
  const origins = digestsIn(originIn(form, fieldsOf(resource, false)));
  const rows = fields.flatMap((field) => {
    const { column, label } = field;
    const [mine, theirs] = [typed.get(column), others.get(column)];
    if (!mine || isSame(mine, theirs)) return [];
    if (!theirs) {
      if (origins.get(column.key) === digestOf(mine)) return [];
      const state = attributes({ readonly: true, 'aria-label': label });
      const copy = html`<textarea${state}>${'\n'}${longTexts.get(column) ?? mine.text}</textarea>`;
      return [[label, copy, t('nowTooLong')]];
    }
    const choice = choiceOf(mine, theirs, form.get(takeName(field)), origins.get(column.key));
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
      <input type="hidden" name="_version" value="${stored.version}" />
      <input type="hidden" name="_origin" value="${originOf(others)}" />
      ${hidden}
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
