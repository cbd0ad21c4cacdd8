// The values of the rows of a file: what its cells mean in the columns that they are mapped to.
import type { Transaction } from '../../db/connection/transactions.ts';
import type { Column } from '../../db/schema/model.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { FieldErrors } from '../../errors.ts';
import { withoutGuard } from '../../query/csv/csv-rows.ts';
import { recordsByLabelStatement, type LabelMatch } from '../../query/labels/records-by-label.ts';
import { LONGEST_NAME } from '../../resources/records/look-up.ts';
import { relatedOf } from '../fields/references.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { t } from '../web/language.ts';
import type { FileRow, ImportFile } from './import-file.ts';
import { valueOf, type MappedColumn } from './import-formats.ts';
import type { Mapping } from './import-mapping.ts';

/** A row with a value per mapped column, as the API has it. */
export interface ImportRow extends FileRow {
  /** Null for no value. */
  readonly values: readonly (string | null)[];
  /** The cells that have no value in their format. */
  readonly faults: FieldErrors;
}

/** The field name for errors that belong to no column. */
export const WHOLE_ROW = '';

/** The label that a cell names. */
const labelIn = (cell: string | null | undefined): string => withoutGuard(cell ?? '').trim();

/** Finds the records that the cells of a column name by their labels. */
async function recordsByLabel(
  run: Transaction['run'],
  context: ResourceContext,
  { column, index }: MappedColumn,
  rows: readonly FileRow[],
): Promise<ReadonlyMap<string, LabelMatch>> {
  const related = relatedOf(column, context);
  const names = rows.map(({ cells }) => labelIn(cells[index]));
  const labels = [...new Set(names)].filter((name) => name !== '' && name.length <= LONGEST_NAME);
  if (!related || labels.length === 0) return new Map();
  const { model, label, visibility } = related;
  const found = await run(recordsByLabelStatement(model, label, labels, visibility));
  return new Map(found.map((match) => [labels[match.index] ?? '', match]));
}

/** Reads the values of all rows. */
export async function readRows(
  run: Transaction['run'],
  context: ResourceContext,
  { rows }: ImportFile,
  { mapped }: Mapping,
  yieldIfDue: YieldIfDue,
): Promise<ImportRow[]> {
  const labels = new Map<Column, ReadonlyMap<string, LabelMatch>>();
  for (const one of mapped)
    if (one.format === 'label') labels.set(one.column, await recordsByLabel(run, context, one, rows));
  const read: ImportRow[] = [];
  for (const row of rows) {
    const faults: FieldErrors = {};
    const values = mapped.map((one) => {
      const cell = row.cells[one.index] ?? null;
      const named = labels.get(one.column);
      if (!named) return valueOf(cell, one);
      const name = labelIn(cell);
      const match = named.get(name);
      if (name === '' || match?.isUnique) return match?.id ?? null;
      faults[one.column.key] = [t(match ? 'severalHaveLabel' : 'noneHasLabel')];
      return name;
    });
    read.push({ ...row, values, faults });
    await yieldIfDue();
  }
  return read;
}
