// Reads entries of the history, and the labels of the records in them.
import type { Column } from '../../db/schema/model.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { joinLabel } from '../../query/statements/label-sql.ts';
import { isVisible, textOfField, type RecordEntry } from '../../resources/records/record-entry.ts';
import { parseJsonFields, type JsonFields } from '../../resources/records/json-fields.ts';
import type { AdminContext } from '../web/admin-context.ts';

/** An entry of the history. It has only the values that the admin area shows now. */
export interface HistoryChange {
  readonly id: string;
  readonly at: string;
  readonly user: { readonly key: string; readonly name: string } | undefined;
  readonly source: string;
  readonly action: string;
  readonly model: string;
  /** The record's key; empty where the history hides it. */
  readonly record: string;
  /** Undefined if the admin area does not show the model. */
  readonly resource: AdminResource | undefined;
  readonly before: JsonFields;
  readonly after: JsonFields;
}

/** The labels of the records in some changes; undefined for a deleted record. */
export interface RecordLabels {
  readonly label: (resource: AdminResource | undefined, id: string) => string | undefined;
}

/** Reads an entry of the history. */
export function changeOf({ id, members }: RecordEntry, { resources }: AdminContext): HistoryChange {
  const text = (key: string): string => textOfField(members, key) ?? '';
  const name = textOfField(members, 'user_name');
  const values = (key: string): JsonFields => parseJsonFields(textOfField(members, key) ?? '{}');
  return {
    id,
    at: text('at'),
    user: name === null ? undefined : { key: text('user_key'), name },
    source: text('door'),
    action: text('action'),
    model: text('model'),
    record: text('record'),
    resource: resources.get(text('model')),
    before: values('before'),
    after: values('after'),
  };
}

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
 * Loads the labels of the records in some changes: the users, the changed records, and the targets of foreign keys. One query for
 * each model, for any number of changes.
 * @param withValues whether to load the targets of foreign keys
 */
export async function loadRecordLabels(
  context: AdminContext,
  changes: readonly HistoryChange[],
  withValues = true,
): Promise<RecordLabels> {
  const users = context.resources.get(context.settings.userModel);
  const wanted = new Map<AdminResource, Set<string>>();
  const want = (resource: AdminResource | undefined, id: string | null | undefined): void => {
    if (!resource || id === null || id === undefined) return;
    wanted.set(resource, (wanted.get(resource) ?? new Set()).add(id));
  };
  for (const change of changes) {
    want(users, change.user?.key);
    want(change.resource, change.record);
    for (const column of withValues ? columnsOf(change) : []) {
      const target = column.references && context.resources.get(column.references.name);
      for (const members of [change.before, change.after]) want(target, textOfField(members, column.key));
    }
  }
  const labels = new Map<AdminResource, ReadonlyMap<string, string>>();
  await Promise.all(
    [...wanted].map(async ([resource, ids]) => {
      labels.set(resource, await context.browsing.labelsOf(resource, ids));
    }),
  );
  return { label: (resource, id) => resource && labels.get(resource)?.get(id) };
}

/** The label of a record at the time of the change, from the recorded values; undefined if they do not give one. */
export function formerLabel({ label }: AdminResource, members: JsonFields): string | undefined {
  // Parts of the label from related records are left out: those may have changed since.
  const text = joinLabel(label, ({ path, column }) =>
    path.length > 0 ? null : textOfField(members, column.key),
  );
  return isVisible(text) ? text : undefined;
}

/** The name of a deleted record: its label at the time of the change, else its key, else empty if the key is hidden. */
export function formerName({ resource, action, before, after, record }: HistoryChange): string {
  const label = resource && formerLabel(resource, action === 'delete' ? before : after);
  return label ?? (record === '' ? '' : `#${record}`);
}
