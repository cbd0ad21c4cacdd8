import type { Column } from '../../db/schema/model.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { joinLabel } from '../../query/statements/label-sql.ts';
import { isVisible, textOfField, type RecordEntry } from '../../resources/records/record-entry.ts';
import { parseJsonFields, type JsonFields } from '../../resources/records/json-fields.ts';
import type { AdminContext } from '../web/admin-context.ts';

/** An entry of the log as the pages show it: of the values only what the admin area shows now. */
export interface HistoryChange {
  readonly id: string;
  readonly at: string;
  readonly user: { readonly key: string; readonly name: string } | undefined;
  readonly door: string;
  readonly action: string;
  readonly model: string;
  /** The record's key; empty where the history hides it. */
  readonly record: string;
  /** Undefined for a model that the admin area does not show, or no longer. */
  readonly resource: AdminResource | undefined;
  readonly before: JsonFields;
  readonly after: JsonFields;
}

/** What the records are called that changes speak of, and whether they are still there. */
export interface Known {
  readonly label: (resource: AdminResource | undefined, id: string) => string | undefined;
}

/** Reads an entry of the log. */
export function changeOf({ id, members }: RecordEntry, { resources }: AdminContext): HistoryChange {
  const text = (key: string): string => textOfField(members, key) ?? '';
  const name = textOfField(members, 'user_name');
  const values = (key: string): JsonFields => parseJsonFields(textOfField(members, key) ?? '{}');
  return {
    id,
    at: text('at'),
    user: name === null ? undefined : { key: text('user_key'), name },
    door: text('door'),
    action: text('action'),
    model: text('model'),
    record: text('record'),
    resource: resources.get(text('model')),
    before: values('before'),
    after: values('after'),
  };
}

/** The columns whose values the entry has, in the order of the record; its key is told already. */
export function columnsOf({ resource, before, after }: HistoryChange): readonly Column[] {
  if (!resource) return [];
  const { model, output, passwords } = resource;
  const isKnown = ({ key }: Column): boolean => before.has(key) || after.has(key);
  return model.columns.filter(
    (column) => isKnown(column) && (output.includes(column) || passwords.includes(column)),
  );
}

/**
 * Looks up what the records are called that changes speak of: who made them, what was changed, and what it refers to. One query
 * for each model, however many changes there are.
 * @param withValues whether what the changed columns refer to is looked up, too
 */
export async function knownRecords(
  context: AdminContext,
  changes: readonly HistoryChange[],
  withValues = true,
): Promise<Known> {
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

/** What a record was called when its members were written down, as far as they tell. */
export function formerLabel({ label }: AdminResource, members: JsonFields): string | undefined {
  // What another record would add is not known: it may have changed since.
  const text = joinLabel(label, ({ path, column }) =>
    path.length > 0 ? null : textOfField(members, column.key),
  );
  return isVisible(text) ? text : undefined;
}

/** What a change calls its record when no record has its key: the label of that time, else the key, as far as it is shown. */
export function formerName({ resource, action, before, after, record }: HistoryChange): string {
  const label = resource && formerLabel(resource, action === 'delete' ? before : after);
  return label ?? (record === '' ? '' : `#${record}`);
}
