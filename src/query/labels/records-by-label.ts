// Finds records by their labels, for an import.
import { sql, valueList } from '../../db/fragment.ts';
import { createStatement, number, text as textOf, type Statement } from '../../db/rows.ts';
import { output, type Model } from '../../db/schema/model.ts';
import { Joins, ROOT, type RowVisibility } from '../plan.ts';
import { joinsSql, source } from '../source.ts';
import { labelSql, type Label } from './label-sql.ts';
import { MAX_LABEL } from './labeled-record-sql.ts';

/** The record with a label, or one of several. */
export interface LabelMatch {
  /** The position of the label, from 0. */
  readonly index: number;
  readonly id: string;
  readonly isUnique: boolean;
}

/** Finds the records with these labels, ignoring case. */
export function recordsByLabelStatement(
  model: Model,
  label: Label,
  labels: readonly string[],
  visibility: RowVisibility,
): Statement<LabelMatch[]> {
  const joins = new Joins('l');
  // The columns of a label may have different collations.
  const own = sql`lower((${labelSql(ROOT, label, joins, MAX_LABEL)}) collate "default")`;
  const rows = sql`select ${own} as label, (${output(ROOT, model.primaryKey)})::text as id from ${source(model, ROOT, visibility)}${joinsSql(joins.list, visibility)}`;
  return createStatement(
    sql`select k.position::text, min(r.id collate "C"), count(*)::text from unnest(${valueList(labels)}) with ordinality k (id, position) join (${rows}) r on r.label = lower(k.id collate "default") group by k.position`,
    (found) =>
      found.map(([position, id, count]) => ({
        index: number(position) - 1,
        id: textOf(id) ?? '',
        isUnique: number(count) === 1,
      })),
  );
}
