import { setImmediate } from 'node:timers/promises';
import type { Settings } from '../../config.ts';
import { text, type Database } from '../../db/connection/database.ts';
import type { Statement } from '../../db/fragment.ts';
import type { Column } from '../../db/schema/model.ts';
import { badQuery, notFound, type FieldErrors } from '../../errors.ts';
import {
  cappedCountStatement,
  chosenOnly,
  estimateStatement,
} from '../../query/statements/bulk-statements.ts';
import { entry, type EntryShape } from '../../query/statements/entry-sql.ts';
import { parseListQuery, type ListQuery } from '../../query/parse/grammar.ts';
import { cutColumn } from '../../query/statements/masked-history-sql.ts';
import { planList, type ListPlan } from '../../query/plan.ts';
import { sizeKey } from '../../query/statements/preview-sql.ts';
import {
  boundsStatement,
  pageStatement,
  recordStatement,
  type RowOutput,
} from '../../query/statements/read-statements.ts';
import type { AdminResource, AdminResources } from '../serve/admin-resource.ts';
import { pageTooLarge } from './listing.ts';
import type { Count, Selection } from './selection.ts';
import { createLookUp, LONGEST_NAME, wordsOf, type Found, type LookUp, type Named } from './look-up.ts';
import { parseJsonFields, splitValues, type JsonFields } from './json-fields.ts';
import { HISTORY } from '../definition/system-tables.ts';
import { parseId, versionOf } from './operations.ts';
import { viewOf } from '../serve/served-resource.ts';

/** A record as people look at it, the long values of its labels cut. */
export interface RecordEntry extends Named {
  /** By JSON key of each foreign key, what the related record is called; null where there is none. */
  readonly labels: Readonly<Record<string, string | null>>;
  readonly members: JsonFields;
}

export type StoredEntry = RecordEntry & { readonly version: string };

export interface EntryPage {
  readonly query: ListQuery;
  readonly entries: readonly RecordEntry[];
  readonly hasNext: boolean;
}

/** Reading for people: the same queries as the API's, with labels and a search. */
export interface Browsing {
  /**
   * Records of a list, their long values cut, in the history those of the changes.
   * @throws Problem 400 that names each parameter that cannot be used
   */
  readonly list: (resource: AdminResource, selection: Selection) => Promise<EntryPage>;
  /** What records are called, whatever else they have. */
  readonly labels: (resource: AdminResource, selection: Selection) => Promise<Found>;
  /** What the records with these keys are called, by key. */
  readonly labelsOf: (
    resource: AdminResource,
    ids: ReadonlySet<string>,
  ) => Promise<ReadonlyMap<string, string>>;
  /** Records to choose from. */
  readonly lookUp: LookUp;
  /** A record, its long values cut. @throws Problem 404 */
  readonly preview: (resource: AdminResource, id: string) => Promise<StoredEntry>;
  /** A record for its form: in full, except values that no form can hold. @throws Problem 404 */
  readonly read: (resource: AdminResource, id: string) => Promise<StoredEntry>;
  readonly count: (resource: AdminResource, selection: Selection) => Promise<Count>;
  /** The least and the greatest value of a column; undefined where there is none. */
  readonly bounds: (
    resource: AdminResource,
    selection: Selection,
    column: Column,
  ) => Promise<readonly [string, string] | undefined>;
  /** Names resolved. @throws Problem 400 */
  readonly plan: (resource: AdminResource, selection: Selection) => ListPlan;
}

/** Up to here records are counted. */
const COUNTED = 10_000;
/** Bytes from which on a value is cut, to a quarter of them in characters: more than a list or a confirmation shows. */
const LONGEST_SHOWN = 2048;
/** Bytes of a record's long values together that a form holds at most, and never more than `MAX_BODY`. */
export const LONGEST_FORM = 1024 * 1024;
/** How many records one query names. */
const MOST_NAMED = 200;
/** Bytes of their keys and labels: those of ordinary keys never have as many, whatever is in the labels. */
const LONGEST_LABELS = 4 * 1024 * 1024;
const isHistory = ({ name }: AdminResource): boolean => name === HISTORY.model;

