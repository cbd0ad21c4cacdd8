// The page with the form of a record, new or stored.
import { foreignKeysOf, isAmong, type Column } from '../../db/schema/model.ts';
import { keySegment } from '../../http/message/key-segment.ts';
import type { Reply } from '../../http/message/message.ts';
import { recordActions, type AdminView } from '../../resources/access/admin-view.ts';
import { sizeKey } from '../../query/labels/preview-sql.ts';
import type { Named } from '../../resources/records/look-up.ts';
import { keyIn, textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import {
  confirmationField,
  hasPrivilegeColumn,
  isUserModel,
  mayManageAccess,
  passwordHint,
  rulesOf,
  showsUsers,
  type Refusal,
} from '../session/password-confirmation.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import { fieldOfKey, type Form } from '../web/form-data.ts';
import type { FormField } from '../fields/form-field.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { listCrumb, pageReply } from '../web/layout.ts';
import { numberText, phrase, t } from '../web/language.ts';
import { links } from '../web/admin-links.ts';
import { originFields, type FormRecord } from './form-record.ts';
import {
  renderTables,
  rowName,
  storedRows,
  tablesOf,
  type InlineRow,
  type InlineTable,
} from './inline-rows.ts';
import { loadOptional } from '../fields/optional-part.ts';
import { submitOnceField } from '../web/submit-once.ts';
import { fieldRenderers, relatedAddress, relatedOf } from '../fields/references.ts';
import { shortened, shownColumn, badgesOf } from '../web/display-text.ts';
import { wholeValue } from '../web/seen-value.ts';
import { listQuery } from '../web/admin-request.ts';
import { placeInList, placeLinks } from './place-in-list.ts';
import { errorSummary, passwordFields, resourceRow } from '../web/widgets.ts';

/** What the form of a record shows, and why it is shown again. */
export interface RecordForm extends Partial<Refusal> {
  readonly record: FormRecord;
  /** The submitted form, when it is shown again. The list that it came from stays the same. */
  readonly sent?: Form | undefined;
  /** The field whose text is shown as it will look. */
  readonly previewed?: FormField | undefined;
  /** The rows of child tables as they were typed; those that are stored when absent. */
  readonly rows?: readonly InlineRow[];
}

/** A row without a field. */
const factRow = ({ title }: Column, content: Content): Html =>
  html`<div class="field fact">
    <span class="label">${title}</span>
    <div class="control">${content}</div>
  </div>`;

/** A read-only column. */
function readOnlyRow(column: Column, record: LabeledRecord, context: AdminContext): Html {
  const address = relatedAddress(record, column, context);
  const shown = wholeValue(record, column);
  return factRow(column, address === undefined ? shown : html`<a href="${address}">${shown}</a>`);
}

/** A column whose value is too long for the form. */
function tooLongRow(column: Column, record: LabeledRecord, { name }: AdminView): Html {
  const size = textOfField(record.fields, sizeKey(column));
  const download = html`<a href="${links.download(name, record.id)}">${t('downloadRecord')}</a>`;
  return factRow(
    column,
    html`<span class="value">${shownColumn(record, column, 300)}</span>
      <p class="hint">
        ${size === null ? phrase('tooLongToEdit', { download }) : phrase('tooLongToEditOf', { download, bytes: Number(size) })}
      </p>`,
  );
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
        const zero = t(dependents ? 'noneRelated' : 'unknown');
        // Records of views are not counted, because that may be slow.
        const none = other.model.isTable && resource.model.isTable ? zero : '';
        const number = numberText(found?.count ?? 0);
        const count = found ? (found.isCapped ? t('moreThan', { number }) : number) : none;
        const query = `${column.name}=${encodeURIComponent(id)}`;
        const filtered = `${links.list(other.name)}?${query}`;
        const add = links.from(query, links.action(other.name, 'add'));
        const link = html`<a href="${filtered}">${other.title}</a>
          <span class="hint">${t('byColumn', { column: column.title })}</span>`;
        return resourceRow(other, link, count, add);
      }),
  );
  return (
    rows.length > 0 &&
    html`<section class="related">
      <h2>${t('related')}</h2>
      <table class="models">
        <tbody>
          ${rows}
        </tbody>
      </table>
    </section>`
  );
}

