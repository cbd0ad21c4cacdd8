// Reads entries of the history, and the labels of the records in them.
import type { Column } from '../../db/schema/model.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Caller } from '../../resources/access/access.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { AdminAction } from '../../resources/definition/resource.ts';
import { SOURCE_COLUMN } from '../../resources/definition/system-tables.ts';
import { joinLabel } from '../../query/labels/label-sql.ts';
import { countUnreadable, MAX_READ_BYTES, UNREADABLE } from '../../query/statements/history-entries.ts';
import { isVisible, textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { parseJsonFields, type JsonFields } from '../../resources/records/json-fields.ts';
import { loadOptional } from '../fields/optional-part.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { redirectDone } from '../web/admin-request.ts';
import { links } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';
import { html, type Html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { labelsFor, type RecordLabels } from '../web/record-labels.ts';

/** An entry of the history. It has only the values that the admin area shows now. */
export interface HistoryChange {
  readonly id: string;
  readonly at: string;
  readonly user: { readonly key: string; readonly name: string } | undefined;
  readonly source: string;
  readonly action: string;
  readonly model: string;
  /** That of the resource, or the name of a model that the admin area does not show. */
  readonly title: string;
  /** The record's key; empty where the history hides it. */
  readonly record: string;
  /** Undefined if the admin area does not show the model. */
  readonly resource: AdminView | undefined;
  readonly before: JsonFields;
  readonly after: JsonFields;
  /** Why the entry has no values, if they are too large to be read. */
  readonly unreadable: string | undefined;
  /** The same in all changes of one operation; null for a change alone. */
  readonly batch: string | null;
  /** The deleted record that led to this change of the database. Its key is empty where it is hidden. */
  readonly cause: { readonly model: string; readonly record: string } | undefined;
  /** About the request; null for what is hidden, or was not recorded. */
  readonly roles: string | null;
  readonly address: string | null;
  readonly request: string | null;
}

/** Reads an entry of the history. */
export function changeOf(
  { id, fields }: Pick<LabeledRecord, 'id' | 'fields'>,
  { resources }: AdminContext,
): HistoryChange {
  const text = (key: string): string => textOfField(fields, key) ?? '';
  const name = textOfField(fields, 'user_name');
  const values = (key: string): JsonFields => parseJsonFields(textOfField(fields, key) ?? '{}');
  const cause = textOfField(fields, 'cause');
  const model = text('model');
  const [before, after] = [values('before'), values('after')];
  const isUnreadable = before.has(UNREADABLE.key) || after.has(UNREADABLE.key);
  if (isUnreadable) countUnreadable();
  const resource = resources.get(model);
  const [causeModel = '', ...causeKey] = cause?.split('/') ?? [];
  return {
    id,
    at: text('at'),
    user: name === null ? undefined : { key: text('user_key'), name },
    source: text(SOURCE_COLUMN),
    action: text('action'),
    model,
    title: resource?.title ?? model,
    record: text('record'),
    resource,
    before,
    after,
    unreadable: isUnreadable ? t('valuesTooLarge', { bytes: MAX_READ_BYTES }) : undefined,
    batch: textOfField(fields, 'batch'),
    cause: cause === null ? undefined : { model: causeModel, record: causeKey.join('/') },
    roles: textOfField(fields, 'roles'),
    address: textOfField(fields, 'address'),
    request: textOfField(fields, 'request'),
  };
}

/** The right that reversing an action needs. */
export const REVERSE: Readonly<Record<string, AdminAction>> = {
  create: 'delete',
  update: 'change',
  delete: 'add',
};

/** Whether the entry offers an undo: of a deletion, or of an operation on several records. */
export const mayUndo = ({ resource, action, batch }: HistoryChange): boolean =>
  (batch !== null || action === 'delete') && resource?.may.has(REVERSE[action] ?? 'change') === true;

/** Redirects after an operation on several records, with a link to its undo. @param href of the record in question */
export async function redirectChanged(
  context: AdminContext,
  location: string,
  text: string,
  { origin }: Caller,
  href?: string,
): Promise<Reply> {
  const { browsing, history } = context;
  const query = `batch=${origin?.batch}&limit=1`;
  // The table may be of a version without batches.
  const isInBatch = origin?.batch !== undefined && history.find(['batch']) !== undefined;
  const reading = isInBatch ? browsing.list(history, { query, search: '' }) : undefined;
  const [entry] = (reading && (await loadOptional(context, 'the link to an undo', reading)))?.records ?? [];
  const isOffered = entry && mayUndo(changeOf(entry, context));
  const undo = isOffered ? links.part(history.name, entry.id, 'undo') : undefined;
  return redirectDone(context, location, text, { href, undo });
}

/** The parameter of the address of a new record that names the columns without a value, which get no default either. */
export const NO_VALUES = '_null';

/** The values that `Put these values back` fills in: those before the change, or those of an added record. */
export const valuesToPutBack = ({ action, before, after }: HistoryChange): JsonFields =>
  action === 'create' ? after : before;

/** The visible columns that the entry has values for, in the order of the record. */
export function columnsOf({ resource, before, after }: HistoryChange): readonly Column[] {
  if (!resource) return [];
  const { model, output, passwords } = resource;
  const isKnown = ({ key }: Column): boolean => before.has(key) || after.has(key);
  return model.columns.filter(
    (column) => isKnown(column) && (output.includes(column) || passwords.includes(column)),
  );
}

/**
 * Loads the labels of the changed records, with one query for each model.
 * @param read the labels of one resource's records, by key
 */
export const labelsOfChanged = (
  { browsing }: AdminContext,
  changes: readonly HistoryChange[],
  read = browsing.labelsOf,
): Promise<RecordLabels> =>
  labelsFor(
    changes.map(({ resource, record }) => [resource, record]),
    read,
  );

/** Loads the labels of all records in some changes: also the users, and the targets of foreign keys. */
export function labelsIn(
  { resources, settings, browsing }: AdminContext,
  changes: readonly HistoryChange[],
): Promise<RecordLabels> {
  const users = resources.get(settings.userModel);
  const records = changes.flatMap((change) => [
    [users, change.user?.key] as const,
    [change.resource, change.record] as const,
    ...columnsOf(change).flatMap((column) => {
      const target = column.references && resources.get(column.references.name);
      return [change.before, change.after].map(
        (values) => [target, textOfField(values, column.key)] as const,
      );
    }),
  ]);
  return labelsFor(records, browsing.labelsOf);
}

/** The label of a record at the time of the change, from the recorded values; undefined if they do not give one. */
export function formerLabel({ label }: AdminView, fields: JsonFields): string | undefined {
  // Parts of the label from related records are left out: those may have changed since.
  const text = joinLabel(label, ({ path, column }) =>
    path.length > 0 ? null : textOfField(fields, column.key),
  );
  return isVisible(text) ? text : undefined;
}

/** The name of a deleted record: its label at the time of the change, else its key, else empty if the key is hidden. */
export function formerName({ resource, action, before, after, record }: HistoryChange): string {
  const label = resource && formerLabel(resource, action === 'delete' ? before : after);
  return label ?? (record === '' ? '' : `#${record}`);
}

/** The names of deleted records in some changes: the last ones, if the deletions are among the changes. */
export function formerNames(changes: readonly HistoryChange[]): (change: HistoryChange) => string {
  const keyOf = ({ model, record }: HistoryChange): string => `${model} ${record}`;
  const deletions = changes
    .filter(({ action, record }) => action === 'delete' && record !== '')
    .toSorted((one, other) => Number(one.id) - Number(other.id));
  const last = new Map(deletions.map((change) => [keyOf(change), change]));
  return (change) => formerName(last.get(keyOf(change)) ?? change);
}

/**
 * The changed record: its present label with a link, else the last known one.
 * @param nameOf see `formerNames`
 * @param max characters
 */
export function changedRecord(
  change: HistoryChange,
  labels: RecordLabels,
  nameOf: (change: HistoryChange) => string,
  max?: number,
): Html | string {
  const { resource, record } = change;
  const label = labels(resource, record);
  return resource && label !== undefined
    ? html`<a href="${links.record(resource.name, record)}">${shortened(label, max)}</a>`
    : shortened(nameOf(change), max);
}
