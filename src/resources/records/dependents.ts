import { text, type Database, type RawRow } from '../../db/connection/database.ts';
import type { Column, Model, OnDelete } from '../../db/schema/model.ts';
import {
  dependentsStatement,
  furtherDependentsStatement,
  deletesRecordStatement,
  deletesFlaggedStatement,
  reachesTableStatement,
  referencesStatement,
  type CatalogReference,
  type Edge,
  type DependentPath,
  type UnknownKey,
} from '../../query/statements/dependent-statements.ts';
import type { ListPlan } from '../../query/plan.ts';
import type { AdminResource, AdminResources } from '../serve/admin-resource.ts';

/** Records that go with others when those are deleted, lose their reference to them, or keep them from being deleted. */
export interface Dependents {
  /** Undefined where the admin area does not show them. */
  readonly resource: AdminResource | undefined;
  /** Undefined for a foreign key that the registry does not know. */
  readonly column: Column | undefined;
  readonly effect: OnDelete;
  /** How many models lie between: 0 for records that refer directly, Infinity for those further away than the ways that are told. */
  readonly depth: number;
  /**
   * The foreign keys that lead from these records to those that would be deleted: a path of filters. Empty where the registry
   * does not know all of them.
   */
  readonly path: readonly Column[];
  readonly count: number;
  /** Whether there are more than were counted. */
  readonly isCapped: boolean;
}

/** How far dependents are followed and counted, and along how many ways. */
const MOST_STEPS = 4;
const MOST_TRAILS = 100;
const COUNTED = 1000;

const isCascade = ({ steps }: DependentPath): boolean => steps.at(-1)?.column.onDelete === 'cascade';

/** The foreign keys of all models that refer to one. */
const edgesTo = (target: Model, models: readonly Model[]): Edge[] =>
  models.flatMap((model) =>
    model.columns.flatMap((column) => (column.references === target ? [{ model, column, target }] : [])),
  );

/** The foreign keys that lead, over any number of others that cascade, to records of a model. */
function edgesBelow(model: Model, models: readonly Model[]): Edge[] {
  const edges = edgesTo(model, models);
  const seen = new Set([model]);
  for (const { model: next, column } of edges) {
    if (column.onDelete !== 'cascade' || seen.has(next)) continue;
    seen.add(next);
    edges.push(...edgesTo(next, models)); // which the loop reaches as well
  }
  return edges;
}

interface Trails {
  readonly trails: readonly DependentPath[];
  /** Those at whose end there may be more than they tell: they are too long, too many, or lead where they have been. */
  readonly cut: ReadonlySet<DependentPath>;
}

/** The ways along foreign keys from records of a model to those that their deletion would touch, the shortest first. */
function trailsOf(model: Model, models: readonly Model[], mostSteps: number): Trails {
  const trails: DependentPath[] = edgesTo(model, models).map((edge) => ({ steps: [edge] }));
  const cut = new Set<DependentPath>();
  for (const trail of trails) {
    const { steps } = trail;
    const last = steps.at(-1);
    if (!last || !isCascade(trail)) continue;
    for (const edge of edgesTo(last.model, models)) {
      const isRound = steps.some(({ column }) => column === edge.column);
      if (isRound || steps.length >= mostSteps || trails.length >= MOST_TRAILS) cut.add(trail);
      else trails.push({ steps: [...steps, edge] }); // which the loop reaches as well
    }
  }
  return { trails, cut };
}

const isDeclared = ({ model, from, fields }: UnknownKey): boolean =>
  fields.length === 1 &&
  from?.columns.some(({ field, references }) => references === model && field === fields[0]) === true;

/** The foreign keys of these models' tables that the registry does not know, those of other tables among them. */
async function unknownKeys(
  database: Database,
  targets: ReadonlySet<Model>,
  models: readonly Model[],
): Promise<UnknownKey[]> {
  const [row] = await database.run(referencesStatement(models.map((model) => model.table)), 'read');
  const found = JSON.parse(text(row?.[0]) ?? '[]') as CatalogReference[];
  return found.flatMap((key) => {
    const model = models[key.target - 1];
    if (!model || !targets.has(model)) return [];
    const unknown = { ...key, model, from: key.from === null ? undefined : models[key.from - 1] };
    return isDeclared(unknown) ? [] : [unknown];
  });
}

/** The numbers of an array, as PostgreSQL writes it. */
const numbersIn = (row: RawRow | undefined): number[] =>
  [...(text(row?.[0]) ?? '').matchAll(/\d+/g)].map(([digits]) => Number(digits));

const capped = (count: number): Pick<Dependents, 'count' | 'isCapped'> => ({
  count: Math.min(count, COUNTED),
  isCapped: count > COUNTED,
});