/** The text of a member as the output has it, without the quotes of JSON; null for null. */
export function textOfField(members: JsonFields, key: string): string | null {
  const member = members.get(key);
  if (!member || member.value === null) return null;
  return typeof member.value === 'string' ? member.value : member.source;
}

/** The text of a column: of JSON as it stands there, quotes and all, since "1" and 1 are two values. One that was cut has a mark. */
export function textOfColumn(members: JsonFields, column: Column): string | null {
  const { key, type } = column;
  if (members.has(sizeKey(column))) return `${textOfField(members, key) ?? ''}…`;
  return type.input.json === 'json' && members.get(key)?.value !== null
    ? (members.get(key)?.source ?? null)
    : textOfField(members, key);
}

/** Whether there is anything in a text that can be seen, and so be a link. */
export const isVisible = (text: string): boolean =>
  /[^\s\u2800\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}]/u.test(text);

function parseEntry(source: string): RecordEntry {
  const parts = parseJsonFields(source);
  return entryOf(parts, parseJsonFields(parts.get('record')?.source ?? '{}'));
}

/** Bytes of a record from which on other requests are served between the steps of parsing it. */
const LARGE = 65_536;

async function parseLargeEntry(bytes: Buffer): Promise<RecordEntry> {
  if (bytes.length < LARGE) return parseEntry(bytes.toString());
  const source = bytes.toString();
  await setImmediate();
  const parts = parseJsonFields(source);
  await setImmediate();
  const members = parseJsonFields(parts.get('record')?.source ?? '{}');
  await setImmediate();
  return entryOf(parts, members);
}

function entryOf(parts: JsonFields, members: JsonFields): RecordEntry {
  const id = textOfField(members, 'id') ?? '';
  const label = parts.get('label')?.value;
  const labels = JSON.parse(parts.get('labels')?.source ?? '{}') as Record<string, string | null> | null;
  return {
    id,
    label: typeof label === 'string' && isVisible(label) ? label : `#${id}`,
    labels: Object.fromEntries(
      Object.entries(labels ?? {}).map(([key, text]) => [
        key,
        text !== null && isVisible(text) ? text : null,
      ]),
    ),
    members,
  };
}

/** The rows that PostgreSQL's planner expects, from `explain (format json)`. */
function plannedRows(json: string): number {
  const [first] = JSON.parse(json) as { Plan?: { 'Plan Rows'?: number } }[];
  return first?.Plan?.['Plan Rows'] ?? 0;
}

/** What is compiled once for each resource, and shared by the requests that need it. */
export interface EntryStatements {
  readonly shapes: Map<AdminResource, RowOutput>;
  readonly labels: Map<AdminResource, RowOutput>;
  readonly forForms: Map<AdminResource, (id: string) => Statement>;
}

export const createEntryStatements = (): EntryStatements => ({
  shapes: new Map(),
  labels: new Map(),
  forForms: new Map(),
});

