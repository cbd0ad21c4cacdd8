// Finds records by words, for search fields that choose a record.
import { mayBeNull, type Column } from '../../db/schema/model.ts';
import type { LabelPath } from '../../query/labels/label-sql.ts';
import { fitsBudget } from '../../query/parse/query-budget.ts';
import { containing, escapePattern, MAX_PATH_KEYS } from '../../query/plan.ts';
import type { AdminView } from '../access/admin-view.ts';
import type { Count, Selection } from '../../query/selection.ts';

/** A record's key and its label, the name that pages show. */
export interface Named {
  /** The key as text. */
  readonly id: string;
  /** `#` and the key where the record has no visible label. */
  readonly label: string;
}

/** The first matches of a search, and whether there are more. */
export interface Found {
  readonly records: readonly Named[];
  readonly hasNext: boolean;
}

/** Minimum matches that are read, to find the record whose full label was typed. */
const MIN_COMPARED = 100;
/** Maximum characters of a label that is compared as a whole. */
export const LONGEST_NAME = 2000;

/** Maximum characters for normalization, which takes quadratic time for long runs of combining marks. */
const LONGEST_NORMALIZED = 300;

function normalized(text: string): string {
  const normal = text.length <= LONGEST_NORMALIZED ? text.normalize() : text;
  return normal.replace(/\s+/g, ' ').trim().toLowerCase();
}

/** A predicate for records by their label and a name, ignoring case and extra spaces. */
function comparedWith(
  name: string,
  fits: (label: string, wanted: string) => boolean,
): (record: Pick<Named, 'label'>) => boolean {
  if (name.length > LONGEST_NAME) return () => false;
  const wanted = normalized(name);
  return ({ label }) => label.length <= LONGEST_NAME && fits(normalized(label), wanted);
}

/** A predicate for records whose label equals the name. */
export const isNamed = (name: string) => comparedWith(name, (label, wanted) => label === wanted);
/** A predicate for records whose label begins with the words. */
const beginsWith = (words: string) => comparedWith(words, (label, wanted) => label.startsWith(wanted));

/** The words of a search. */
export const wordsOf = (search: string): string[] => search.split(/\s+/).filter((word) => word !== '');

/** The words without surrounding punctuation, which may only separate the columns of a label: `Coda – Led Zeppelin`. */
const bareWords = (search: string): string =>
  search
    .split(/\s+/)
    .flatMap((word) => /[\p{L}\p{N}](?:.*[\p{L}\p{N}])?/su.exec(word) ?? [])
    .join(' ');

/**
 * The columns of a label by which records can be sorted, with their names in an ordering.
 * @param steps the foreign keys that lead to the record with the label
 */
export function labelOrdering(
  { label }: AdminView,
  steps: readonly Column[] = [],
): readonly (LabelPath & { readonly name: string })[] {
  const columns = label.filter((part) => typeof part !== 'string');
  const filled = columns.findIndex(({ column }) => !mayBeNull(column));
  return columns.flatMap((part, index) => {
    // After a column that always has a value, substitutes hardly matter.
    if (part.isSubstitute && filled >= 0 && filled < index) return [];
    const path = [...steps, ...part.path];
    if (part.column.type.unordered || path.length > MAX_PATH_KEYS) return [];
    return [{ ...part, path, name: [...path, part.column].map(({ name }) => name).join('__') }];
  });
}

/** The reads that a search needs. */
interface Reads {
  readonly labels: (resource: AdminView, selection: Selection) => Promise<Found>;
  readonly count: (resource: AdminView, selection: Selection) => Promise<Count>;
}

/**
 * Makes a function that finds records by words. The record with this key comes first, then those with this label, then those whose label
 * begins with the words.
 */
export function createLookUp({ labels, count }: Reads) {
  /** The first records by label. A large table without an index stays in key order, because sorting it takes too long. */
  async function firstRecords(resource: AdminView, max: number): Promise<Found> {
    const [first] = labelOrdering(resource);
    const isQuick = first?.path.length === 0 && first.column.indexed;
    const isSorted =
      first && (isQuick || (await count(resource, { query: '', search: '' })).precision === 'exact');
    const order = isSorted ? `ordering=${first.name}&` : '';
    return labels(resource, { query: `${order}limit=${max}`, search: '' });
  }

  return async function lookUp(resource: AdminView, search: string, max: number): Promise<Found> {
    const words = search.trim();
    if (words === '') return firstRecords(resource, max);
    const [first] = labelOrdering(resource);
    const order = first ? `ordering=${first.name}&` : '';
    const limit = Math.max(max, MIN_COMPARED);
    const name = escapePattern(words);
    const isName = first?.column.type.operators.has('ilike') === true && fitsBudget([`${name}%`]);
    const pattern = encodeURIComponent(name);
    const isSearch = fitsBudget(wordsOf(words).map(containing));
    const nothing: Found = { records: [], hasNext: false };
    // One after the other: in a large table each may take seconds, and an admin has few connections.
    const keyed = await labels(resource, { query: 'limit=1', search: '', ids: [words] });
    // A label may be a number.
    const isValue = first?.column.type.parse(words, first.column).fault === undefined;
    const named =
      isName || isValue
        ? await labels(resource, {
            query: `${first?.name}${isName ? `__ilike=${pattern}` : `=${encodeURIComponent(words)}`}&limit=${limit}`,
            search: '',
          })
        : nothing;
    const matches = isSearch
      ? await labels(resource, { query: `${order}limit=${limit}`, search: words })
      : nothing;
    // Those whose label begins with the words may be beyond the first matches.
    const begun =
      isName && matches.hasNext
        ? await labels(resource, {
            query: `${first.name}__ilike=${pattern}%25&${order}limit=${max}`,
            search: '',
          })
        : nothing;
    const found = [...keyed.records, ...named.records, ...begun.records, ...matches.records];
    if (found.length === 0) {
      const bare = bareWords(words);
      return bare === '' || bare === words ? matches : lookUp(resource, bare, max);
    }
    const records = [...new Map(found.map((one) => [one.id, one])).values()];
    const ranks = [({ id }: Named) => id === words, isNamed(words), beginsWith(words), () => true];
    const sorted = [...new Set(ranks.flatMap((fits) => records.filter(fits)))];
    return { records: sorted.slice(0, max), hasNext: matches.hasNext || sorted.length > max };
  };
}

/** The two steps of a search of all resources, where each may have many records: together three statements, and two scans. */
export const createSearch = ({ labels }: Pick<Reads, 'labels'>) => ({
  /** The record with this key, also as `#7`, then those whose label begins with the words, in the order of their labels. */
  async begun(resource: AdminView, words: string, max: number): Promise<Found> {
    const [first] = labelOrdering(resource);
    const pattern = `${escapePattern(words)}%`;
    const keyed = await labels(resource, { query: 'limit=1', search: '', ids: [words.replace(/^#/, '')] });
    if (first?.column.type.operators.has('ilike') !== true || !fitsBudget([pattern])) return keyed;
    const query = `${first.name}__ilike=${encodeURIComponent(pattern)}&ordering=${first.name}&limit=${max}`;
    const { records, hasNext } = await labels(resource, { query, search: '' });
    return { records: [...keyed.records, ...records], hasNext };
  },

  /** Those that match the search of the resource, in the order of its list, so that a scan ends with the last one. */
  matching: async (resource: AdminView, words: string, max: number): Promise<Found> =>
    fitsBudget(wordsOf(words).map(containing))
      ? labels(resource, { query: `limit=${max}`, search: words })
      : { records: [], hasNext: false },
});