async function countsOf(
  database: Database,
  plan: ListPlan,
  trails: readonly DependentPath[],
  isDeletion: boolean,
): Promise<number[]> {
  if (trails.length === 0) return [];
  const [row] = await database.run(dependentsStatement(plan, trails, COUNTED, isDeletion), 'read');
  return numbersIn(row);
}

/** Counts what the deletion would touch beyond the ends of the trails. */
async function countFurther(
  database: Database,
  resources: AdminResources,
  models: readonly Model[],
  plan: ListPlan,
  trails: readonly DependentPath[],
): Promise<Dependents[]> {
  const edges = edgesBelow(plan.model, models);
  const [row] = await database.run(furtherDependentsStatement(plan, edges, trails, models, COUNTED), 'read');
  const counts = numbersIn(row);
  return edges.flatMap(({ model, column }, index): Dependents[] => {
    const what = { resource: resources.get(model.name), column, effect: column.onDelete, path: [] };
    return counts[index] ? [{ ...what, depth: Infinity, ...capped(counts[index]) }] : [];
  });
}

/**
 * Counts what deleting all that the plan matches would touch.
 * @param mostSteps how many foreign keys of the registry are followed; without it, for a deletion, those that only the database
 * knows are, too
 */
export async function countDependents(
  database: Database,
  resources: AdminResources,
  models: readonly Model[],
  plan: ListPlan,
  mostSteps?: number,
): Promise<Dependents[]> {
  const { trails: declared, cut } = trailsOf(plan.model, models, mostSteps ?? MOST_STEPS);
  const trails = [...declared];
  if (mostSteps === undefined) {
    const going = declared.filter(isCascade);
    const ends = new Set([plan.model, ...going.flatMap(({ steps }) => steps.at(-1)?.model ?? [])]);
    for (const last of await unknownKeys(database, ends, models)) {
      const ways = going.filter(({ steps }) => steps.at(-1)?.model === last.model);
      if (last.model === plan.model) trails.push({ steps: [], unknownKey: last });
      trails.push(...ways.map(({ steps }) => ({ steps, unknownKey: last })));
    }
  }
  const counts = await countsOf(database, plan, trails, mostSteps === undefined);
  const isFurther = mostSteps === undefined && trails.some((trail, index) => cut.has(trail) && counts[index]);
  const further = isFurther ? await countFurther(database, resources, models, plan, declared) : [];
  const near = trails.flatMap(({ steps, unknownKey: last }, index): Dependents[] => {
    const count = counts[index] ?? 0;
    if (count === 0) return [];
    const counted = capped(count);
    const end = steps.at(-1);
    if (last) {
      const resource = last.from && resources.get(last.from.name);
      const { onDelete: effect } = last;
      return [{ resource, column: undefined, effect, depth: steps.length, path: [], ...counted }];
    }
    if (!end) return [];
    const { model, column } = end;
    const path = steps.map((step) => step.column).reverse();
    const what = { resource: resources.get(model.name), column, effect: column.onDelete };
    return [{ ...what, depth: steps.length - 1, path, ...counted }];
  });
  return [...near, ...further];
}

/** The foreign keys along which a deletion of the model's records goes on. */
const cascadesBelow = (model: Model, models: readonly Model[]): Edge[] =>
  edgesBelow(model, models).filter(({ column }) => column.onDelete === 'cascade');

/** Whether deleting all that the plan matches would delete this record, of whatever model, as well. */
export async function isDependent(
  database: Database,
  models: readonly Model[],
  plan: ListPlan,
  name: string,
  id: string,
): Promise<boolean> {
  const cascades = cascadesBelow(plan.model, models);
  const model = [plan.model, ...cascades.map((edge) => edge.model)].find((one) => one.name === name);
  if (!model) return false;
  const [row] = await database.run(deletesRecordStatement(plan, cascades, models, model, id), 'read');
  return text(row?.[0]) === 't';
}

/**
 * Whether deleting all that the plan matches may delete a record of a model whose boolean column is true. Foreign keys that the
 * registry does not know are not followed: where one of them leads there, the answer is yes.
 */
export async function mayDelete(
  database: Database,
  models: readonly Model[],
  plan: ListPlan,
  target: Model,
  column: Column,
): Promise<boolean> {
  const cascades = cascadesBelow(plan.model, models);
  const [reach] = await database.run(reachesTableStatement(plan.model, cascades, target), 'read');
  if (text(reach?.[0]) === 't') return true;
  const going = new Set([plan.model, ...cascades.map(({ model }) => model)]);
  // Several models may have one table.
  const holders = [...going].filter(({ table }) => table === target.table);
  if (holders.length === 0) return false;
  const [row] = await database.run(deletesFlaggedStatement(plan, cascades, models, holders, column), 'read');
  return text(row?.[0]) === 't';
}
