// Sets one column of the selected records of a list, after pages that ask for the column, the value and the confirmation.
import type { Column } from '../../db/schema/model.ts';
import { errorOf, notFound, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { BrokenRule } from '../../resources/records/explain.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import {
  endOf,
  selectedRecords,
  hiddenChoice,
  includesCaller,
  listUrl,
  selectionChange,
  type BulkContext,
} from './bulk-choice.ts';
import {
  confirmationField,
  confirmCaller,
  hasPrivilegeColumn,
  showsUsers,
  type ConfirmationRefusal,
} from '../session/password-confirmation.ts';
import type { Form } from '../web/form-data.ts';
import { fieldRow, renderLongTexts } from '../fields/form-fields.ts';
import { editableColumns } from '../fields/form-page.ts';
import { ruleErrors, typedField } from '../fields/form-body.ts';
import {
  takesAnyText,
  isCheckbox,
  noChoice,
  nullName,
  textsOf,
  typedValues,
  type Typed,
} from '../fields/form-values.ts';
import { hiddenInputs, html, type Content, type Html } from '../web/html.ts';
import { pageReply, type Crumb } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { exactText } from '../web/time-zone.ts';
import { addLockOut } from '../session/lock-out.ts';
import { labelIn, referencesOf, showLookup, withKeys } from '../fields/references.ts';
import { counted, grouped, shortened, shownValue } from '../web/display-text.ts';
import { redirectDone, redirectFailed, shownProblem } from '../web/admin-request.ts';
import { errorSummary, messagesOf, PASSWORD_LABELS } from '../web/widgets.ts';

/** The column to set and its new value, as typed. */
interface NewValue {
  readonly column: Column;
  readonly typed: Typed;
}

const crumbsOf = (context: BulkContext): Crumb[] => [
  { text: context.resource.title, href: listUrl(context) },
  { text: 'Set a column' },
];

const page = (
  context: BulkContext,
  title: string,
  body: Content,
  status = 200,
  headers?: ConfirmationRefusal['headers'],
): Reply => pageReply(context, { title, crumbs: crumbsOf(context), kind: 'form', status, body }, headers);

const countSelected = ({ bulk, resource, choice }: BulkContext): Promise<number> =>
  bulk.count(resource, choice.selection);

async function setForm(context: BulkContext, fields: Content, buttons: Content): Promise<Html> {
  return html`<form
    method="post"
    action="${links.action(context.resource.name, 'bulk')}"
    class="record"
    data-unsaved
  >
    ${await hiddenChoice(context, 'set')} ${fields}
    <div class="buttons">${buttons} <a class="button" href="${listUrl(context)}" data-discard>Cancel</a></div>
  </form>`;
}

async function columnPage(context: BulkContext, columns: readonly Column[]): Promise<Reply> {
  const count = await countSelected(context);
  const field = html`<div class="field">
    <label for="column">Column</label>
    <div class="control">
      <select id="column" name="_column">
        ${columns.map(({ key, title }) => html`<option value="${key}">${title}</option>`)}
      </select>
    </div>
  </div>`;
  const body = html`${await setForm(context, field, html`<button class="primary">Continue</button>`)}
  ${await selectedRecords(context, count)}`;
  return page(context, `Set a column of ${counted(count, 'record')}`, body);
}

/** Why a page is shown again. */
interface FormErrors extends Partial<ConfirmationRefusal> {
  readonly errors: FieldErrors;
  readonly notice?: string;
}

async function valuePage(
  context: BulkContext,
  { column, typed }: NewValue,
  failure?: FormErrors,
): Promise<Reply> {
  const { errors = {}, notice } = failure ?? {};
  const [count, references, longTexts] = await Promise.all([
    countSelected(context),
    referencesOf(context, new Map([[column, typed]])),
    renderLongTexts(new Map([[column, typed]])),
  ]);
  const isRequired =
    !column.nullable && !takesAnyText(column) && !column.type.element && !isCheckbox(column, false);
  const field = {
    column,
    typed,
    isNew: false,
    references: references.get(column),
    longText: longTexts.get(column),
    isRequired,
    errors: messagesOf(errors, column.key),
  };
  const fields = html`<input type="hidden" name="_column" value="${column.key}" /> ${fieldRow(field)}`;
  const body = html`${notice !== undefined && html`<p class="error-summary" role="alert">${notice}</p>`}
  ${errorSummary(errors, { [column.key]: column.title })}
  ${await setForm(context, fields, html`<button class="primary" name="_value" value="1">Continue</button>`)}`;
  const title = `Set ${column.title} of ${counted(count, 'record')}`;
  return page(context, title, body, failure ? (failure.status ?? 400) : 200);
}

/** The new value as the confirmation page shows it. */
async function shownTyped(context: BulkContext, { column, typed }: NewValue): Promise<Html | string> {
  if (typed.isNull && typed.text === '') return 'no value';
  if (typed.text === '') return 'an empty text';
  const references = await referencesOf(context, new Map([[column, typed]]));
  const relatedLabel = labelIn(references.get(column), typed.text);
  return relatedLabel === undefined
    ? html`“${shownValue(column, typed.text, 300)}”`
    : `“${shortened(relatedLabel)}”`;
}

