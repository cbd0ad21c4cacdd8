import { text, type Database } from '../db/connection.ts';
import type { Column, Model, OnDelete } from '../db/model.ts';
import {
  dependentsStatement,
  referencesStatement,
  type CatalogReference,
  type Trail,
  type UnknownKey,
} from '../query/dependents.ts';
import type { ListPlan } from '../query/plan.ts';
import type { AdminResource, AdminResources } from './admin.ts';

/** Records that go with others when those are deleted, lose their reference to them, or keep them from being deleted. */
export interface Dependents {
  /** Undefined where the admin area does not show them. */
  readonly resource: AdminResource | undefined;
  /** Undefined for a foreign key that the registry does not know. */
  readonly column: Column | undefined;
  readonly effect: OnDelete;
  /** How many models lie between: 0 for records that refer directly. */
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

/** The ways along foreign keys from records of a model to those that their deletion would touch, the shortest first. */
function trailsOf(model: Model, allModels: readonly Model[], mostSteps: number): Trail[] {
  const trails: Trail[] = [];
  const follow = (target: Model, steps: Trail['steps']): void => {
    for (const one of allModels) {
      for (const column of one.columns) {
        if (column.references === target) trails.push({ steps: [...steps, { model: one, column }] });
      }
    }
  };
  follow(model, []);
  for (let at = 0; at < trails.length && trails.length < MOST_TRAILS; at += 1) {
    const steps = trails[at]?.steps ?? [];
    const last = steps.at(-1);
    if (last?.column.onDelete === 'cascade' && steps.length < mostSteps) follow(last.model, steps);
  }
  return trails;
}

const isCascade = ({ steps }: Trail): boolean => steps.at(-1)?.column.onDelete === 'cascade';

const isDeclared = ({ model, from, fields }: UnknownKey): boolean =>
  fields.length === 1 &&
  from?.columns.some(({ field, references }) => references === model && field === fields[0]) === true;

/** The foreign keys of these models' tables that the registry does not know, those of other tables among them. */
async function unknownKeys(
  database: Database,
  targets: ReadonlySet<Model>,
  models: readonly Model[],
): Promise<UnknownKey[]> {
  const [row] = await database.run(referencesStatement(models.map((model) => model.table)), 'work');
  const found = JSON.parse(text(row?.[0]) ?? '[]') as CatalogReference[];
  return found.flatMap((key) => {
    const model = models[key.target - 1];
    if (!model || !targets.has(model)) return [];
    const unknown = { ...key, model, from: key.from === null ? undefined : models[key.from - 1] };
    return isDeclared(unknown) ? [] : [unknown];
  });
}

async function countsOf(
  database: Database,
  plan: ListPlan,
  trails: readonly Trail[],
  only?: string,
): Promise<number[]> {
  if (trails.length === 0) return [];
  const [row] = await database.run(dependentsStatement(plan, trails, COUNTED, only), 'work');
  return [...(text(row?.[0]) ?? '').matchAll(/\d+/g)].map(([digits]) => Number(digits));
}

/**
 * Counts what deleting all that the plan matches would touch.
 * @param mostSteps how many foreign keys of the registry are followed; without it, those that only the database knows are, too
 */
export async function countDependents(
  database: Database,
  resources: AdminResources,
  models: readonly Model[],
  plan: ListPlan,
  mostSteps?: number,
): Promise<Dependents[]> {
  const declared = trailsOf(plan.model, models, mostSteps ?? MOST_STEPS);
  const trails = [...declared];
  if (mostSteps === undefined) {
    const going = declared.filter(isCascade);
    const ends = new Set([plan.model, ...going.flatMap(({ steps }) => steps.at(-1)?.model ?? [])]);
    for (const last of await unknownKeys(database, ends, models)) {
      const ways = going.filter(({ steps }) => steps.at(-1)?.model === last.model);
      if (last.model === plan.model) trails.push({ steps: [], last });
      trails.push(...ways.map(({ steps }) => ({ steps, last })));
    }
  }
  const counts = await countsOf(database, plan, trails);
  return trails.flatMap(({ steps, last }, index): Dependents[] => {
    const count = counts[index] ?? 0;
    if (count === 0) return [];
    const counted = { count: Math.min(count, COUNTED), isCapped: count > COUNTED };
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
}

/** Whether deleting all that the plan matches would delete this record of another model, or of the same, as well. */
export async function isDependent(
  database: Database,
  models: readonly Model[],
  plan: ListPlan,
  name: string,
  id: string,
): Promise<boolean> {
  const trails = trailsOf(plan.model, models, MOST_STEPS).filter(
    (trail) => isCascade(trail) && trail.steps.at(-1)?.model.name === name,
  );
  return (await countsOf(database, plan, trails, id)).some((count) => count > 0);
}
