// Finds records by their labels, for an import.
import { raw, sql, valueList } from '../../db/fragment.ts';
import { createStatement, json, number, type Statement } from '../../db/rows.ts';
import { output, type Model } from '../../db/schema/model.ts';
import { Joins, ROOT, type RowVisibility } from '../plan.ts';
import { joinsSql, source } from '../source.ts';
import { labelSql, type Label } from './label-sql.ts';
import { MAX_LABEL } from './labeled-record-sql.ts';

/** The records with a label. */
export interface LabelMatch {
  /** The position of the label, from 0. */
  readonly index: number;
  /** The keys of the first of them. */
  readonly ids: readonly string[];
}

/** Maximum records with one label that are named. */
const MAX_IDS = 100;

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
  const ids = sql`to_json((array_agg(r.id order by r.id collate "C"))[1:${raw(String(MAX_IDS))}])`;
  return createStatement(
    sql`select k.position::text, ${ids}::text from unnest(${valueList(labels)}) with ordinality k (id, position) join (${rows}) r on r.label = lower(k.id collate "default") group by k.position`,
    (found) => found.map(([position, keys]) => ({ index: number(position) - 1, ids: json(keys) })),
  );
}
