import type { Column } from '../../db/schema/model.ts';
import { addError, notFound, Problem, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import { chosenRecords, hiddenChoice, includesCaller, listOf, type Choice } from './bulk-choice.ts';
import {
  confirmationField,
  confirmCaller,
  hasPowers,
  type ConfirmationRefusal,
} from '../session/password-confirmation.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { fieldRow, renderLongTexts } from '../fields/form-fields.ts';
import { editableColumns } from '../fields/form-page.ts';
import { typedMember } from '../fields/form-body.ts';
import { isFreeText, isTickBox, noChoice, nullName, typedValues, type Typed } from '../fields/form-values.ts';
import { hiddenInputs, html, type Content, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { addLockOut } from '../session/lock-out.ts';
import { referencesOf, showLookup, withKeys } from '../fields/references.ts';
import { counted, grouped, shortened, shownValue } from '../web/display-text.ts';
import { redirectWith, type AdminRequest } from '../web/admin-request.ts';
import { errorSummary, PASSWORD_LABELS } from '../web/widgets.ts';

/** Where the pages are that ask one after the other: for which column, for which value, and whether it is meant. */
interface Asking {
  readonly context: AdminContext;
  readonly adminRequest: AdminRequest;
  readonly resource: AdminResource;
  readonly choice: Choice;
}

interface Wanted {
  readonly column: Column;
  readonly typed: Typed;
}

function page(asking: Asking, title: string, body: Content, status = 200): Reply {
  const { adminRequest, resource, choice } = asking;
  return pageReply(adminRequest, {
    title,
    crumbs: [{ text: resource.title, href: listOf(resource, choice) }, { text: 'Set a column' }],
    kind: 'form',
    status,
    body,
  });
}

async function formOf(
  { adminRequest, resource, choice }: Asking,
  fields: Content,
  buttons: Content,
): Promise<Html> {
  return html`<form method="post" action="${links.action(resource.name, 'bulk')}" class="record">
    ${await hiddenChoice(adminRequest, choice, 'set')} ${fields}
    <div class="buttons">
      ${buttons} <a class="button" href="${listOf(resource, choice)}">Back to the list</a>
    </div>
  </form>`;
}

async function columnPage(asking: Asking, columns: readonly Column[]): Promise<Reply> {
  const { context, resource, choice } = asking;
  const count = await context.bulk.count(resource, choice.selection);
  const field = html`<div class="field">
    <label for="column">Column</label>
    <div class="control">
      <select id="column" name="_column">
        ${columns.map(({ key, title }) => html`<option value="${key}">${title}</option>`)}
      </select>
    </div>
  </div>`;
  const body = html`${await formOf(asking, field, html`<button class="primary">Go on</button>`)}
  ${await chosenRecords(context, resource, choice, count)}`;
  return page(asking, `Set a column of ${counted(count, 'record')}`, body);
}

interface Faults {
  readonly errors: FieldErrors;
  readonly notice?: string;
  readonly status?: number;
}

async function valuePage(asking: Asking, { column, typed }: Wanted, faults?: Faults): Promise<Reply> {
  const { context, resource, choice } = asking;
  const { errors = {}, notice } = faults ?? {};
  const [count, references, longTexts] = await Promise.all([
    context.bulk.count(resource, choice.selection),
    referencesOf(context, new Map([[column, typed]])),
    renderLongTexts(new Map([[column, typed]])),
  ]);
  const isRequired = !column.nullable && !isFreeText(column) && !isTickBox(column, false);
  const field = {
    column,
    typed,
    isNew: false,
    references: references.get(column),
    longText: longTexts.get(column),
    isRequired,
  };
  const messages = Object.hasOwn(errors, column.key) ? errors[column.key] : undefined;
  const fields = html`<input type="hidden" name="_column" value="${column.key}" />
    ${fieldRow(messages ? { ...field, errors: messages } : field)}`;
  const body = html`${notice !== undefined && html`<p class="error-summary" role="alert">${notice}</p>`}
  ${Object.keys(errors).length > 0 && errorSummary(errors, { [column.key]: column.title })}
  ${await formOf(asking, fields, html`<button class="primary" name="_value" value="1">Go on</button>`)}`;
  const title = `Set ${column.title} of ${counted(count, 'record')}`;
  return page(asking, title, body, faults ? (faults.status ?? 400) : 200);
}

/** The value as people read it. */
async function shownTyped(context: AdminContext, wanted: Wanted): Promise<Html | string> {
  const { column, typed } = wanted;
  if (typed.isNull && typed.text === '') return 'no value';
  if (typed.text === '') return 'an empty text';
  const references = await referencesOf(context, new Map([[column, typed]]));
  const { options, label } = references.get(column) ?? {};
  const called = label ?? options?.find(({ id }) => id === typed.text)?.label;
  return called === undefined ? html`“${shownValue(column, typed.text, 300)}”` : `“${shortened(called)}”`;
}

interface Unconfirmed {
  readonly notice?: string;
  readonly refusal?: ConfirmationRefusal;
}

async function confirmPage(
  asking: Asking,
  wanted: Wanted,
  { notice, refusal }: Unconfirmed = {},
): Promise<Reply> {
  const { context, adminRequest, resource, choice } = asking;
  const { column, typed } = wanted;
  const count = await context.bulk.count(resource, choice.selection);
  if (count === 0)
    return redirectWith(adminRequest, listOf(resource, choice), {
      kind: 'failed',
      text: 'There is nothing to change.',
    });
  const fields = html`<input type="hidden" name="_column" value="${column.key}" />
    ${await hiddenInputs([[column.key, typed.isNull && typed.text === '' ? noChoice(column) : typed.text]])}
    ${typed.isNull && html`<input type="hidden" name="${nullName(column)}" value="1" />`}
    <input type="hidden" name="_value" value="1" />
    <input type="hidden" name="_expected" value="${count}" />
    <p class="lead">
      ${column.title} becomes <strong>${await shownTyped(context, wanted)}</strong> in
      <strong>${counted(count, 'record')}</strong>.
    </p>
    ${hasPowers(context, resource, [column]) && confirmationField(refusal?.errors ?? {}, 'Needed to change what users may do.', true)}`;
  const button = html`<button class="primary" name="_confirm" value="1">
    Set it in ${counted(count, 'record')}
  </button>`;
  const body = html`${notice !== undefined && html`<p class="error-summary" role="alert">${notice}</p>`}
  ${refusal && errorSummary(refusal.errors, PASSWORD_LABELS)} ${await formOf(asking, fields, button)}
  ${await chosenRecords(context, resource, choice, count)}`;
  const title = `Set ${column.title} of ${counted(count, 'record')}?`;
  return page(asking, title, body, refusal?.status ?? (notice === undefined ? 200 : 409));
}

async function apply(asking: Asking, wanted: Wanted, member: JsonField, expected: number): Promise<Reply> {
  const { context, adminRequest, resource, choice } = asking;
  const { column } = wanted;
  const members = new Map([[column.key, member]]);
  const changed = await context.bulk.set(resource, choice.selection, members, adminRequest.caller, expected);
  const rest = expected - changed;
  const same = rest === 0 ? '' : ` ${grouped(rest)} had this value already.`;
  return redirectWith(adminRequest, listOf(resource, choice), {
    kind: 'done',
    text: `${column.title} was set in ${counted(changed, 'record')}.${same}`,
  });
}

/** Goes on with a value: asks whether it is meant, or sets it. */
async function goOn(asking: Asking, wanted: Wanted, form: Form): Promise<Reply> {
  const { context, adminRequest, resource, choice } = asking;
  const errors: FieldErrors = {};
  const member = typedMember(wanted.column, wanted.typed);
  if ('fault' in member) {
    addError(errors, wanted.column.key, member.fault);
    return valuePage(asking, wanted, { errors });
  }
  const lockOut: FieldErrors = {};
  addLockOut(lockOut, new Map([[wanted.column.key, member]]), 'you are among the chosen');
  if (Object.keys(lockOut).length > 0 && (await includesCaller(context, adminRequest, resource, choice)))
    return valuePage(asking, wanted, { errors: lockOut });
  const expected = Number(form.get('_expected'));
  try {
    if (form.get('_confirm') !== undefined) {
      const isNeeded = hasPowers(context, resource, [wanted.column]);
      const refusal = isNeeded ? await confirmCaller(context, adminRequest, form) : undefined;
      if (refusal) return await confirmPage(asking, wanted, { refusal });
      return await apply(asking, wanted, member, expected);
    }
    await context.bulk.check(resource, new Map([[wanted.column.key, member]]), adminRequest.caller);
  } catch (error) {
    if (!(error instanceof Problem) || ![400, 409].includes(error.status)) throw error;
    if (error.errors) return valuePage(asking, wanted, { errors: error.errors, status: error.status });
    const count = await context.bulk.count(resource, choice.selection);
    return count === expected
      ? valuePage(asking, wanted, { errors, notice: error.message, status: error.status })
      : confirmPage(asking, wanted, {
          notice: `It was ${counted(expected, 'record')} when you were asked, and is ${grouped(count)} now. Nothing was changed.`,
        });
  }
  return confirmPage(asking, wanted);
}

/** Sets one column of chosen records to a value. */
export async function bulkSet(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  choice: Choice,
  form: Form,
): Promise<Reply> {
  const asking = { context, adminRequest, resource, choice };
  // First of all, so that what is wrong with the list is not taken for a fault of a value.
  context.browsing.plan(resource, choice.selection);
  const columns = editableColumns(resource, false);
  const key = form.get('_column');
  if (key === undefined) return columnPage(asking, columns);
  const column = columns.find((one) => one.key === key);
  if (!column) throw notFound('There is no such column here.');
  const typed = typedValues(form, [column], false).get(column) ?? { text: '', isNull: column.nullable };
  if (form.get('_lookup') === key) {
    const crumbs = [{ text: resource.title, href: listOf(resource, choice) }, { text: 'Set a column' }];
    return showLookup(context, adminRequest, column, form, crumbs);
  }
  const chosen = form.get('_for') === key ? form.get('_choose') : undefined;
  if (chosen !== undefined)
    return valuePage(asking, { column, typed: { text: chosen, isNull: chosen === '' } });
  if (form.get('_value') === undefined)
    return valuePage(asking, { column, typed: { text: '', isNull: column.nullable } });
  const meant = await withKeys(context, new Map([[column, typed]]), undefined);
  return goOn(asking, { column, typed: meant.get(column) ?? typed }, form);
}
