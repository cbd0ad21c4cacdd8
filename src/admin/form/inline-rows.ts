// Rows of child tables on the form of a record: which ones it has, what was typed into them, and how it shows them.
import { isKeyless, type Column } from '../../db/schema/model.ts';
import type { FieldErrors } from '../../errors.ts';
import type { AdminAction } from '../../resources/definition/resource.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { MAX_ROWS } from '../../resources/records/admin-listing.ts';
import { textOfField, type StoredRecord } from '../../resources/records/labeled-record.ts';
import { editableColumns, FormField, isSame, type Typed } from '../fields/form-field.ts';
import type { RenderField } from '../fields/references.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { fieldOfKey, keyOfField, type Form } from '../web/form-data.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { wholeValue } from '../web/seen-value.ts';
import { messagesOf, sentence, table as tableOf } from '../web/widgets.ts';
import { t } from '../web/language.ts';
import {
  editedFields,
  isEdited,
  newRecord,
  originFields,
  sentRecord,
  storedRecord,
  type FormRecord,
} from './form-record.ts';

/** How many rows *Show more rows* adds. */
const MORE_ROWS = 5;
/** Maximum rows of a table in one form, new ones included. */
const MAX_SENT = 2 * MAX_ROWS;

/** A child table on a form, and what the caller may do with its rows there. */
export interface InlineTable {
  readonly resource: AdminView;
  /** Its foreign key to the record of the form. */
  readonly column: Column;
  readonly columns: readonly Column[];
  readonly extra: number;
  readonly may: ReadonlySet<AdminAction>;
  /** The key of the caller, whom a new row has in the column of its owner. */
  readonly callerId: string;
  /** What its rows are called, before their number. */
  readonly rowTitle: string;
}

/** A row of a form. */
export interface InlineRow extends FormRecord {
  readonly table: InlineTable;
  readonly index: number;
  /** Its name in errors: `Line 3`. */
  readonly label: string;
  readonly isDeleted: boolean;
  /** Whether the row was stored when the form was loaded, and has been deleted since. */
  readonly isGone: boolean;
}

const NO_SELECTION = { query: '', search: '', ids: [] };

/** The child tables on the form of a record, as far as the caller may see them. */
export function tablesOf(context: ResourceContext, isNew: boolean): readonly InlineTable[] {
  const { resource, resources, bulk, settings, caller } = context;
  const mayEdit = resource.may.has(isNew ? 'add' : 'change');
  const tables = resource.inlines.flatMap((inline): Omit<InlineTable, 'rowTitle'>[] => {
    const child = resources.get(inline.model);
    if (!child?.output.includes(inline.column)) return [];
    const isAllowed = (action: AdminAction): boolean => {
      if (!mayEdit || inline.isReadonly || !child.may.has(action)) return false;
      if (action === 'add') return editableColumns(child, true).includes(inline.column);
      if (action === 'change') return !isNew;
      // Users are deleted on a page that says so.
      return !isNew && bulk.adminGuard(child, NO_SELECTION, settings.userModel) === undefined;
    };
    const may = new Set((['add', 'change', 'delete'] as const).filter(isAllowed));
    return isNew && may.size === 0 ? [] : [{ ...inline, resource: child, may, callerId: caller.id }];
  });
  const isOnly = tables.filter(({ may }) => may.size > 0).length === 1;
  return tables.map((table) => ({
    ...table,
    rowTitle: isOnly ? t('line') : t('lineOf', { title: table.resource.title }),
  }));
}

const prefixOf = ({ resource }: InlineTable, index: number): string => `${resource.name}.${index}.`;
/** The field of errors about a whole row. */
export const rowName = ({ prefix }: FormRecord): string => `${prefix}_row`;
/** A row without values. */
function emptyRow(table: InlineTable, index: number, isNew: boolean) {
  const { resource, columns, may, rowTitle } = table;
  const [prefix, label] = [prefixOf(table, index), `${rowTitle} ${index + 1}`];
  const editable = may.has(isNew ? 'add' : 'change') ? editableColumns(resource, isNew) : [];
  const fields = columns
    .filter((column) => editable.includes(column))
    .map((column) => new FormField(column, isNew, prefix, label));
  return { table, index, label, resource, prefix, fields, isDeleted: false, isGone: false };
}

const initialOf = ({ resource, callerId }: InlineTable, field: FormField): Typed =>
  field.initial(field.column === resource.ownedBy ? callerId : undefined);

/** A new row with these values, where they are known. */
const newRow = (table: InlineTable, index: number, known?: InlineRow): InlineRow =>
  newRecord(
    emptyRow(table, index, true),
    (field) => known?.typed.get(field.column) ?? initialOf(table, field),
  );

