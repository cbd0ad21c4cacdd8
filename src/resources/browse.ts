import { setImmediate } from 'node:timers/promises';
import type { Settings } from '../config.ts';
import { text, type Database } from '../db/connection.ts';
import type { Statement } from '../db/fragment.ts';
import type { Column } from '../db/model.ts';
import { badQuery, notFound, type FieldErrors } from '../errors.ts';
import { cappedCountStatement, chosenOnly, estimateStatement } from '../query/bulk.ts';
import { entry, type EntryShape } from '../query/entry.ts';
import { parseListQuery, type ListQuery } from '../query/grammar.ts';
import type { LabelPath } from '../query/label.ts';
import { cutColumn } from '../query/masked-history.ts';
import { fitBudget } from '../query/pattern-budget.ts';
import { containing, escapePattern, planList, type ListPlan } from '../query/plan.ts';
import { sizeKey } from '../query/preview.ts';
import { boundsStatement, pageStatement, recordStatement, type Shown } from '../query/read.ts';
import type { AdminResource, AdminResources } from './admin.ts';
import { pageTooLarge } from './listing.ts';
import { parseMembers, splitValues, type Members } from './members.ts';
import { HISTORY } from './own.ts';
import { parseId, versionOf } from './operations.ts';
import { viewOf } from './served.ts';

/** Some records of a resource: those that a query of the API's grammar and a search match, or of them those with these keys. */
export interface Selection {
  /** Percent-encoded, without `?`. */
  readonly query: string;
  /** Words, separated by spaces. */
  readonly search: string;
  readonly ids?: readonly string[];
}

/** A record as people look at it. */
export interface Entry {
  /** The key as text. */
  readonly id: string;
  /** What people call it; `#` and its key where it has no name. */
  readonly label: string;
  /** By JSON key of each foreign key, what the related record is called; null where there is none. */
  readonly labels: Readonly<Record<string, string | null>>;
  readonly members: Members;
}

export type StoredEntry = Entry & { readonly version: string };

export interface EntryPage {
  readonly query: ListQuery;
  readonly entries: readonly Entry[];
  readonly hasNext: boolean;
}

/** Some of the records that words can mean, and whether there are more. */
export type Found = Pick<EntryPage, 'entries' | 'hasNext'>;

/** How many records there are; past what can be counted in no time, PostgreSQL's own guess. */
export interface Count {
  readonly count: number;
  readonly isExact: boolean;
}

/** Reading for people: the same queries as the API's, with labels and a search. */
export interface Browsing {
  /**
   * Records of a list, their long values cut, in the history those of the changes.
   * @throws Problem 400 that names each parameter that cannot be used
   */
  readonly list: (resource: AdminResource, selection: Selection) => Promise<EntryPage>;
  /** Records to choose from, those first whose name or key is just what is searched for. */
  readonly lookUp: (resource: AdminResource, search: string, most: number) => Promise<Found>;
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
/** Among so many that a search finds, one whose whole name was typed is looked for. */
const COMPARED = 100;
/** What is longer is nobody's name. */
const LONGEST_LABEL = 2000;
/** Normalizing takes quadratic time for long runs of combining marks. Longer texts are compared without it. */
const LONGEST_NORMALIZED = 300;
/** Bytes from which on a value is cut, to a quarter of them in characters: more than a list or a confirmation shows. */
const LONGEST_SHOWN = 2048;
/**
 * Bytes of a record's long values together that a form holds at most, and never more than `MAX_BODY`: a browser may send three
 * times as many.
 */
const LONGEST_FORM = 1024 * 1024;
/** How many foreign keys an ordering may follow. */
const MOST_STEPS = 4;

const isHistory = ({ name }: AdminResource): boolean => name === HISTORY.model;

function plainText(text: string): string {
  const normal = text.length <= LONGEST_NORMALIZED ? text.normalize() : text;
  return normal.replace(/\s+/g, ' ').trim().toLowerCase();
}

/** Gives a function that says whether a record has just this name, in capital letters or small ones. */
export function isCalled(name: string): (entry: Pick<Entry, 'label'>) => boolean {
  if (name.length > LONGEST_LABEL) return () => false;
  const plain = plainText(name);
  return ({ label }) => label.length <= LONGEST_LABEL && plainText(label) === plain;
}

const wordsOf = (search: string): string[] => search.split(/\s+/).filter((word) => word !== '');

/** Words without the signs around them, which may be no more than what a label has between its columns: `Coda – Led Zeppelin`. */
const bareWords = (search: string): string =>
  search
    .split(/\s+/)
    .flatMap((word) => /[\p{L}\p{N}](?:.*[\p{L}\p{N}])?/su.exec(word) ?? [])
    .join(' ');

/** The text of a member as the output has it, without the quotes of JSON; null for null. */
export function textOfMember(members: Members, key: string): string | null {
  const member = members.get(key);
  if (!member || member.value === null) return null;
  return typeof member.value === 'string' ? member.value : member.source;
}

/** The text of a column: of JSON as it stands there, quotes and all, since "1" and 1 are two values. One that was cut has a mark. */
export function textOfColumn(members: Members, column: Column): string | null {
  const { key, type } = column;
  if (members.has(sizeKey(column))) return `${textOfMember(members, key) ?? ''}…`;
  return type.input.json === 'json' && members.get(key)?.value !== null
    ? (members.get(key)?.source ?? null)
    : textOfMember(members, key);
}

/** Whether there is anything in a text that can be seen, and so be a link. */
export const isVisible = (text: string): boolean =>
  /[^\s\u2800\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}]/u.test(text);

