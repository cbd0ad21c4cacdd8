// Sets one column of the selected records of a list, after pages that ask for the column, the value and the confirmation.
import { errorOf, notFound, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import { fieldsOf, textsOf, type FormField, type Typed } from '../fields/form-field.ts';
import { fieldRows, labelIn, referencesOf, showLookup, withKeys } from '../fields/references.ts';
import { refusalOf } from '../form/save.ts';
import { formReply, runAction, showAction, type Action } from '../session/action.ts';
import {
  addLockOut,
  isUserModel,
  hasPrivilegeColumn,
  showsUsers,
  type Refusal,
} from '../session/password-confirmation.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone, redirectFailed } from '../web/admin-request.ts';
import { counted, grouped, shortened, shownValue } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { hiddenInputs, html, type Html } from '../web/html.ts';
import { labeledField, messagesOf } from '../web/widgets.ts';
import {
  endOf,
  hiddenChoice,
  listUrl,
  selectedRecords,
  selectionChange,
  type BulkContext,
} from './chosen-records.ts';

/** The field of the column to set, and its new value. */
interface NewValue {
  readonly field: FormField;
  readonly typed: Typed;
  /** Whether its text is shown as it will look. */
  readonly isPreviewed?: boolean;
}

/** What the pages have in common. */
const frameOf = (context: BulkContext) => ({
  crumbs: [{ text: context.resource.title, href: listUrl(context) }, 'Set a column'],
  address: links.action(context.resource.name, 'bulk'),
  back: { text: 'Back to the list', href: listUrl(context) },
  isUnsaved: true,
});

const countSelected = ({ bulk, resource, choice }: BulkContext): Promise<number> =>
  bulk.count(resource, choice.selection);

/** Asks for the column. */
async function columnPage(context: BulkContext, fields: readonly FormField[]): Promise<Reply> {
  const count = await countSelected(context);
  const records = await selectedRecords(context, count);
  const choice = html`<select id="column" name="_column">
    ${fields.map(({ name, label }) => html`<option value="${name}">${label}</option>`)}
  </select>`;
  return formReply(context, {
    ...frameOf(context),
    title: `Set a column of ${counted(count, 'record')}`,
    fields: html`${await hiddenChoice(context, 'set')} ${labeledField('column', 'Column', choice)}`,
    button: 'Continue',
    around: (form) => html`${form} ${records}`,
  });
}

/** Asks for the new value. */
async function valuePage(
  context: BulkContext,
  { field, typed, isPreviewed }: NewValue,
  refusal?: Refusal,
): Promise<Reply> {
  const { column, name, label } = field;
  const count = await countSelected(context);
  const row = await fieldRows(context, new Map([[column, typed]]));
  const page = {
    ...frameOf(context),
    title: `Set ${label} of ${counted(count, 'record')}`,
    fields: html`${await hiddenChoice(context, 'set')}
      <input type="hidden" name="_column" value="${name}" />
      <input type="hidden" name="_value" value="1" />
      ${row(field, { errors: messagesOf(refusal?.errors ?? {}, name), ...(isPreviewed && { isPreviewed }) })}`,
    button: 'Continue',
    labels: { [name]: label },
  };
  return formReply(context, page, refusal);
}

/** The new value as the confirmation page shows it. */
async function shownTyped(
  context: BulkContext,
  { field: { column }, typed }: NewValue,
): Promise<Html | string> {
  if (typed.text === '') return typed.isNull ? 'no value' : 'an empty text';
  const references = await referencesOf(context, new Map([[column, typed]]));
  const relatedLabel = labelIn(references.get(column), typed.text);
  return relatedLabel === undefined
    ? html`“${shownValue(column, typed.text, 300)}”`
    : `“${shortened(relatedLabel)}”`;
}

/** Sets the column once that is confirmed. */
function setting(context: BulkContext, newValue: NewValue, json: JsonField): Action {
  const { bulk, resource, choice, caller } = context;
  const { field, typed } = newValue;
  const { column, name, label } = field;
  const fields = new Map([[column.key, json]]);
  return {
    async page() {
      const count = await countSelected(context);
      if (count === 0) return redirectFailed(context, listUrl(context), 'No records to change.');
      const records = await selectedRecords(context, count);
      const what = counted(count, 'record');
      return {
        ...frameOf(context),
        title: `Set ${label} of ${what}?`,
        fields: html`${await hiddenChoice(context, 'set')}
          <input type="hidden" name="_column" value="${name}" />
          ${await hiddenInputs(field.carried(typed))}
          <input type="hidden" name="_value" value="1" />
          <input type="hidden" name="_expected" value="${count}" />
          <input type="hidden" name="_confirm" value="1" />
          <p class="lead">
            ${label} becomes <strong>${await shownTyped(context, newValue)}</strong> in
            <strong>${what}</strong>.
          </p>`,
        button: `Update ${what}`,
        around: (form) => html`${form} ${records}`,
      };
    },

    needs: () => ({
      password:
        hasPrivilegeColumn(context, [column], false) && 'Needed to change what users may do, or their names.',
      code: showsUsers(context),
    }),

    async run(form) {
      const expected = Number(form.get('_expected'));
      const end = endOf(context, 'bulk.change', column);
      const changed = await bulk.set(resource, choice.selection, fields, caller, { expected, end });
      const unchanged = expected - changed;
      const same = unchanged === 0 ? '' : ` ${grouped(unchanged)} had this value already.`;
      const text = `${label} was set in ${counted(changed, 'record')}.${same}`;
      return redirectDone(context, listUrl(context), text);
    },
  };
}

/** Checks the new value, then asks for confirmation or, once confirmed, sets it. */
async function confirmOrSet(context: BulkContext, newValue: NewValue, form: Form): Promise<Reply> {
  const { column } = newValue.field;
  const json = await newValue.field.json(newValue.typed);
  const errors: FieldErrors = 'fault' in json ? errorOf(column.key, json.fault) : {};
  if ('fault' in json) return valuePage(context, newValue, { errors, status: 400 });
  const fields = new Map([[column.key, json]]);
  addLockOut(errors, fields, 'you are among the selected users');
  const { bulk, resource, choice, caller } = context;
  const isLockOut = Object.keys(errors).length > 0 && isUserModel(context);
  if (isLockOut && (await bulk.includes(resource, choice.selection, caller.id)))
    return valuePage(context, newValue, { errors, status: 400 });
  const action = setting(context, newValue, json);
  try {
    if (form.get('_confirm') !== undefined) return await runAction(context, action, form);
    await bulk.check(resource, fields, caller);
  } catch (error) {
    const refusal = refusalOf(context, error, [column]);
    const isOfValue = Object.keys(refusal.errors).length > 0;
    const change = isOfValue ? undefined : await selectionChange(context, form);
    if (change === undefined) return valuePage(context, newValue, refusal);
    return showAction(context, action, { errors: {}, notice: `${change} Nothing was changed.`, status: 409 });
  }
  return showAction(context, action);
}

/** Shows the page for what the form lacks, or sets the column. @throws Problem 404 for a column that cannot be set */
export async function setColumn(context: BulkContext, form: Form): Promise<Reply> {
  const { resource, choice } = context;
  // First, so that an invalid filter of the list is not reported as an error of the value.
  context.browsing.plan(resource, choice.selection);
  const fields = fieldsOf(resource, false);
  const name = form.get('_column');
  if (name === undefined) return columnPage(context, fields);
  const field = fields.find((one) => one.name === name);
  if (!field) throw notFound('This column cannot be set here.');
  const { column } = field;
  if (form.get('_lookup') === name) return showLookup(context, field, form, frameOf(context).crumbs);
  const chosen = form.get('_for') === name ? form.get('_choose') : undefined;
  if (chosen !== undefined)
    return valuePage(context, { field, typed: { text: chosen, isNull: chosen === '' } });
  if (form.get('_value') === undefined) {
    // With choices, NULL means no choice yet: the empty text may not be one.
    const isNull = column.nullable || textsOf(column) !== undefined;
    return valuePage(context, { field, typed: { text: '', isNull } });
  }
  const typed = field.read(form);
  if (form.get('_preview') === name) return valuePage(context, { field, typed, isPreviewed: true });
  const resolved = await withKeys(context, new Map([[column, typed]]), undefined);
  return confirmOrSet(context, { field, typed: resolved.get(column) ?? typed }, form);
}
