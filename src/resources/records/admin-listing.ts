// Lists, reads and counts records for the admin area.
import type { Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { isDatabaseError, refusal } from '../../db/connection/database-errors.ts';
import { namedColumns, type Column } from '../../db/schema/model.ts';
import { badQuery, type FieldErrors } from '../../errors.ts';
import {
  cappedCountStatement,
  chosenOnly,
  estimateStatement,
  metRulesStatement,
  valueCountsStatement,
  placeStatement,
  type Place,
} from '../../query/statements/bulk-statements.ts';
import { hasValuesStatement } from '../../query/statements/conflict-statements.ts';
import { recordsByLabelStatement } from '../../query/labels/records-by-label.ts';
import { labeledRecord, type LabeledRecordContents } from '../../query/labels/labeled-record-sql.ts';
import { parseListQuery, type ListQuery } from '../../query/parse/grammar.ts';
import { cutColumn } from '../../query/statements/visible-history.ts';
import { mayHideRows, planList, type Boundary, type ListPlan, type Projection } from '../../query/plan.ts';
import { pageStatement } from '../../query/read.ts';
import {
  foundRecordsStatement,
  recordStatement,
  type MakeRecordStatement,
} from '../../query/statements/records-by-key.ts';
import type { AdminView, AdminViews } from '../access/admin-view.ts';
import { pageTooLarge } from './api-listing.ts';
import { checkBody } from './checked-body.ts';
import type { JsonFields } from './json-fields.ts';
import type { Count, Selection } from '../../query/selection.ts';
import { createLookUp, createSearch, LONGEST_NAME, wordsOf, type Found, type Named } from './look-up.ts';
import {
  parseLabeledRecords,
  parseLargeRecord,
  type LabeledRecord,
  type StoredRecord,
} from './labeled-record.ts';
import { HISTORY } from '../definition/system-tables.ts';
import { parseId, readRecord, recordResult } from './read-record.ts';
import type { Caller } from '../access/access.ts';

export interface LabeledRecordPage {
  readonly query: ListQuery;
  readonly records: readonly LabeledRecord[];
  readonly hasNext: boolean;
}

/** Maximum records that are counted exactly. */
const MAX_COUNTED = 10_000;
/** Values over this many bytes are cut, to a quarter as many characters. Lists and confirmation pages show less. */
const CUT_FROM_BYTES = 2048;
/** Maximum total bytes of the long values in a record's form; `MAX_BODY` where that is less. */
export const LONGEST_FORM = 1024 * 1024;
/** Maximum rows of a child table on a form. */
export const MAX_ROWS = 50;
/** Maximum ids in one query for labels. */
const MAX_IDS_PER_QUERY = 200;
/** Maximum bytes of keys and labels that one query returns. Ordinary keys and labels stay below it. */
const LONGEST_LABELS = 4 * 1024 * 1024;
/** Columns of the history that are not cut: the keys, because links have them, and those in which each value is cut. */
const HISTORY_WHOLE = ['record', 'user_key', 'before', 'after'];
const isHistory = ({ name }: AdminView): boolean => name === HISTORY.model;

/** A function that computes each value once. */
function memoized<Key, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const values = new Map<Key, Value>();
  return (key) => {
    const value = values.get(key) ?? compute(key);
    values.set(key, value);
    return value;
  };
}

/** SQL that is compiled once per resource and shared by all requests. */
export function createLabelStatements(resources: AdminViews, { maxBody }: Pick<Settings, 'maxBody'>) {
  function projectionOf(resource: AdminView, cut: LabeledRecordContents['cut']): Projection {
    const references = namedColumns(resource.model, resource.output).flatMap((column) => {
      const target = column.references && resources.get(column.references.name);
      return target ? [[column, target.label] as const] : [];
    });
    const contents = {
      columns: isHistory(resource) ? resource.output.map(cutColumn) : resource.output,
      whole: isHistory(resource) ? HISTORY_WHOLE : [],
      label: resource.label,
      references: new Map(references),
      cut,
    };
    return labeledRecord(contents, resource.visibility);
  }
  /** A record shares its form with the rows of child tables. */
  const shareOf = ({ inlines }: AdminView): number =>
    Math.floor(Math.min(maxBody, LONGEST_FORM) / (inlines.length > 0 ? 2 : 1));
  return {
    shown: memoized((resource: AdminView) => projectionOf(resource, { over: CUT_FROM_BYTES })),
    label: memoized(({ label, model, visibility }: AdminView) =>
      labeledRecord(
        { columns: [model.primaryKey], label, labelCharacters: LONGEST_NAME, references: new Map() },
        visibility,
      ),
    ),
    recordForForm: memoized((resource: AdminView) =>
      recordStatement(
        resource.model,
        projectionOf(resource, { form: shareOf(resource) }),
        resource.visibility,
      ),
    ),
    /** The rows of child tables on the form of this resource share what a record may have. */
    rowsForForm: memoized((parent: AdminView) => {
      const share = Math.floor(shareOf(parent) / (MAX_ROWS * parent.inlines.length));
      return memoized((resource: AdminView) => projectionOf(resource, { form: share }));
    }),
  };
}

