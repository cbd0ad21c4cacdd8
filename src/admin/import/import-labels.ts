// Finds the labels of referenced records for the preview.
import type { Column } from '../../db/schema/model.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { labelsFor } from '../../resources/records/record-labels.ts';
import type { ImportOutcome } from './import-run.ts';

/** The label of the record that a foreign key value references; undefined if it is unknown. */
export type LabelOf = (column: Column, value: string) => string | undefined;

/** Looks up the labels of all records that the shown rows reference. */
export async function referenceLabels(
  { browsing, resources }: AdminContext,
  { shown }: Pick<ImportOutcome, 'shown'>,
): Promise<LabelOf> {
  const targetOf = ({ references }: Column) => references && resources.get(references.name);
  const changes = Object.values(shown).flatMap((rows) => rows.flatMap((row) => row.changes));
  const records = changes.flatMap(({ column, before, after }) =>
    [before, after].map((id) => [targetOf(column), id] as const),
  );
  const labelOf = await labelsFor(records, browsing.labelsOf);
  return (column, value) => labelOf(targetOf(column), value);
}
