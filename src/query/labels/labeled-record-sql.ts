// SQL of labeled records: records as people read them, with their labels and those of related records.
import { join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { output, reference, type Column } from '../../db/schema/model.ts';
import { labelSql, type Label } from './label-sql.ts';
import { Joins, ROOT, type Projection, type RowVisibility } from '../plan.ts';
import { joinsSql } from '../source.ts';
import { cutForForm, cutOver, cutRecord, isLongColumn } from './preview-sql.ts';
import { recordJson } from '../statements/record-json.ts';

/** What a labeled record contains: its label, its columns, and the labels of related records. */
export interface LabeledRecordContents {
  readonly columns: readonly Column[];
  readonly label: Label;
  /** Maximum characters of the label; `MAX_LABEL` when absent. */
  readonly labelCharacters?: number;
  /** For foreign keys, the labels of the records that they refer to. */
  readonly references: ReadonlyMap<Column, Label>;
  /** Cuts values of more than `over` bytes, or so that a form has at most `form` bytes. Without it, none is cut. */
  readonly cut?: { readonly over: number } | { readonly form: number } | undefined;
  /** The JSON keys of columns that are never cut. */
  readonly whole?: readonly string[];
}

/** Maximum characters of a label. Pages show no more of it beside a record's columns. */
export const MAX_LABEL = 300;

/** The label of the record that a foreign key refers to, or null if it does not exist. */
function labelOfRelated(column: Column, label: Label, joins: Joins): Fragment {
  const target = joins.follow(ROOT, column) ?? ROOT;
  const found = column.references && reference(target, column.references.primaryKey);
  return sql`case when ${found ?? raw('null')} is not null then ${labelSql(target, label, joins, MAX_LABEL)} end`;
}

/** `"user_id":"ada"`, or null if the related record does not exist. */
const referenceLabel = (column: Column, label: Label, joins: Joins): Fragment =>
  sql`${raw(`'"${column.key}":'`)}, coalesce(to_json(${labelOfRelated(column, label, joins)})::text, 'null')`;

/** The same label in a subquery: joins of the whole statement could change the order of its rows. */
export function relatedLabel(column: Column, label: Label, visibility: RowVisibility): Fragment {
  const joins = new Joins('l');
  const text = labelOfRelated(column, label, joins);
  return sql`(select ${text} from (values (1)) one${joinsSql(joins.list, visibility)})`;
}

/** `"casting":"12,34"`, or null if one of the foreign key's columns is NULL. */
const relatedKey = (column: Column): Fragment =>
  sql`${raw(`'"${column.key}":'`)}, coalesce(to_json(${output(ROOT, column)})::text, 'null')`;

/** `{"label":"…","labels":{"user_id":"…"},"record":{…}}` for each row; with foreign keys of several columns also `keys`. */
export function labeledRecord(
  { columns, label, labelCharacters, references, cut, whole = [] }: LabeledRecordContents,
  visibility: RowVisibility,
): Projection {
  const joins = new Joins('l');
  const ownLabel = sql`to_json(${labelSql(ROOT, label, joins, labelCharacters ?? MAX_LABEL)})::text`;
  const labels = [...references].map(
    ([column, text]) => sql`pg_catalog.concat(${referenceLabel(column, text, joins)})`,
  );
  const allLabels = labels.length === 0 ? raw("''") : sql`concat_ws(',', ${join(labels, ', ')})`;
  // Links to records need whole keys, so keys are not cut.
  const isCut = (column: Column): boolean =>
    isLongColumn(column) && !column.references && column.key !== 'id' && !whole.includes(column.key);
  const inForm = cut && 'form' in cut ? cutForForm(columns.filter(isCut), cut.form) : undefined;
  const shown = inForm ?? (cut && 'over' in cut ? cutOver(cut.over) : undefined);
  const composite = [...references.keys()].filter(({ parts }) => parts);
  const keys = composite.map((column) => relatedKey(column));
  const allKeys = keys.length === 0 ? raw("''") : sql`concat(',"keys":{', ${join(keys, ", ',', ")}, '}')`;
  const values = shown ? cutRecord(columns, shown, isCut) : recordJson(ROOT, columns);
  const ofLabels = joinsSql(joins.list, visibility);
  return {
    value: sql`concat('{"label":', ${ownLabel}, ',"labels":{', ${allLabels}, '}', ${allKeys}, ',"record":', ${values}, '}')`,
    joins: inForm ? sql`${ofLabels}${inForm.joins}` : ofLabels,
  };
}