export type LabelStatements = ReturnType<typeof createLabelStatements>;

export type Browsing = ReturnType<typeof createBrowsing>;

/** Lists, reads and counts records for the admin area: the API's queries, with labels and a search. */
export function createBrowsing(
  database: Pick<Database, 'run'>,
  resources: AdminViews,
  statements: LabelStatements,
  { maxPage }: Pick<Settings, 'maxPage'>,
) {
  function planOf(resource: AdminView, { query, search, ids }: Selection): [ListQuery, ListPlan] {
    const errors: FieldErrors = {};
    const parsed = parseListQuery(query, resource, errors, Infinity);
    const plan = planList(parsed, resource.model, resource.visibility, resource.ordering, errors, {
      words: wordsOf(search),
      paths: resource.search,
    });
    if (Object.keys(errors).length > 0) throw badQuery(errors);
    const keys = ids?.flatMap((id) => parseId(resource, id) ?? []);
    return [parsed, keys ? chosenOnly(plan, keys) : plan];
  }

  /** One page of records. @returns undefined if they exceed the byte limit */
  async function recordsOf(list: ListPlan, columns: Projection, maxBytes: number, boundary?: Boundary) {
    const statement = pageStatement({ list, columns, maxBytes, boundary });
    const { objects, hasMore } = await database.run(statement, 'read');
    return (
      objects && { records: await parseLabeledRecords(String(Buffer.concat(objects))), hasNext: hasMore }
    );
  }

  /** The keys and labels of records. */
  async function labels(resource: AdminView, selection: Selection): Promise<Found> {
    const plan = planOf(resource, selection)[1];
    // Only keys of many kilobytes exceed the limit. No one chooses among those.
    return (
      (await recordsOf(plan, statements.label(resource), LONGEST_LABELS)) ?? { records: [], hasNext: true }
    );
  }

  /** The labels of the records with these keys, by key. */
  async function labelsOf(
    resource: AdminView,
    ids: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, string>> {
    const all = [...ids].filter((id) => parseId(resource, id) !== undefined);
    const parts: string[][] = [];
    while (all.length > 0) parts.push(all.splice(0, MAX_IDS_PER_QUERY));
    const query = `limit=${MAX_IDS_PER_QUERY}`;
    const pages = await Promise.all(parts.map((part) => labels(resource, { query, search: '', ids: part })));
    return new Map(pages.flatMap(({ records }) => records.map(({ id, label }) => [id, label] as const)));
  }

  /** The keys of the records with each of these labels, ignoring case. */
  async function labeled(
    resource: AdminView,
    names: readonly string[],
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    if (names.length === 0) return new Map();
    const { model, label, visibility } = resource;
    const found = await database.run(recordsByLabelStatement(model, label, names, visibility), 'read');
    return new Map(found.map(({ index, ids }) => [names[index] ?? '', ids]));
  }

  /**
   * One page of records. Long values are cut; in the history, those inside a change.
   * @throws Problem 400 that names each invalid parameter
   */
  async function list(resource: AdminView, selection: Selection): Promise<LabeledRecordPage> {
    const [query, plan] = planOf(resource, selection);
    const page = await recordsOf(plan, statements.shown(resource), maxPage);
    if (!page) throw pageTooLarge(maxPage);
    return { query, ...page };
  }

  async function count(resource: AdminView, selection: Selection): Promise<Count> {
    const plan = planOf(resource, selection)[1];
    const found = await database.run(cappedCountStatement(plan, MAX_COUNTED), 'read');
    if (found <= MAX_COUNTED) return { count: found, precision: 'exact' };
    if (mayHideRows(plan)) return { count: MAX_COUNTED, precision: 'exceeded' };
    const estimate = await database.run(estimateStatement(plan), 'read');
    return { count: Math.max(estimate, MAX_COUNTED), precision: 'estimate' };
  }

  async function find(
    resource: AdminView,
    id: string,
    statement: MakeRecordStatement,
  ): Promise<StoredRecord> {
    const { json, version } = await readRecord(database, resource, id, statement);
    return { ...(await parseLargeRecord(json)), version };
  }

  return {
    /** The plan of a selection: its names resolved. @throws Problem 400 */
    plan: (resource: AdminView, selection: Selection): ListPlan => planOf(resource, selection)[1],
    list,
    labels,
    labelsOf,
    labeled,
    lookUp: createLookUp({ labels, count }),
    ...createSearch({ labels }),
    count,

    /**
     * Where a record is in a list, by its values in the columns of the ordering: it may no longer be in the list.
     * @returns undefined for a missing record
     * @throws Problem 400
     */
    async placeOf(resource: AdminView, selection: Selection, idText: string) {
      const list = { ...planOf(resource, selection)[1], limit: 1, offset: 0n };
      const columns = statements.label(resource);
      const maxBytes = LONGEST_LABELS;
      const id = parseId(resource, idText);
      if (id === undefined) return undefined;
      const only = chosenOnly({ ...list, where: [] }, [id]);
      const found = pageStatement({ list: only, columns, maxBytes, boundary: null });
      const { firstKeys: keys = [] } = await database.run(found, 'read');
      if (keys.length === 0) return undefined;
      return {
        /** The record after it or before it; with `isInclusive` the record itself, if the list has it. */
        neighbor: async (isBackward: boolean, isInclusive = false): Promise<Named | undefined> =>
          (await recordsOf(list, columns, maxBytes, { keys, isBackward, isInclusive }))?.records[0],
        /** Undefined where the list does not have the record, or many others. */
        place: (): Promise<Place | undefined> =>
          database.run(placeStatement(list, keys, MAX_COUNTED), 'read'),
      };
    },

    /** A record with its long values cut. @throws Problem 404 */
    preview: (resource: AdminView, id: string): Promise<StoredRecord> =>
      find(resource, id, recordStatement(resource.model, statements.shown(resource), resource.visibility)),

    /** A record for its form: only values too long for a form are cut. @throws Problem 404 */
    read: (resource: AdminView, id: string): Promise<StoredRecord> =>
      find(resource, id, statements.recordForForm(resource)),

    /** The keys of the first records that refer to a record by this column. */
    async referring(resource: AdminView, { name }: Column, id: string): Promise<readonly string[]> {
      const query = `${name}=${encodeURIComponent(id)}&limit=${MAX_ROWS}`;
      return (await labels(resource, { query, search: '' })).records.map((one) => one.id);
    },

    /** The records with these keys, as far as they exist, by key, as rows on the form of a parent. */
    async readRows(
      parent: AdminView,
      resource: AdminView,
      ids: readonly string[],
    ): Promise<ReadonlyMap<string, StoredRecord>> {
      const { model, visibility } = resource;
      const keys = ids.flatMap((id) => parseId(resource, id) ?? []);
      if (keys.length === 0) return new Map();
      const shown = statements.rowsForForm(parent)(resource);
      const found = await database.run(foundRecordsStatement(model, shown, keys, visibility), 'read');
      const records = await Promise.all(
        found.map(async (one) => {
          const { json, version } = recordResult(one, resource);
          return { ...(await parseLargeRecord(json)), version };
        }),
      );
      return new Map(records.map((record) => [record.id, record]));
    },

    /**
     * The keys of the columns in which a record has other values than these. PostgreSQL compares them, because it outputs some of
     * them in another form than a client sends them.
     */
    async otherValues(
      resource: AdminView,
      idText: string,
      fields: JsonFields,
      caller: Caller,
    ): Promise<ReadonlySet<string>> {
      const all = new Set(fields.keys());
      const { changes } = await checkBody(fields, resource, { id: idText, caller });
      const id = parseId(resource, idText);
      if (id === undefined || changes.length < fields.size) return all;
      try {
        const statement = hasValuesStatement(resource.model, id, changes, resource.visibility);
        const [isThere, ...same] = await database.run(statement, 'read');
        if (!isThere) return all;
        return new Set(changes.flatMap(({ column }, at) => (same[at] ? [] : column.key)));
      } catch (error) {
        // A value that the database does not accept is not stored either.
        const values = changes.map(({ value }) => value);
        if (isDatabaseError(error) && refusal(error, values, resource.model)?.status === 400) return all;
        throw error;
      }
    },

    /** Which of some columns the caller may change in a record. */
    async changeable(
      resource: AdminView,
      id: string,
      columns: readonly Column[],
    ): Promise<readonly Column[]> {
      const rules = columns.map((column) => resource.allowed('update', [column]));
      if (rules.every((rule) => rule === undefined)) return columns;
      const plan = planOf(resource, { query: '', search: '', ids: [id] })[1];
      const met = await database.run(metRulesStatement(plan, rules), 'read');
      return columns.filter((_, index) => met[index]);
    },

    /** The number of records with each value of a column; undefined for many records. */
    valueCounts: (
      resource: AdminView,
      selection: Selection,
      column: Column,
    ): Promise<ReadonlyMap<string | null, number> | undefined> =>
      database.run(valueCountsStatement(planOf(resource, selection)[1], column, MAX_COUNTED), 'read'),
  };
}