/** The fields in which the user has typed something. */
export function touchedFields(row: InlineRow): readonly FormField[] {
  const { table, fields, typed, stored } = row;
  if (stored) return editedFields(row);
  return fields.filter((field) => {
    const [value, initial] = [typed.get(field.column), initialOf(table, field)];
    return value && !isSame(value, initial) && !(field.isEmpty(value) && field.isEmpty(initial));
  });
}

/** Whether saving the form does something with the row. */
export const isTouched = (row: InlineRow): boolean =>
  row.isGone || (row.isDeleted ? row.stored !== undefined : touchedFields(row).length > 0);

/** The rows of the tables as they are now, the first of a long one, with empty ones at the end. */
export async function storedRows(
  { browsing, resource: parent }: ResourceContext,
  tables: readonly InlineTable[],
  id: string | undefined,
): Promise<readonly InlineRow[]> {
  const recordsOf = async (table: InlineTable): Promise<readonly StoredRecord[]> => {
    const { resource, column } = table;
    if (id === undefined) return [];
    if (isKeyless(resource.model)) {
      const query = `${column.name}=${encodeURIComponent(id)}&limit=${MAX_ROWS}`;
      const { records } = await browsing.list(resource, { query, search: '' });
      return records.map((record) => ({ ...record, version: '' }));
    }
    const ids = await browsing.referring(resource, column, id);
    const found = await browsing.readRows(parent, resource, ids);
    return ids.flatMap((one) => found.get(one) ?? []);
  };
  const rows = await Promise.all(
    tables.map(async (table) => {
      const stored = (await recordsOf(table)).map((record, index) =>
        storedRecord(emptyRow(table, index, false), record),
      );
      const empty = Array.from({ length: table.may.has('add') ? table.extra : 0 }, (_, index) =>
        newRow(table, stored.length + index),
      );
      return [...stored, ...empty];
    }),
  );
  return rows.flat();
}

const countName = ({ resource }: InlineTable): string => [resource.name, '_rows'].join('.');

/** The number of rows that a form has. */
function sentCount({ get }: Form, table: InlineTable): number {
  const count = Number(get(countName(table)) ?? 0);
  return Number.isInteger(count) && count > 0 ? Math.min(count, MAX_SENT) : 0;
}

const indexesOf = (form: Form, table: InlineTable): readonly number[] =>
  table.may.size === 0 ? [] : Array.from({ length: sentCount(form, table) }, (_, index) => index);

const sentId = ({ get }: Form, table: InlineTable, index: number): string | undefined => {
  const id = get(`${prefixOf(table, index)}_id`);
  return id === undefined ? undefined : keyOfField(id);
};

/** The fields of the rows of a form. */
export const fieldsOfSent = (form: Form, tables: readonly InlineTable[]): readonly FormField[] =>
  tables.flatMap((table) =>
    indexesOf(form, table).flatMap(
      (index) => emptyRow(table, index, sentId(form, table, index) === undefined).fields,
    ),
  );

/**
 * The rows of a form, with the stored ones as they are now.
 * @param id of the record of the form; a row of another record counts as deleted
 */
export async function sentRows(
  { browsing, resource: parent }: ResourceContext,
  tables: readonly InlineTable[],
  form: Form,
  id: string | undefined,
): Promise<readonly InlineRow[]> {
  const rows = await Promise.all(
    tables.map(async (table) => {
      const indexes = indexesOf(form, table);
      const ids = indexes.flatMap((index) => sentId(form, table, index) ?? []);
      const records = await browsing.readRows(parent, table.resource, ids);
      return indexes.flatMap((index): InlineRow[] => {
        const rowId = sentId(form, table, index);
        if (rowId === undefined) {
          const empty = emptyRow(table, index, true);
          // A row that was deleted meanwhile leaves a gap in a form that is shown again.
          const isSent = empty.fields.some((field) => form.get(field.name) !== undefined);
          return isSent ? [sentRecord(empty, undefined, form)] : [];
        }
        const record = records.get(rowId);
        const isOurs = record && id !== undefined && textOfField(record.fields, table.column.key) === id;
        const isDeleted = form.get(`${prefixOf(table, index)}_delete`) !== undefined;
        const row = { ...sentRecord(emptyRow(table, index, false), record, form), isDeleted };
        if (isOurs) return [row];
        if (isDeleted || row.typed.size === 0 || !isEdited(row)) return [];
        // Where rows cannot be added, its values are shown to copy.
        const again = table.may.has('add') ? newRow(table, index, row) : { ...row, stored: undefined };
        return [{ ...again, isGone: true }];
      });
    }),
  );
  return rows.flat();
}

/** The rows with more empty ones in the table with this name. */
export function withMoreRows(
  rows: readonly InlineRow[],
  tables: readonly InlineTable[],
  form: Form,
): readonly InlineRow[] {
  const table = tables.find(({ resource }) => resource.name === form.get('_more'));
  if (!table?.may.has('add')) return rows;
  const count = sentCount(form, table);
  const length = Math.min(MORE_ROWS, MAX_SENT - count);
  return [...rows, ...Array.from({ length }, (_, index) => newRow(table, count + index))];
}

