import type { Column } from '../../db/schema/model.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { ImportOutcome } from './import-run.ts';

/** What the record is called that a value of a foreign key names, where that is known. */
export type LabelOf = (column: Column, value: string) => string | undefined;

/** Looks up what the records are called to which the rows refer that are shown. */
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
