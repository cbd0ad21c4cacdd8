import type { LabelPath } from '../../query/statements/label-sql.ts';
import { fitsBudget } from '../../query/parse/pattern-budget.ts';
import { containing, escapePattern } from '../../query/plan.ts';
import type { AdminResource } from '../serve/admin-resource.ts';
import type { Count, Selection } from './selection.ts';

/** What people call a record. */
export interface Named {
  /** The key as text. */
  readonly id: string;
  /** `#` and the key where it has no name. */
  readonly label: string;
}

/** Some of the records that words can mean, and whether there are more. */
export interface Found {
  readonly entries: readonly Named[];
  readonly hasNext: boolean;
}

/** Among so many that a search finds, one whose whole name was typed is looked for. */
const COMPARED = 100;
/** Characters of the longest name that a record can be found by as a whole. */
export const LONGEST_NAME = 2000;
/** How many foreign keys an ordering may follow. */
const MOST_STEPS = 4;

/** Normalizing takes quadratic time for long runs of combining marks. Longer texts are compared without it. */
const LONGEST_NORMALIZED = 300;

function plainText(text: string): string {
  const normal = text.length <= LONGEST_NORMALIZED ? text.normalize() : text;
  return normal.replace(/\s+/g, ' ').trim().toLowerCase();
}

/** Gives a function that says whether a record has just this name, in capital letters or small ones. */
export function isCalled(name: string): (entry: Pick<Named, 'label'>) => boolean {
  if (name.length > LONGEST_NAME) return () => false;
  const plain = plainText(name);
  return ({ label }) => label.length <= LONGEST_NAME && plainText(label) === plain;
}

/** The words of a search. */
export const wordsOf = (search: string): string[] => search.split(/\s+/).filter((word) => word !== '');

/** Words without the signs around them, which may be no more than what a label has between its columns: `Coda – Led Zeppelin`. */
const bareWords = (search: string): string =>
  search
    .split(/\s+/)
    .flatMap((word) => /[\p{L}\p{N}](?:.*[\p{L}\p{N}])?/su.exec(word) ?? [])
    .join(' ');

/** The column that a label begins with, where records can be sorted by it. */
function firstOf({ label }: AdminResource): (LabelPath & { readonly name: string }) | undefined {
  const first = label.find((part) => typeof part !== 'string');
  if (!first || first.column.type.unordered || first.path.length > MOST_STEPS) return undefined;
  return { ...first, name: [...first.path, first.column].map(({ name }) => name).join('__') };
}

/** Finds records by words: those first whose name or key is just what is searched for. */
export type LookUp = (resource: AdminResource, search: string, most: number) => Promise<Found>;

/** What a search by words reads. */
interface Reads {
  readonly labels: (resource: AdminResource, selection: Selection) => Promise<Found>;
  readonly count: (resource: AdminResource, selection: Selection) => Promise<Count>;
}

export function createLookUp({ labels, count }: Reads): LookUp {
  /** The first records by their names. A large table stays in the order of its key, as sorting it takes too long to wait for. */
  async function firstRecords(resource: AdminResource, most: number): Promise<Found> {
    const first = firstOf(resource);
    const isQuick = first?.path.length === 0 && first.column.indexed;
    const isSorted = first && (isQuick || (await count(resource, { query: '', search: '' })).isExact);
    const order = isSorted ? `ordering=${first.name}&` : '';
    return labels(resource, { query: `${order}limit=${most}`, search: '' });
  }

  return async function lookUp(resource, search, most): Promise<Found> {
    const words = search.trim();
    if (words === '') return firstRecords(resource, most);
    const first = firstOf(resource);
    const order = first ? `ordering=${first.name}&` : '';
    const limit = Math.max(most, COMPARED);
    const name = escapePattern(words);
    const isName = first?.column.type.operators.has('ilike') === true && fitsBudget([name]);
    const pattern = encodeURIComponent(name);
    const isSearch = fitsBudget(wordsOf(words).map(containing));
    const nothing: Found = { entries: [], hasNext: false };
    const [matches, named, keyed] = await Promise.all([
      isSearch ? labels(resource, { query: `${order}limit=${limit}`, search: words }) : nothing,
      isName && labels(resource, { query: `${first.name}__ilike=${pattern}&limit=${limit}`, search: '' }),
      labels(resource, { query: 'limit=1', search: '', ids: [words] }),
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
  };
}