/** The rows of a form as rows of a new record. */
export const rowsOfCopy = (
  rows: readonly InlineRow[],
  tables: readonly InlineTable[],
): readonly InlineRow[] =>
  rows
    .filter(({ isDeleted }) => !isDeleted)
    .flatMap((row) => {
      const table = tables.find(({ resource }) => resource === row.resource);
      return table ? [newRow(table, row.index, row)] : [];
    });

/** The first cell of a row: its number, and the errors of the whole row. */
function rowHead(row: InlineRow, errors: FieldErrors): Html {
  const { table, index, label, prefix, stored } = row;
  const name = rowName(row);
  const messages = messagesOf(errors, name);
  const isSent = stored && table.may.size > 0;
  const number = index + 1;
  const isLinked = stored && !isKeyless(table.resource.model);
  return html`${isLinked ? html`<a href="${links.record(table.resource.name, stored.id)}" aria-label="${label}">${number}</a>` : number}
  ${isSent && html`<input type="hidden" name="${prefix}_id" value="${fieldOfKey(stored.id)}" /> ${originFields(row)}`}
  ${
    messages &&
    html`<p class="error" id="field-${name}">
      ${messages.map((message) => html`<span>${sentence(message)}</span> `)}
    </p>`
  }`;
}

function deleteBox(row: InlineRow): Content {
  if (!row.stored) return '';
  const box = {
    name: `${row.prefix}_delete`,
    'aria-label': t('deleteWhat', { what: row.label }),
    checked: row.isDeleted,
  };
  return html`<input type="checkbox" value="1" ${attributes(box)} />`;
}

function cellsOf(
  row: InlineRow,
  render: RenderField | undefined,
  errors: FieldErrors,
  previewed: string | undefined,
): readonly Content[] {
  const { table, fields, typed, stored, isGone } = row;
  return table.columns.map((column) => {
    const value = typed.get(column);
    if (isGone && !table.may.has('add')) return value?.text;
    const field = value && fields.find((one) => one.column === column);
    return field ? render?.(field, errors, previewed) : stored && wholeValue(stored, column);
  });
}

/**
 * The tables of a form with their rows.
 * @param id of the stored record of the form
 * @param renderers render the fields of each row
 * @param previewed the name of the field whose text is shown as it will look
 */
export function renderTables(
  context: ResourceContext,
  tables: readonly InlineTable[],
  rows: readonly InlineRow[],
  renderers: readonly RenderField[],
  errors: FieldErrors,
  id: string | undefined,
  previewed: string | undefined,
): readonly Html[] {
  const { name: parent } = context.resource;
  const action = id === undefined ? links.action(parent, 'add') : links.record(parent, id);
  return tables.map((table) => {
    const { resource, column, columns, may } = table;
    const { name, title } = resource;
    const own = rows.flatMap((row, at) => (row.table.resource === resource ? [{ row, at }] : []));
    const mayType = emptyRow(table, 0, true).fields.length > 0;
    const isRequired = (one: Column): boolean => mayType && new FormField(one, true).isRequired(undefined);
    const titles = columns.map((one) => (isRequired(one) ? `${one.title} *` : one.title));
    const mayDelete = may.has('delete');
    const lines = own.map(({ row, at }) => [
      rowHead(row, errors),
      ...cellsOf(row, renderers[at], errors, previewed),
      ...(mayDelete ? [deleteBox(row)] : []),
    ]);
    const heading = `inline-${name}`;
    const last = Math.max(0, ...own.map(({ row }) => row.index + 1));
    const stored = own.filter(({ row }) => row.stored).length;
    const allText = t('allOf', { title });
    const all =
      id !== undefined &&
      stored >= MAX_ROWS &&
      html`<a href="${links.list(name)}?${column.name}=${encodeURIComponent(id)}">${allText}</a>`;
    return html`<section aria-labelledby="${heading}">
      <h2 id="${heading}">${title}</h2>
      ${may.size > 0 && html`<input type="hidden" name="${countName(table)}" value="${last}" />`}
      ${
        lines.length > 0
          ? html`<div class="scroll">
              ${tableOf([t('line'), ...titles, ...(mayDelete ? [t('delete')] : [])], lines, { labelledBy: heading, className: 'records rows' })}
            </div>`
          : html`<p class="empty">${t('noRecords')}</p>`
      }
      ${
        (may.has('add') || all) &&
        html`<div class="buttons">
          ${may.has('add') && last < MAX_SENT && html`<button class="secondary" name="_more" value="${name}" formaction="${action}#${heading}" formnovalidate>${t('showMoreRows', { count: MORE_ROWS })}</button>`}
          ${all}
        </div>`
      }
    </section>`;
  });
}
