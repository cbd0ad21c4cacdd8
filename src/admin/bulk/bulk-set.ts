import type { Column } from '../../db/schema/model.ts';
import { notFound, Problem, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import {
  selectedRecords,
  hiddenChoice,
  includesCaller,
  listUrl,
  selectionChange,
  type Choice,
} from './bulk-choice.ts';
import { confirmationField, confirmCaller, hasPrivilegeColumn } from '../session/password-confirmation.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { fieldRow, renderLongTexts } from '../fields/form-fields.ts';
import { editableColumns } from '../fields/form-page.ts';
import { typedMember } from '../fields/form-body.ts';
import {
  takesAnyText,
  isTickBox,
  noChoice,
  nullName,
  typedValues,
  type Typed,
} from '../fields/form-values.ts';
import { hiddenInputs, html, type Content, type Html } from '../web/html.ts';
import { pageReply, type Crumb } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { addLockOut } from '../session/lock-out.ts';
import { labelIn, referencesOf, showLookup, withKeys } from '../fields/references.ts';
import { counted, grouped, shortened, shownValue } from '../web/display-text.ts';
import { redirectWith } from '../web/admin-request.ts';
import { errorSummary, messagesOf, PASSWORD_LABELS } from '../web/widgets.ts';

/** What the three pages have in common: they ask for the column, the value and the confirmation. */
interface SetRequest {
  readonly context: AdminContext;
  readonly resource: AdminResource;
  readonly choice: Choice;
}

/** The column to set and its new value, as typed. */
interface NewValue {
  readonly column: Column;
  readonly typed: Typed;
}

const crumbsOf = ({ resource, choice }: SetRequest): Crumb[] => [
  { text: resource.title, href: listUrl(resource, choice) },
  { text: 'Set a column' },
];

const page = (setRequest: SetRequest, title: string, body: Content, status = 200): Reply =>
  pageReply(setRequest.context, { title, crumbs: crumbsOf(setRequest), kind: 'form', status, body });

async function setForm(
  { context, resource, choice }: SetRequest,
  fields: Content,
  buttons: Content,
): Promise<Html> {
  return html`<form method="post" action="${links.action(resource.name, 'bulk')}" class="record">
    ${await hiddenChoice(context, choice, 'set')} ${fields}
    <div class="buttons">${buttons} <a class="button" href="${listUrl(resource, choice)}">Cancel</a></div>
  </form>`;
}

async function columnPage(setRequest: SetRequest, columns: readonly Column[]): Promise<Reply> {
  const { context, resource, choice } = setRequest;
  const count = await context.bulk.count(resource, choice.selection);
  const field = html`<div class="field">
    <label for="column">Column</label>
    <div class="control">
      <select id="column" name="_column">
        ${columns.map(({ key, title }) => html`<option value="${key}">${title}</option>`)}
      </select>
    </div>
  </div>`;
  const body = html`${await setForm(setRequest, field, html`<button class="primary">Continue</button>`)}
  ${await selectedRecords(context, resource, choice, count)}`;
  return page(setRequest, `Set a column of ${counted(count, 'record')}`, body);
}

/** Why a page is shown again. */
interface FormErrors {
  readonly errors: FieldErrors;
  readonly notice?: string;
  readonly status?: number;
}

async function valuePage(
  setRequest: SetRequest,
  { column, typed }: NewValue,
  failure?: FormErrors,
): Promise<Reply> {
  const { context, resource, choice } = setRequest;
  const { errors = {}, notice } = failure ?? {};
  const [count, references, longTexts] = await Promise.all([
    context.bulk.count(resource, choice.selection),
    referencesOf(context, new Map([[column, typed]])),
    renderLongTexts(new Map([[column, typed]])),
  ]);
  const isRequired = !column.nullable && !takesAnyText(column) && !isTickBox(column, false);
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
  ${Object.keys(errors).length > 0 && errorSummary(errors, { [column.key]: column.title })}
  ${await setForm(setRequest, fields, html`<button class="primary" name="_value" value="1">Continue</button>`)}`;
  const title = `Set ${column.title} of ${counted(count, 'record')}`;
  return page(setRequest, title, body, failure ? (failure.status ?? 400) : 200);
}

/** The new value as the confirmation page shows it. */
async function shownTyped(context: AdminContext, newValue: NewValue): Promise<Html | string> {
  const { column, typed } = newValue;
  if (typed.isNull && typed.text === '') return 'no value';
  if (typed.text === '') return 'an empty text';
  const references = await referencesOf(context, new Map([[column, typed]]));
  const relatedLabel = labelIn(references.get(column), typed.text);
  return relatedLabel === undefined
    ? html`“${shownValue(column, typed.text, 300)}”`
    : `“${shortened(relatedLabel)}”`;
}

async function confirmPage(
  setRequest: SetRequest,
  newValue: NewValue,
  { errors, notice, status = 200 }: FormErrors = { errors: {} },
): Promise<Reply> {
  const { context, resource, choice } = setRequest;
  const { column, typed } = newValue;
  const count = await context.bulk.count(resource, choice.selection);
  if (count === 0)
    return redirectWith(context, listUrl(resource, choice), {
      kind: 'failed',
      text: 'No records to change.',
    });
  const fields = html`<input type="hidden" name="_column" value="${column.key}" />
    ${await hiddenInputs([[column.key, typed.isNull && typed.text === '' ? noChoice(column) : typed.text]])}
    ${typed.isNull && html`<input type="hidden" name="${nullName(column)}" value="1" />`}
    <input type="hidden" name="_value" value="1" />
    <input type="hidden" name="_expected" value="${count}" />
    <p class="lead">
      ${column.title} becomes <strong>${await shownTyped(context, newValue)}</strong> in
      <strong>${counted(count, 'record')}</strong>.
    </p>
    ${hasPrivilegeColumn(context, resource, [column]) && confirmationField(errors, 'Needed to change what users may do.', true)}`;
  const button = html`<button class="primary" name="_confirm" value="1">
    Update ${counted(count, 'record')}
  </button>`;
  const body = html`${notice !== undefined && html`<p class="error-summary" role="alert">${notice}</p>`}
  ${Object.keys(errors).length > 0 && errorSummary(errors, PASSWORD_LABELS)}
  ${await setForm(setRequest, fields, button)} ${await selectedRecords(context, resource, choice, count)}`;
  const title = `Set ${column.title} of ${counted(count, 'record')}?`;
  return page(setRequest, title, body, status);
}

async function apply(
  setRequest: SetRequest,
  newValue: NewValue,
  field: JsonField,
  expected: number,
): Promise<Reply> {
  const { context, resource, choice } = setRequest;
  const { column } = newValue;
  const fields = new Map([[column.key, field]]);
  const changed = await context.bulk.set(resource, choice.selection, fields, context.caller, expected);
  const unchanged = expected - changed;
  const same = unchanged === 0 ? '' : ` ${grouped(unchanged)} had this value already.`;
  return redirectWith(context, listUrl(resource, choice), {
    kind: 'done',
    text: `${column.title} was set in ${counted(changed, 'record')}.${same}`,
  });
}

/** Checks the new value, then asks for confirmation or, once confirmed, sets it. */
async function confirmOrApply(setRequest: SetRequest, newValue: NewValue, form: Form): Promise<Reply> {
  const { context, resource, choice } = setRequest;
  const field = typedMember(newValue.column, newValue.typed);
  const { key } = newValue.column;
  if ('fault' in field) return valuePage(setRequest, newValue, { errors: { [key]: [field.fault] } });
  const lockOut: FieldErrors = {};
  addLockOut(lockOut, new Map([[key, field]]), 'you are among the selected users');
  if (Object.keys(lockOut).length > 0 && (await includesCaller(context, resource, choice)))
    return valuePage(setRequest, newValue, { errors: lockOut });
  const expected = Number(form.get('_expected'));
  try {
    if (form.get('_confirm') !== undefined) {
      const isNeeded = hasPrivilegeColumn(context, resource, [newValue.column]);
      const refusal = isNeeded ? await confirmCaller(context, form) : undefined;
      if (refusal) return await confirmPage(setRequest, newValue, refusal);
      return await apply(setRequest, newValue, field, expected);
    }
    await context.bulk.check(resource, new Map([[key, field]]), context.caller);
  } catch (error) {
    if (!(error instanceof Problem) || ![400, 409].includes(error.status)) throw error;
    if (error.errors) return valuePage(setRequest, newValue, { errors: error.errors, status: error.status });
    const change = await selectionChange(context, resource, choice, form);
    return change === undefined
      ? valuePage(setRequest, newValue, { errors: {}, notice: error.message, status: error.status })
      : confirmPage(setRequest, newValue, {
          errors: {},
          notice: `${change} Nothing was changed.`,
          status: 409,
        });
  }
  return confirmPage(setRequest, newValue);
}

/**
 * Sets one column of selected records to a value, after pages that ask for the column, the value and the confirmation.
 * @throws Problem 404 for a column that cannot be set
 */
export async function bulkSet(
  context: AdminContext,
  resource: AdminResource,
  choice: Choice,
  form: Form,
): Promise<Reply> {
  const setRequest = { context, resource, choice };
  // First, so that an invalid filter of the list is not reported as an error of the value.
  context.browsing.plan(resource, choice.selection);
  const columns = editableColumns(resource, false);
  const key = form.get('_column');
  if (key === undefined) return columnPage(setRequest, columns);
  const column = columns.find((one) => one.key === key);
  if (!column) throw notFound('This column cannot be set here.');
  const typed = typedValues(form, [column], false).get(column) ?? { text: '', isNull: column.nullable };
  if (form.get('_lookup') === key) {
    return showLookup(context, column, form, crumbsOf(setRequest));
  }
  const chosen = form.get('_for') === key ? form.get('_choose') : undefined;
  if (chosen !== undefined)
    return valuePage(setRequest, { column, typed: { text: chosen, isNull: chosen === '' } });
  if (form.get('_value') === undefined)
    return valuePage(setRequest, { column, typed: { text: '', isNull: column.nullable } });
  const resolved = await withKeys(context, new Map([[column, typed]]), undefined);
  return confirmOrApply(setRequest, { column, typed: resolved.get(column) ?? typed }, form);
}
