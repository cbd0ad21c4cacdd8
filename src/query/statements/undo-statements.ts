// Reads the entries of the history that an undo reverses.
import { EMPTY, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import { createStatement, isTrue, json, number, text, type Statement } from '../../db/rows.ts';
import { recordColumns, type Model } from '../../db/schema/model.ts';
import { allRows, EVERY_ROW, source } from '../source.ts';
import { UNREADABLE } from './history-entries.ts';
import { recordJson } from './record-json.ts';

/** All entries of one operation, or a single entry. */
export type UndoTarget = { readonly batch: string } | { readonly id: string };

const isMeant = (target: UndoTarget): Fragment =>
  'batch' in target ? sql`h.batch = ${value(target.batch)}` : sql`h.id = ${value(target.id)}::int8`;

/** How many entries an undo has to read, of those that the caller sees, and their bytes. @param history as for `undoEntriesStatement` */
export const undoSizeStatement = (
  history: Model,
  target: UndoTarget,
): Statement<{ readonly entries: number; readonly bytes: number }> =>
  createStatement(
    sql`select count(*), coalesce(sum(coalesce(octet_length(h.before), 0) + coalesce(octet_length(h.after), 0)), 0) from ${source(history, 'h', EVERY_ROW)} where ${isMeant(target)}`,
    ([row]) => ({ entries: number(row?.[0]), bytes: number(row?.[1]) }),
  );

/** An entry as the caller sees it. */
export interface UndoEntry {
  readonly json: string;
  /** The JSON keys of the columns that the caller sees in newer changes of the record, which are not of the same operation. */
  readonly newer: readonly string[];
  /** Whether the caller sees a newer entry that adds or deletes the record, or cannot be read, or whether there are too many. */
  readonly isOutdated: boolean;
}

/** Maximum newer entries of a record that an undo looks at. */
const MAX_NEWER = 100;

/** The entries that the caller sees, the oldest first. @param history its model, with what it shows of the table */
export function undoEntriesStatement(history: Model, target: UndoTarget): Statement<UndoEntry[]> {
  const isOther = 'batch' in target ? raw(' and n.batch is distinct from h.batch') : EMPTY;
  // An index finds the entries of the record in the table, and not in what the caller sees of it.
  const some = sql`(select n.id from ${allRows(history, 'n')} where n.record = h.record and n.model = h.model and n.id > h.id${isOther} limit ${raw(String(MAX_NEWER))}) n`;
  const entries = sql`from ${some} cross join lateral (select * from ${source(history, 's', EVERY_ROW)} where s.id = n.id) s where true`;
  const isOutdated = sql`(select count(*) = ${raw(String(MAX_NEWER))} from ${some}) or exists (select ${entries} and s.action <> 'update')`;
  const newer = sql`(select json_agg(distinct key) from (select json_object_keys(s.after::json) as key ${entries} and s.action = 'update') k)`;
  return createStatement(
    sql`select ${recordJson('h', recordColumns(history))}, ${newer}, ${isOutdated} from ${source(history, 'h', EVERY_ROW)} where ${isMeant(target)} order by h.id`,
    (rows) =>
      rows.map(([entry, keys, outdated]) => {
        const newer = keys ? json<string[]>(keys) : [];
        return {
          json: text(entry) ?? '{}',
          newer,
          isOutdated: isTrue(outdated) || newer.includes(UNREADABLE.key),
        };
      }),
  );
}