/**
 * @param next the next record of the list that the user came from
 * @param cancel the address that the form of a new record is left for
 */
function saveButtons({ may }: AdminView, next: Named | undefined, cancel: string | false): Html {
  const button = (value: string, text: string): Html =>
    html`<button class="secondary" name="_save" value="${value}">${text}</button>`;
  return html`<div class="buttons">
    <button class="primary" name="_save" value="list">${t('save')}</button>
    ${next && html`<input type="hidden" name="_next" value="${fieldOfKey(next.id)}" /><button class="primary" name="_save" value="next">${t('saveAndNext')}</button>`}
    ${cancel !== false && html`<a class="button" href="${cancel}">${t('cancel')}</a>`}
    <details class="menu">
      <summary>${t('otherWaysToSave')}</summary>
      <div class="buttons">
        ${button('stay', t('saveAndStay'))} ${may.has('add') && button('another', t('saveAndAddAnother'))}
        ${may.has('add') && cancel === false && button('new', t('saveAsNew'))}
      </div>
    </details>
  </div>`;
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
  return html` ${recordActions(resource).map((action) => html`<a class="button" href="${links.recordAction(resource.name, stored.id, action.name, list)}">${action.title}</a> `)}
  ${may.has('change') && passwords.length > 0 && html`<a class="button" href="${part('password')}">${t('setPassword')}</a>`}
  ${mayManageAccess(context) && html`<a class="button" href="${part('access')}">${t('access')}</a>`}
  ${hasSecondFactor && html`<a class="button" href="${part('second-factor')}">${t('removeSecondFactor')}</a>`}
  ${resource.recorded && resource.allows.has('history') && html`<a class="button" href="${part('history')}">${t('history')}</a>`}
  ${access && html`<a class="button" href="${links.api(name, '')}${keySegment(stored.id)}/" ${attributes({ title: access === 'login' && t('requiresLogin') })}>${t('api')}</a>`}
  ${may.has('delete') && html`<a class="button danger" href="${part('delete')}">${t('delete')}</a>`}`;
}

/** Whether admins can remove the second factor of this user. */
const hasSecondFactor = async (context: ResourceContext, id: string): Promise<boolean> =>
  isUserModel(context) &&
  context.caller.admin &&
  context.resource.may.has('change') &&
  (await context.secondFactors?.recoveryCodes(id)) !== undefined;

/** The rows of a form's tables: as typed, and of tables that it only shows, as stored. */
async function rowsOf(
  context: ResourceContext,
  tables: readonly InlineTable[],
  { record, rows }: RecordForm,
): Promise<readonly InlineRow[]> {
  const loaded = rows ? tables.filter(({ may }) => may.size === 0) : tables;
  return [...(rows ?? []), ...(await storedRows(context, loaded, record.stored?.id))];
}

