import { join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { reference, type Column } from '../../db/schema/model.ts';
import { LabelJoins, labelSql, type Label } from './label-sql.ts';
import { isCutInside } from './masked-history-sql.ts';
import { ROOT } from '../plan.ts';
import { cutForForm, cutOver, cutRecord, isLong } from './preview-sql.ts';
import type { Shown } from './read-statements.ts';
import { record } from './record-json.ts';

/** A record as people look at it: what it is called, its columns, and what the records that it refers to are called. */
export interface EntryShape {
  readonly columns: readonly Column[];
  readonly label: Label;
  /** Characters from which on the label is cut; `SHOWN_LABEL` unless it is given. */
  readonly labelCharacters?: number;
  /** The labels of what foreign keys refer to. */
  readonly references: ReadonlyMap<Column, Label>;
  /** Whether values that are too long to be shown are cut, or those that are too long for a form; else none is. */
  readonly cut?: { readonly over: number } | { readonly form: number } | undefined;
}

/** Characters of a label at most where a record is shown: pages show no more of it beside its columns. */
const SHOWN_LABEL = 300;

/** `"user_id":"ada"`, null where there is no such record. */
function referenceLabel(column: Column, label: Label, joins: LabelJoins): Fragment {
  const target = joins.follow(ROOT, column);
  const found = column.references && reference(target, column.references.primaryKey);
  const text = sql`to_json(${labelSql(target, label, joins, SHOWN_LABEL)})::text`;
  return sql`${raw(`'"${column.key}":'`)}, case when ${found ?? raw('null')} is null then 'null' else ${text} end`;
}

/** `{"label":"…","labels":{"user_id":"…"},"record":{…}}` of each row. */
export function entry({ columns, label, labelCharacters, references, cut }: EntryShape): Shown {
  const joins = new LabelJoins();
  const own = sql`to_json(${labelSql(ROOT, label, joins, labelCharacters ?? SHOWN_LABEL)})::text`;
  const labels = [...references].map(([column, text]) => sql`concat(${referenceLabel(column, text, joins)})`);
  const all = labels.length === 0 ? raw("''") : sql`concat_ws(',', ${join(labels, ', ')})`;
  // Keys lead to records, so they stay whole.
  const isCut = (column: Column): boolean =>
    isLong(column) && !column.references && column.key !== 'id' && !isCutInside(column);
  const inForm = cut && 'form' in cut ? cutForForm(columns.filter(isCut), cut.form) : undefined;
  const shown = inForm ?? (cut && 'over' in cut ? cutOver(cut.over) : undefined);
  const values = shown ? cutRecord(columns, shown, isCut) : record(ROOT, columns);
  return {
    value: sql`concat('{"label":', ${own}, ',"labels":{', ${all}, '},"record":', ${values}, '}')`,
    joins: inForm ? sql`${joins.sql()}${inForm.joins}` : joins.sql(),
  };
}
