// Finds the labels of referenced records for the preview.
import type { Column } from '../../db/schema/model.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { ImportOutcome } from './import-run.ts';

/** The label of the record that a foreign key value references; undefined if it is unknown. */
export type LabelOf = (column: Column, value: string) => string | undefined;

/** Looks up the labels of all records that the shown rows reference. */
export async function referenceLabels(
  { browsing, resources }: AdminContext,
  { shown }: Pick<ImportOutcome, 'shown'>,
): Promise<LabelOf> {
  const wanted = new Map<AdminResource, Set<string>>();
  const targetOf = ({ references }: Column): AdminResource | undefined =>
    references && resources.get(references.name);
  for (const { column, before, after } of Object.values(shown)
    .flat()
    .flatMap(({ changes }) => changes)) {
    const target = targetOf(column);
    if (!target) continue;
    const ids = wanted.get(target) ?? new Set();
    for (const id of [before, after]) if (id !== null) ids.add(id);
    wanted.set(target, ids);
  }
  const labels = new Map<AdminResource, ReadonlyMap<string, string>>();
  await Promise.all(
    [...wanted].map(async ([target, ids]) => labels.set(target, await browsing.labelsOf(target, ids))),
  );
  return (column, value) => {
    const target = targetOf(column);
    return target && labels.get(target)?.get(value);
  };
}
