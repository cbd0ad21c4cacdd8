import { join, raw, sql, type Fragment } from '../db/fragment.ts';
import { reference, type Column } from '../db/model.ts';
import { LabelJoins, labelSql, type Label } from './label.ts';
import { ROOT } from './plan.ts';
import { cutRecord, isLong } from './preview.ts';
import type { Shown } from './read.ts';
import { record } from './record.ts';

/** A record as people look at it: what it is called, its columns, and what the records that it refers to are called. */
export interface EntryShape {
  readonly columns: readonly Column[];
  readonly label: Label;
  /** The labels of what foreign keys refer to. */
  readonly references: ReadonlyMap<Column, Label>;
  /** Bytes from which on a value is cut; undefined where all are needed in full. */
  readonly most?: number | undefined;
}

/** `"user_id":"ada"`, null where there is no such record. */
function referenceLabel(column: Column, label: Label, joins: LabelJoins): Fragment {
  const target = joins.follow(ROOT, column);
  const found = column.references && reference(target, column.references.primaryKey);
  const text = sql`to_json(${labelSql(target, label, joins)})::text`;
  return sql`${raw(`'"${column.key}":'`)}, case when ${found ?? raw('null')} is null then 'null' else ${text} end`;
}

/** `{"label":"…","labels":{"user_id":"…"},"record":{…}}` of each row. */
export function entry({ columns, label, references, most }: EntryShape): Shown {
  const joins = new LabelJoins();
  const own = sql`to_json(${labelSql(ROOT, label, joins)})::text`;
  const labels = [...references].map(([column, text]) => sql`concat(${referenceLabel(column, text, joins)})`);
  const all = labels.length === 0 ? raw("''") : sql`concat_ws(',', ${join(labels, ', ')})`;
  // Keys lead to records, so they stay whole.
  const isCut = (column: Column): boolean => isLong(column) && !column.references && column.key !== 'id';
  const values = most === undefined ? record(ROOT, columns) : cutRecord(columns, most, isCut);
  return {
    value: sql`concat('{"label":', ${own}, ',"labels":{', ${all}, '},"record":', ${values}, '}')`,
    joins: joins.sql(),
  };
}