/** The form of a record, new or stored. */
export async function recordForm(context: ResourceContext, page: RecordForm): Promise<Reply> {
  const { resource } = context;
  const { record, errors = {}, notice, sent } = page;
  const { stored, typed } = record;
  const { name, title, output, may } = resource;
  const [password] = resource.passwords;
  const isNew = stored === undefined;
  const fields = record.fields.filter(({ column }) => typed.has(column));
  const columns = fields.map(({ column }) => column);
  const tables = tablesOf(context, isNew);
  const inlineRows = await rowsOf(context, tables, page);
  const previewed = page.previewed?.name;
  const [render, ...renderers] = await fieldRenderers(context, [record, ...inlineRows]);
  const rows = output.map((column) => {
    const field = record.fields.find((one) => one.column === column);
    const hasFocus = stored !== undefined && !sent && column === resource.focus;
    if (field && typed.has(column)) return render?.(field, errors, previewed, hasFocus);
    const isTooLong = field && stored?.fields.has(sizeKey(column));
    return (
      stored && (isTooLong ? tooLongRow(column, stored, resource) : readOnlyRow(column, stored, context))
    );
  });
  const related = stored
    ? resource.foreignKeys.filter((column) => relatedOf(column, context) && keyIn(stored, column) !== null)
    : [];
  if (stored) rows.push(...related.map((column) => readOnlyRow(column, stored, context)));
  const inlines = renderTables(context, tables, inlineRows, renderers, errors, stored?.id, previewed);
  const mayAddRows = tables.some((table) => table.may.has('add'));
  const maySave = fields.length > 0 || tables.some((table) => table.may.size > 0);
  const labels = new Map(fields.map((field) => [field.name, field.label]));
  for (const row of inlineRows) {
    labels.set(rowName(row), row.label);
    for (const field of row.fields) labels.set(field.name, field.label);
  }
  const back = listQuery(context, sent);
  const place = stored && (await placeInList(context, back, stored.id));
  const action = stored ? links.record(name, stored.id) : links.action(name, 'add');
  // After a 503 the record may have been added. Sent again, the form then leads to it.
  const unanswered = page.status === 503 ? sent : undefined;
  // When the user goes back, the browser would restore earlier values, also of untouched fields, into the record as it is now.
  const state = attributes({ autocomplete: stored && 'off', 'data-changed': sent !== undefined });
  const needs = {
    password: hasPrivilegeColumn(context, columns, isNew) && t(isNew ? 'requiredForNewAdmin' : 'requiredForAdminChange'),
    code: fields.length > 0 && showsUsers(context),
  }; // prettier-ignore
  const body = html` ${notice !== undefined && html`<p class="notice" role="alert">${notice}</p>`}
    ${errorSummary(errors, Object.fromEntries(labels))}
    <div class="${stored && tables.length === 0 ? 'columns' : 'single'}">
      <form method="post" action="${action}" class="record" data-unsaved${state}>
        <input type="hidden" name="_csrf" value="${context.csrf}" />
        ${(may.has('add') || mayAddRows) && submitOnceField(unanswered)} ${stored && originFields(record)}
        ${back !== undefined && html`<input type="hidden" name="_list" value="${back}" />`}
        ${maySave && html`<button class="hidden" name="_save" value="list" tabindex="-1" aria-hidden="true">${t('save')}</button>`}
        ${fields.some((field) => field.isRequired(stored && field.stored(stored))) && html`<p class="hint">${phrase('fieldsMarked', { mark: html`<span class="required">*</span>` })}</p>`}
        ${rows} ${inlines}
        ${isNew && password && passwordFields(['_password', '_repeat'], errors, { isRequired: !password.nullable, hint: passwordHint(password, rulesOf(context)) })}
        ${confirmationField(context, errors, needs, false)}
        ${maySave && saveButtons(resource, place?.next, isNew && links.back(name, back))}
      </form>
      ${stored && html`<aside>${await relatedRecords(context, stored.id)}</aside>`}
    </div>`;
  const shown = {
    title: stored ? shortened(stored.label, 80) : t('addTo', { title }),
    crumbs: [listCrumb(resource, back), stored ? shortened(stored.label, 40) : t('add')],
    below:
      stored && html`<div class="below">${title} ${place && placeLinks(resource, back ?? '', place)}</div>`,
    kind: 'form',
    badges: stored && badgesOf(stored, output),
    status: page.status ?? (Object.keys(errors).length > 0 ? 400 : 200),
    actions: stored && actionsOf(context, stored, back, await hasSecondFactor(context, stored.id)),
    body,
  } as const;
  return pageReply(context, shown, page.headers);
}
