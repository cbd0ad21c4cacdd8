// The page with the form of a record, new or stored.
import { foreignKeysOf, hasNaturalKey, isAmong, isKeyPart, type Column } from '../../db/schema/model.ts';
import { keySegment } from '../../http/message/key-segment.ts';
import type { FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { hasAddress } from '../../resources/records/checked-body.ts';
import { sizeKey } from '../../query/labels/preview-sql.ts';
import { keyIn, textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import {
  confirmationField,
  hasPrivilegeColumn,
  passwordHint,
  rulesOf,
  showsUsers,
  type ConfirmationRefusal,
} from '../session/password-confirmation.ts';
import { isUserModel, mayManageAccess } from '../session/lock-out.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { fieldRow, renderLongTexts, type Field } from './form-fields.ts';
import {
  hidesDefault,
  takesAnyText,
  isCheckbox,
  mustHaveText,
  originIn,
  originOf,
  storedValues,
  takesEmpty,
  type TypedValues,
} from './form-values.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { loadOptional } from './optional-part.ts';
import { submitOnceField } from '../web/submit-once.ts';
import { referencesOf, relatedOf } from './references.ts';
import { grouped, shortened, shownColumn } from '../web/display-text.ts';
import { listQuery } from '../web/admin-request.ts';
import { errorSummary, messagesOf, PASSWORD_LABELS, passwordFields, resourceRow } from '../web/widgets.ts';

/** What the form of a record shows. */
export interface FormPage {
  readonly typed: TypedValues;
  /** The stored record; undefined for a new one. */
  readonly stored: (LabeledRecord & { readonly version: string }) | undefined;
  readonly errors?: FieldErrors | undefined;
  /** A message that belongs to no field. */
  readonly notice?: string | undefined;
  readonly status?: number;
  readonly headers?: ConfirmationRefusal['headers'];
  /** The submitted form, when it is shown again. The version and the list that it came from stay the same. */
  readonly sent?: Form | undefined;
}

/** The columns that have a field. The primary key has one only on a new record, and only if clients choose it. */
export function editableColumns(
  { model, output, readonly, settable }: AdminView,
  isNew: boolean,
): readonly Column[] {
  const ownKey = isNew && hasNaturalKey(model);
  const set = isNew ? settable.create : settable.update;
  return output.filter((column) =>
    column === model.primaryKey
      ? ownKey
      : !readonly.has(column) && set.has(column) && (isNew || !isKeyPart(model, column)),
  );
}

/** Whether the field must have a value. A text that was empty before may stay empty. */
function isRequired(column: Column, isNew: boolean, stored: TypedValues | undefined): boolean {
  if (column.nullable || column.type.element || isCheckbox(column, isNew)) return false;
  if (isNew) return !column.hasDefault || !(hidesDefault(column) || takesEmpty(column));
  return !takesAnyText(column) || (mustHaveText(column) && stored?.get(column)?.text !== '');
}

/** A read-only column. */
function readOnlyRow(column: Column, record: LabeledRecord, context: AdminContext): Html {
  const related = relatedOf(column, context);
  const key = keyIn(record, column);
  const shown = shownColumn(record, column, 2000);
  return html`<div class="field fact">
    <span class="label">${column.title}</span>
    <div class="control">
      ${related && key !== null && hasAddress(key) ? html`<a href="${links.record(related.name, key)}">${shown}</a>` : html`<span class="value">${shown}</span>`}
    </div>
  </div>`;
}

/** A column whose value is too long for the form, or was when the form was made. */
function tooLongRow(column: Column, record: LabeledRecord, { name }: AdminView): Html {
  const size = textOfField(record.fields, sizeKey(column));
  const bytes = size === null ? '' : ` (${grouped(Number(size))} bytes)`;
  return html`<div class="field fact">
    <span class="label">${column.title}</span>
    <div class="control">
      <span class="value">${shownColumn(record, column, 300)}</span>
      <p class="hint">
        Too long to edit here${bytes}. Saving keeps the value.
        <a href="${links.download(name, record.id)}">Download the record</a>, and change the value through the
        API or in the database.
      </p>
    </div>
  </div>`;
}

/** Counts the records that refer to this one, with links to list them and to add one. */
async function relatedRecords(context: ResourceContext, id: string): Promise<Html | false> {
  const { bulk, resources, resource } = context;
  const counting = bulk.dependents(resource, [id], 1);
  // The form must not depend on other tables, which may be locked or large.
  const dependents = await loadOptional(context, `the counts beside a record of ${resource.name}`, counting);
  const rows = [...resources.values()].flatMap((other) =>
    foreignKeysOf(other.model)
      .filter((column) => column.references === resource.model && isAmong(column, other.output))
      .map((column) => {
        const found = dependents?.find((dependent) => dependent.depth === 0 && dependent.column === column);
        const zero = dependents ? 'none' : 'unknown';
        // Records of views are not counted, because that may be slow.
        const none = other.model.isTable && resource.model.isTable ? zero : '';
        const count = found ? `${found.isCapped ? 'more than ' : ''}${grouped(found.count)}` : none;
        const query = `${column.name}=${encodeURIComponent(id)}`;
        const filtered = `${links.list(other.name)}?${query}`;
        const add = links.from(query, links.action(other.name, 'add'));
        const link = html`<a href="${filtered}">${other.title}</a>
          <span class="hint">by ${column.title}</span>`;
        return resourceRow(other, link, count, add);
      }),
  );
  return (
    rows.length > 0 &&
    html`<section class="related">
      <h2>Related</h2>
      <table class="models">
        <tbody>
          ${rows}
        </tbody>
      </table>
    </section>`
  );
}

const saveButtons = ({ may }: AdminView, isNew: boolean): Html =>
  html`<div class="buttons">
    <button class="primary" name="_save" value="list">Save</button>
    <button class="secondary" name="_save" value="stay">Save and continue editing</button>
    ${may.has('add') && html`<button class="secondary" name="_save" value="another">Save and add another</button>`}
    ${may.has('add') && !isNew && html`<button class="secondary" name="_save" value="new">Save as new</button>`}
  </div>`;

/** Hidden fields with the version and a digest of each value, to detect concurrent changes when the form is sent. */
function originFields(
  stored: LabeledRecord & { readonly version: string },
  typed: readonly Column[],
  columns: readonly Column[],
  sent: Form | undefined,
): Html {
  const origin =
    sent?.get('_origin') === undefined ? originOf(storedValues(stored, typed)) : originIn(sent, columns);
  return html`<input type="hidden" name="_version" value="${sent?.get('_version') ?? stored.version}" />
    <input type="hidden" name="_origin" value="${origin}" />`;
}

function actionsOf(
  context: ResourceContext,
  stored: LabeledRecord,
  list: string | undefined,
  hasSecondFactor: boolean,
): Content {
  const { resource } = context;
  const part = (which: string): string => links.from(list, links.part(resource.name, stored.id, which));
  const { name, may, passwords, inApi } = resource;
  const access = inApi('');
  return html` ${may.has('change') && passwords.length > 0 && html`<a class="button" href="${part('password')}">Set password</a>`}
  ${mayManageAccess(context) && html`<a class="button" href="${part('access')}">Access</a>`}
  ${hasSecondFactor && html`<a class="button" href="${part('second-factor')}">Remove second factor</a>`}
  ${resource.recorded && resource.allows.has('history') && html`<a class="button" href="${part('history')}">History</a>`}
  ${access && html`<a class="button" href="${links.api(name, '')}${keySegment(stored.id)}/" ${attributes({ title: access === 'login' && 'requires a separate login' })}>API</a>`}
  ${may.has('delete') && html`<a class="button danger" href="${part('delete')}">Delete</a>`}`;
}

/** Whether admins can remove the second factor of this user. */
const hasSecondFactor = async (context: ResourceContext, id: string): Promise<boolean> =>
  isUserModel(context) &&
  context.caller.admin &&
  context.resource.may.has('change') &&
  (await context.secondFactors?.recoveryCodes(id)) !== undefined;

/** The form of a record, new or stored. */
export async function formPage(context: ResourceContext, page: FormPage): Promise<Reply> {
  const { resource } = context;
  const { stored, typed, errors = {}, notice } = page;
  const { name, title, output, may } = resource;
  const [password] = resource.passwords;
  const isNew = stored === undefined;
  const settable = may.has(isNew ? 'add' : 'change') ? editableColumns(resource, isNew) : [];
  const columns = stored ? await context.browsing.changeable(resource, stored.id, settable) : settable;
  const references = await referencesOf(context, typed);
  const before = stored && storedValues(stored, columns);
  const longTexts = await renderLongTexts(typed);
  const fields = output.flatMap((column): Html[] => {
    const value = typed.get(column);
    if (columns.includes(column) && value) {
      const field: Field = { column, typed: value, isStored: before?.get(column)?.text === value.text, isNew, errors: messagesOf(errors, column.key), references: references.get(column), longText: longTexts.get(column), isRequired: isRequired(column, isNew, before) }; // prettier-ignore
      return [fieldRow(field)];
    }
    if (stored && columns.includes(column)) return [tooLongRow(column, stored, resource)];
    return stored ? [readOnlyRow(column, stored, context)] : [];
  });
  const related = stored
    ? resource.foreignKeys.filter((column) => relatedOf(column, context) && keyIn(stored, column) !== null)
    : [];
  if (stored) fields.push(...related.map((column) => readOnlyRow(column, stored, context)));
  const labels = Object.fromEntries(columns.map((column) => [column.key, column.title]));
  Object.assign(labels, PASSWORD_LABELS);
  const back = listQuery(context, page.sent);
  const action = stored ? links.record(name, stored.id) : links.action(name, 'add');
  // After a 503 the record may have been added. Sent again, the form then leads to it.
  const unanswered = page.status === 503 ? page.sent : undefined;
  // When the user goes back, the browser would restore earlier values, also of untouched fields, into the record as it is now.
  const restoring = attributes({ autocomplete: stored && 'off' });
  const body = html` ${notice !== undefined && html`<p class="notice" role="alert">${notice}</p>`}
    ${errorSummary(errors, labels)}
    <div class="${stored ? 'columns' : 'single'}">
      <form method="post" action="${action}" class="record" data-unsaved${restoring}>
        <input type="hidden" name="_csrf" value="${context.csrf}" />
        ${may.has('add') && submitOnceField(unanswered)}
        ${stored && originFields(stored, [...typed.keys()], columns, page.sent)}
        ${back !== undefined && html`<input type="hidden" name="_list" value="${back}" />`}
        ${columns.length > 0 && html`<button class="hidden" name="_save" value="list" tabindex="-1" aria-hidden="true">Save</button>`}
        ${columns.some((column) => isRequired(column, isNew, before)) && html`<p class="hint">Fields marked <span class="required">*</span> are required.</p>`}
        ${fields}
        ${isNew && password && passwordFields(['_password', '_repeat'], errors, { isRequired: !password.nullable, hint: passwordHint(password, rulesOf(context)) })}
        ${confirmationField(context, errors, hasPrivilegeColumn(context, columns, isNew) && (isNew ? 'Required to create an admin, or to give a role.' : 'Required to rename an admin, to give a role, or to change who is an admin or whether an admin is active.'), false, columns.length > 0 && showsUsers(context))}
        ${columns.length > 0 && saveButtons(resource, isNew)}
      </form>
      ${stored && html`<aside>${await relatedRecords(context, stored.id)}</aside>`}
    </div>`;
  const shown = {
    title: stored ? shortened(stored.label, 80) : `Add to ${title}`,
    crumbs: [
      { text: title, href: links.back(name, back) },
      { text: stored ? shortened(stored.label, 40) : 'Add' },
    ],
    kind: 'form',
    status: page.status ?? (Object.keys(errors).length > 0 ? 400 : 200),
    actions: stored && actionsOf(context, stored, back, await hasSecondFactor(context, stored.id)),
    body,
  } as const;
  return pageReply(context, shown, page.headers);
}