export function createBrowsing(
  database: Pick<Database, 'run'>,
  resources: AdminResources,
  { shapes, labels: labelShapes, forForms }: EntryStatements,
  { maxPage, maxBody }: Pick<Settings, 'maxPage' | 'maxBody'>,
): Browsing {
  const view = viewOf(resources, () => true);

  function shape(resource: AdminResource, cut: EntryShape['cut']): RowOutput {
    const references = resource.output.flatMap((column) => {
      const target = column.references && resources.get(column.references.name);
      return target ? [[column, target.label] as const] : [];
    });
    return entry({
      columns: isHistory(resource) ? resource.output.map(cutColumn) : resource.output,
      label: resource.label,
      references: new Map(references),
      cut,
    });
  }

  function shownOf(resource: AdminResource): RowOutput {
    const shown = shapes.get(resource) ?? shape(resource, { over: LONGEST_SHOWN });
    shapes.set(resource, shown);
    return shown;
  }

  function labelOf(resource: AdminResource): RowOutput {
    const { label, model } = resource;
    const shown =
      labelShapes.get(resource) ??
      entry({ columns: [model.primaryKey], label, labelCharacters: LONGEST_NAME, references: new Map() });
    labelShapes.set(resource, shown);
    return shown;
  }

  function planOf(resource: AdminResource, { query, search, ids }: Selection): [ListQuery, ListPlan] {
    const errors: FieldErrors = {};
    const parsed = parseListQuery(query, resource, errors);
    const plan = planList(parsed, resource.model, view, resource.ordering, errors, {
      words: wordsOf(search),
      paths: resource.search,
    });
    if (Object.keys(errors).length > 0) throw badQuery(errors);
    const keys = ids?.flatMap((id) => parseId(resource, id) ?? []);
    return [parsed, keys ? chosenOnly(plan, keys) : plan];
  }

  async function labels(resource: AdminResource, selection: Selection): Promise<Found> {
    const plan = planOf(resource, selection)[1];
    const [row] = await database.run(pageStatement(plan, labelOf(resource), LONGEST_LABELS), 'read');
    // Keys of many kilobytes: nobody chooses among those.
    if (row && !row[0]) return { entries: [], hasNext: true };
    const sources = splitValues(text(row?.[0]) ?? '');
    return { entries: sources.map(parseEntry), hasNext: text(row?.[1]) === 't' };
  }

  async function labelsOf(
    resource: AdminResource,
    ids: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, string>> {
    const all = [...ids];
    const query = `limit=${MOST_NAMED}`;
    const pages = await Promise.all(
      Array.from({ length: Math.ceil(all.length / MOST_NAMED) }, (_, part) =>
        labels(resource, { query, search: '', ids: all.slice(part * MOST_NAMED, (part + 1) * MOST_NAMED) }),
      ),
    );
    return new Map(pages.flatMap(({ entries }) => entries.map(({ id, label }) => [id, label] as const)));
  }

  async function list(resource: AdminResource, selection: Selection): Promise<EntryPage> {
    const [query, plan] = planOf(resource, selection);
    const shown = shownOf(resource);
    const [row] = await database.run(pageStatement(plan, shown, maxPage), 'read');
    if (row && !row[0]) throw pageTooLarge(maxPage);
    const entries: RecordEntry[] = [];
    for (const source of splitValues(text(row?.[0]) ?? '')) {
      entries.push(parseEntry(source));
      if (source.length >= LARGE) await setImmediate();
    }
    return { query, entries, hasNext: text(row?.[1]) === 't' };
  }

  async function count(resource: AdminResource, selection: Selection): Promise<Count> {
    const plan = planOf(resource, selection)[1];
    const [counted] = await database.run(cappedCountStatement(plan, COUNTED), 'read');
    const found = Number(text(counted?.[0]));
    if (found <= COUNTED) return { count: found, isExact: true };
    const [planned] = await database.run(estimateStatement(plan), 'read');
    return { count: Math.max(plannedRows(text(planned?.[0]) ?? '[]'), COUNTED), isExact: false };
  }

  async function find(
    resource: AdminResource,
    idText: string,
    statement: (id: string) => Statement,
  ): Promise<StoredEntry> {
    const id = parseId(resource, idText);
    if (id === undefined) throw notFound('There is no such record.');
    const [row] = await database.run(statement(id), 'read');
    if (!row?.[0]) throw notFound('There is no such record.');
    return { ...(await parseLargeEntry(row[0])), version: versionOf(row[1], resource) };
  }

  return {
    plan: (resource, selection) => planOf(resource, selection)[1],
    list,
    labels,
    labelsOf,
    lookUp: createLookUp({ labels, count }),
    count,

    preview: (resource, id) => find(resource, id, recordStatement(resource.model, shownOf(resource))),

    read(resource, id) {
      const shown = (): RowOutput => shape(resource, { form: Math.min(maxBody, LONGEST_FORM) });
      const statement = forForms.get(resource) ?? recordStatement(resource.model, shown());
      forForms.set(resource, statement);
      return find(resource, id, statement);
    },

    async bounds(resource, selection, column) {
      const statement = boundsStatement(planOf(resource, selection)[1], column);
      const [row] = await database.run(statement, 'read');
      const [first, last] = [text(row?.[0]), text(row?.[1])];
      return first === null || last === null ? undefined : [first, last];
    },
  };
}