async function confirmPage(
  context: BulkContext,
  newValue: NewValue,
  { errors, notice, status = 200, headers }: FormErrors = { errors: {} },
): Promise<Reply> {
  const { column, typed } = newValue;
  const count = await countSelected(context);
  if (count === 0) return redirectFailed(context, listUrl(context), 'No records to change.');
  const fields = html`<input type="hidden" name="_column" value="${column.key}" />
    ${await hiddenInputs([[column.key, typed.isNull && typed.text === '' ? noChoice(column) : exactText(column, typed.text)]])}
    ${typed.isNull && html`<input type="hidden" name="${nullName(column)}" value="1" />`}
    <input type="hidden" name="_value" value="1" />
    <input type="hidden" name="_expected" value="${count}" />
    <p class="lead">
      ${column.title} becomes <strong>${await shownTyped(context, newValue)}</strong> in
      <strong>${counted(count, 'record')}</strong>.
    </p>
    ${confirmationField(context, errors, hasPrivilegeColumn(context, [column], false) && 'Needed to change what users may do, or their names.', true, showsUsers(context))}`;
  const button = html`<button class="primary" name="_confirm" value="1">
    Update ${counted(count, 'record')}
  </button>`;
  const body = html`${notice !== undefined && html`<p class="error-summary" role="alert">${notice}</p>`}
  ${errorSummary(errors, PASSWORD_LABELS)} ${await setForm(context, fields, button)}
  ${await selectedRecords(context, count)}`;
  const title = `Set ${column.title} of ${counted(count, 'record')}?`;
  return page(context, title, body, status, headers);
}

async function apply(
  context: BulkContext,
  { column }: NewValue,
  field: JsonField,
  expected: number,
): Promise<Reply> {
  const { bulk, resource, choice, caller } = context;
  const fields = new Map([[column.key, field]]);
  const end = endOf(context, 'bulk.change', column);
  const changed = await bulk.set(resource, choice.selection, fields, caller, { expected, end });
  const unchanged = expected - changed;
  const same = unchanged === 0 ? '' : ` ${grouped(unchanged)} had this value already.`;
  const text = `${column.title} was set in ${counted(changed, 'record')}.${same}`;
  return redirectDone(context, listUrl(context), text);
}

/** Checks the new value, then asks for confirmation or, once confirmed, sets it. */
async function confirmOrApply(context: BulkContext, newValue: NewValue, form: Form): Promise<Reply> {
  const field = await typedField(newValue.column, newValue.typed);
  const { key } = newValue.column;
  if ('fault' in field) return valuePage(context, newValue, { errors: errorOf(key, field.fault) });
  const lockOut: FieldErrors = {};
  addLockOut(lockOut, new Map([[key, field]]), 'you are among the selected users');
  if (Object.keys(lockOut).length > 0 && (await includesCaller(context)))
    return valuePage(context, newValue, { errors: lockOut });
  const expected = Number(form.get('_expected'));
  try {
    if (form.get('_confirm') !== undefined) {
      const password = hasPrivilegeColumn(context, [newValue.column], false);
      const refusal = await confirmCaller(context, form, { password, code: showsUsers(context) });
      if (refusal) return await confirmPage(context, newValue, refusal);
      return await apply(context, newValue, field, expected);
    }
    await context.bulk.check(context.resource, new Map([[key, field]]), context.caller);
  } catch (error) {
    const problem = shownProblem(context, error);
    if (!problem || ![400, 409, 500].includes(problem.status)) throw error;
    const { errors, message: notice, status } = problem;
    const about = problem instanceof BrokenRule ? { notice } : {};
    const ofRule = ruleErrors(error, context.resource);
    if (Object.hasOwn(ofRule, key)) return valuePage(context, newValue, { errors: ofRule, notice, status });
    if (errors && Object.keys(errors).length > 0)
      return valuePage(context, newValue, { errors, ...about, status });
    const change = await selectionChange(context, form);
    return change === undefined
      ? valuePage(context, newValue, { errors: {}, notice, status })
      : confirmPage(context, newValue, {
          errors: {},
          notice: `${change} Nothing was changed.`,
          status: 409,
        });
  }
  return confirmPage(context, newValue);
}

/** Shows the page for what the form lacks, or sets the column. @throws Problem 404 for a column that cannot be set */
export async function bulkSet(context: BulkContext, form: Form): Promise<Reply> {
  const { resource, choice } = context;
  // First, so that an invalid filter of the list is not reported as an error of the value.
  context.browsing.plan(resource, choice.selection);
  const columns = editableColumns(resource, false);
  const key = form.get('_column');
  if (key === undefined) return columnPage(context, columns);
  const column = columns.find((one) => one.key === key);
  if (!column) throw notFound('This column cannot be set here.');
  const typed = typedValues(form, [column], false).get(column) ?? { text: '', isNull: column.nullable };
  if (form.get('_lookup') === key) return showLookup(context, column, form, crumbsOf(context));
  const chosen = form.get('_for') === key ? form.get('_choose') : undefined;
  if (chosen !== undefined)
    return valuePage(context, { column, typed: { text: chosen, isNull: chosen === '' } });
  if (form.get('_value') === undefined) {
    // With choices, NULL means no choice yet: the empty text may not be one.
    const isNull = column.nullable || textsOf(column) !== undefined;
    return valuePage(context, { column, typed: { text: '', isNull } });
  }
  const resolved = await withKeys(context, new Map([[column, typed]]), undefined);
  return confirmOrApply(context, { column, typed: resolved.get(column) ?? typed }, form);
}