function parseEntry(source: string): Entry {
  const parts = parseMembers(source);
  return entryOf(parts, parseMembers(parts.get('record')?.source ?? '{}'));
}

/** Bytes of a record from which on other requests are served between the steps of parsing it. */
const LARGE = 65_536;

async function parseLargeEntry(bytes: Buffer): Promise<Entry> {
  if (bytes.length < LARGE) return parseEntry(bytes.toString());
  const source = bytes.toString();
  await setImmediate();
  const parts = parseMembers(source);
  await setImmediate();
  const members = parseMembers(parts.get('record')?.source ?? '{}');
  await setImmediate();
  return entryOf(parts, members);
}

function entryOf(parts: Members, members: Members): Entry {
  const id = textOfMember(members, 'id') ?? '';
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
  readonly shapes: Map<AdminResource, Shown>;
  readonly forForms: Map<AdminResource, (id: string) => Statement>;
}

export const createEntryStatements = (): EntryStatements => ({
  shapes: new Map(),
  forForms: new Map(),
});

export function createBrowsing(
  database: Pick<Database, 'run'>,
  resources: AdminResources,
  { shapes, forForms }: EntryStatements,
  { maxPage, maxBody }: Pick<Settings, 'maxPage' | 'maxBody'>,
): Browsing {
  const view = viewOf(resources, () => true);

  function shape(resource: AdminResource, cut: EntryShape['cut']): Shown {
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

  function shownOf(resource: AdminResource): Shown {
    const shown = shapes.get(resource) ?? shape(resource, { over: LONGEST_SHOWN });
    shapes.set(resource, shown);
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

  async function list(resource: AdminResource, selection: Selection): Promise<EntryPage> {
    const [query, plan] = planOf(resource, selection);
    const shown = shownOf(resource);
    const [row] = await database.run(pageStatement(plan, shown, maxPage), 'read');
    if (row && !row[0]) throw pageTooLarge(maxPage);
    const entries: Entry[] = [];
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

  /** The column that a label begins with, where records can be sorted by it. */
  function firstOf({ label }: AdminResource): (LabelPath & { readonly name: string }) | undefined {
    const first = label.find((part) => typeof part !== 'string');
    if (!first || first.column.type.unordered || first.path.length > MOST_STEPS) return undefined;
    return { ...first, name: [...first.path, first.column].map(({ name }) => name).join('__') };
  }

  /** The first records by their names. A large table stays in the order of its key, as sorting it takes too long to wait for. */
  async function firstRecords(resource: AdminResource, most: number): Promise<Found> {
    const first = firstOf(resource);
    const isQuick = first?.path.length === 0 && first.column.indexed;
    const isSorted = first && (isQuick || (await count(resource, { query: '', search: '' })).isExact);
    return list(resource, { query: `${isSorted ? `ordering=${first.name}&` : ''}limit=${most}`, search: '' });
  }

  async function lookUp(resource: AdminResource, search: string, most: number): Promise<Found> {
    const words = search.trim();
    if (words === '') return firstRecords(resource, most);
    const first = firstOf(resource);
    const order = first ? `ordering=${first.name}&` : '';
    const limit = Math.max(most, COMPARED);
    const name = escapePattern(words);
    const isName = first?.column.type.operators.has('ilike') === true && fitBudget([name]);
    const pattern = encodeURIComponent(name);
    const isSearch = fitBudget(wordsOf(words).map(containing));
    const nothing: Found = { entries: [], hasNext: false };
    const [matches, named, keyed] = await Promise.all([
      isSearch ? list(resource, { query: `${order}limit=${limit}`, search: words }) : nothing,
      isName && list(resource, { query: `${first.name}__ilike=${pattern}&limit=${limit}`, search: '' }),
      list(resource, { query: 'limit=1', search: '', ids: [words] }),
    ]);
    const found = [...keyed.entries, ...(named ? named.entries : []), ...matches.entries];
    if (found.length === 0) {
      const bare = bareWords(words);
      return bare === '' || bare === words ? matches : lookUp(resource, bare, most);
    }
    const entries = [...new Map(found.map((one) => [one.id, one])).values()];
    const same = new Set(entries.filter(isCalled(words)));
    const sorted = [...same, ...entries.filter((one) => !same.has(one))];
    return { entries: sorted.slice(0, most), hasNext: matches.hasNext || sorted.length > most };
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
    lookUp,
    count,

    preview: (resource, id) => find(resource, id, recordStatement(resource.model, shownOf(resource))),

    read(resource, id) {
      const shown = (): Shown => shape(resource, { form: Math.min(maxBody, LONGEST_FORM) });
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
