// Proves keys of views from PostgreSQL's plan of reading them: which tables it joins, by which columns, and how it groups rows.
import type { CatalogTable } from '../../db/schema/catalog.ts';
import { quotedName } from '../../db/fragment.ts';
import type { PlanNode } from '../../db/schema/relations.ts';
import type { ReadRelations } from './proposed-keys.ts';

/** What a plan reads: a table, or groups of rows. Columns are SQL, as in the plan. */
interface Source {
  readonly columns: readonly string[];
  /** The columns that identify a row. */
  readonly keys: readonly (readonly string[])[];
  /** The sources of which it groups rows. */
  readonly grouped?: readonly Source[] | undefined;
}

/** Values of the column `from` determine those of the column `to`. */
interface Equality {
  readonly from: string;
  readonly to: string;
}

interface Joined {
  /** Each row of the plan is made of one row of each, or of none. */
  readonly sources: readonly Source[];
  /** These, and those below groups. */
  readonly all: readonly Source[];
  readonly equalities: readonly Equality[];
}

/** Nodes that pass on some or all rows of their input, once each. */
const PASSING =
  /^(Sort|Incremental Sort|Hash|Materialize|Unique|Limit|Result|WindowAgg|Gather|Gather Merge)$/;
const SCAN = /^(Seq|Index|Index Only|Bitmap Heap) Scan$/;
const GROUPING = /^(Aggregate|Group)$/;
const JOIN = /^(Hash Join|Nested Loop)$/;

const COLUMN = ['', ''].map(() => '(?:[a-z_][a-z0-9_]*|"(?:[^"]|"")+")').join('\\.');
const TERM = `(?:${COLUMN}|\\(${COLUMN}\\)::text)`;
const EQUALITY = `\\(${TERM} = ${TERM}\\)`;
/** Conditions with anything else are not used. */
const EQUALITIES = new RegExp(`^(?:${EQUALITY}|\\(${EQUALITY}(?: AND ${EQUALITY})+\\))$`);

/** PostgreSQL quotes keywords, too. */
const quotedAlways = (column: string): string =>
  column.replace(/"(?:[^"]|"")+"|[a-z_][a-z0-9_]*/g, (name) => (name.startsWith('"') ? name : `"${name}"`));
const columnOf = (alias: string, field: string): string => `${quotedName(alias)}.${quotedName(field)}`;

/** The columns that the condition of a join makes equal, in pairs: that of the outer rows first. */
const pairsOf = (condition: string): string[][] =>
  EQUALITIES.test(condition)
    ? [...condition.matchAll(new RegExp(EQUALITY, 'g'))].map(([equality]) =>
        [...equality.matchAll(new RegExp(COLUMN, 'g'))].map(([column]) => quotedAlways(column)),
      )
    : [];

function scanned(plan: PlanNode, read: ReadRelations): Joined | undefined {
  const { Alias: alias = '', Schema: schema, 'Relation Name': name } = plan;
  const isRead = ({ relation }: { relation: { schema: string; name: string } }): boolean =>
    relation.schema === schema && relation.name === name;
  const found = [...read.values()].find(isRead)?.found;
  if (!found) return undefined;
  const nameOf = (field: string): string => columnOf(alias, field);
  const uniques = found.indexes.filter(({ unique, partial }) => unique && !partial);
  const source = {
    columns: found.columns.map(({ field }) => nameOf(field)),
    keys: uniques.map(({ fields }) => fields.map(nameOf)),
  };
  return { sources: [source], all: [source], equalities: [] };
}

/** What a plan joins; undefined if its rows may also come from anything else. */
function joinedIn(plan: PlanNode, read: ReadRelations): Joined | undefined {
  const type = plan['Node Type'];
  if (SCAN.test(type)) return scanned(plan, read);
  const inputOf = (side: string): Joined | undefined => {
    const input = plan.Plans?.find((one) => one['Parent Relationship'] === side);
    return input && joinedIn(input, read);
  };
  const outer = inputOf('Outer');
  if (PASSING.test(type)) return outer;
  if (GROUPING.test(type) && !plan['Grouping Sets']) {
    const columns = (plan.Output ?? []).map(quotedAlways);
    const keys = [(plan['Group Key'] ?? []).map(quotedAlways)];
    const group = { columns, keys, grouped: outer?.sources };
    return {
      sources: [group],
      all: [group, ...(outer?.all ?? [])],
      equalities: outer?.equalities ?? [],
    };
  }
  const kind = plan['Join Type'] ?? '';
  if (!JOIN.test(type)) return undefined;
  if (kind === 'Semi' || kind === 'Anti') return outer;
  const inner = inputOf('Inner');
  if (kind === 'Right Semi' || kind === 'Right Anti') return inner;
  if (!outer || !inner || !['Inner', 'Left', 'Right'].includes(kind)) return undefined;
  const pairs = pairsOf(plan['Hash Cond'] ?? '');
  const toInner = pairs.map(([from = '', to = '']) => ({ from, to }));
  const toOuter = pairs.map(([to = '', from = '']) => ({ from, to }));
  // An outer join keeps rows of one side for which the condition does not hold.
  const equalities = [...(kind === 'Right' ? [] : toInner), ...(kind === 'Left' ? [] : toOuter)];
  return {
    sources: [...outer.sources, ...inner.sources],
    all: [...outer.all, ...inner.all],
    equalities: [...outer.equalities, ...inner.equalities, ...equalities],
  };
}

/** Whether values of these columns determine a row of each source. */
function areDetermined({ sources, all, equalities }: Joined, key: readonly string[]): boolean {
  const known = new Set(key);
  const determined = new Set<Source>();
  const isDetermined = ({ keys, grouped }: Source): boolean =>
    keys.some((columns) => columns.every((column) => known.has(column))) ||
    (grouped?.every((one) => determined.has(one)) ?? false);
  for (let size = -1; size < known.size + determined.size;) {
    size = known.size + determined.size;
    for (const { from, to } of equalities) if (known.has(from)) known.add(to);
    for (const source of all.filter(isDetermined)) {
      determined.add(source);
      for (const column of source.columns) known.add(column);
    }
  }
  return sources.every((source) => determined.has(source));
}

/**
 * Whether no two rows of a view have the same values in these fields, other than NULL.
 * @param plan the plan of reading all columns of the view, in which only hash joins compare columns
 */
export function isProvenKey(
  plan: PlanNode,
  view: CatalogTable,
  fields: readonly string[],
  read: ReadRelations,
): boolean {
  const joined = joinedIn(plan, read);
  const outputs = fields.map((field) => plan.Output?.[view.columns.findIndex((one) => one.field === field)]);
  return (
    joined !== undefined &&
    areDetermined(
      joined,
      outputs.map((output = '') => quotedAlways(output)),
    )
  );
}
