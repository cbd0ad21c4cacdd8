// The labels of records of any resources, with one query for each resource.
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { Browsing } from '../../resources/records/admin-listing.ts';

/** The label of a record; undefined for a deleted one, and for a resource that the admin area does not show. */
export type RecordLabels = (resource: AdminView | undefined, id: string) => string | undefined;

/**
 * Reads the labels of records.
 * @param records resources and keys; without either of them, there is nothing to read
 * @param read the labels of one resource's records, by key
 */
export async function labelsFor(
  records: Iterable<readonly [AdminView | undefined, string | null | undefined]>,
  read: Browsing['labelsOf'],
): Promise<RecordLabels> {
  const wanted = new Map<AdminView, Set<string>>();
  for (const [resource, id] of records) {
    if (!resource || id === null || id === undefined) continue;
    wanted.set(resource, (wanted.get(resource) ?? new Set()).add(id));
  }
  const found = new Map(
    await Promise.all(
      [...wanted].map(async ([resource, ids]) => [resource, await read(resource, ids)] as const),
    ),
  );
  return (resource, id) => resource && found.get(resource)?.get(id);
}
