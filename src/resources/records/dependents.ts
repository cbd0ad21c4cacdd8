// Finds and counts the records that a deletion would affect.
import type { Database } from '../../db/connection/database.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import { edgesBelow, edgesTo, reachesTableStatement, type Edge } from '../../db/schema/cascades.ts';
import { sameFields } from '../../db/schema/catalog-keys.ts';
import { foreignKeysOf, partsOf, type Column, type Model, type OnDelete } from '../../db/schema/model.ts';
import {
  dependentsStatement,
  furtherDependentsStatement,
  deletesStatement,
  referencesStatement,
  type DependentPath,
  type FlagColumn,
  type UnknownKey,
} from '../../query/statements/dependent-statements.ts';
import type { ListPlan } from '../../query/plan.ts';
import type { AdminView, AdminViews } from '../access/admin-view.ts';

/** Records that a deletion would affect: they would be deleted by cascade, lose their reference, or prevent the deletion. */
export interface Dependents {
  /** Undefined where the admin area does not show them. */
  readonly resource: AdminView | undefined;
  /** Undefined for a foreign key that the registry does not know. */
  readonly column: Column | undefined;
  readonly effect: OnDelete;
  /** The number of models in between: 0 for records that refer directly, Infinity for those beyond the paths that are followed. */
  readonly depth: number;
  /**
   * The foreign keys from these records to those that would be deleted, as a filter's path. Empty where the registry does not
   * know all of them.
   */
  readonly path: readonly Column[];
  readonly count: number;
  /** Whether there are more records than `count`. */
  readonly isCapped: boolean;
}

/** Maximum foreign keys in a row, paths, and records counted per path. */
const MAX_STEPS = 4;
const MAX_PATHS = 100;
const MAX_COUNTED = 1000;

const isCascade = ({ steps }: DependentPath): boolean => steps.at(-1)?.column.onDelete === 'cascade';

interface FoundPaths {
  readonly paths: readonly DependentPath[];
  /** The paths that end early, at a limit or in a cycle. More records may depend on those at their end. */
  readonly unfinished: ReadonlySet<DependentPath>;
}

/** The paths of foreign keys from a model's records to those that their deletion would affect, the shortest first. */
function findPaths(model: Model, models: readonly Model[], maxSteps: number): FoundPaths {
  const paths: DependentPath[] = edgesTo(model, models).map((edge) => ({ steps: [edge] }));
  const unfinished = new Set<DependentPath>();
  for (const path of paths) {
    const { steps } = path;
    const last = steps.at(-1);
    if (!last || !isCascade(path)) continue;
    for (const edge of edgesTo(last.model, models)) {
      const isCycle = steps.some(({ column }) => column === edge.column);
      if (isCycle || steps.length >= maxSteps || paths.length >= MAX_PATHS) unfinished.add(path);
      else paths.push({ steps: [...steps, edge] }); // The loop visits this one, too.
    }
  }
  return { paths, unfinished };
}

const isDeclared = ({ model, from, fields }: UnknownKey): boolean =>
  from !== undefined &&
  foreignKeysOf(from).some(
    (column) =>
      column.references === model &&
      sameFields(
        partsOf(column)
          .map(({ field }) => field)
          .toSorted(),
        fields.toSorted(),
      ),
  );

/** Foreign keys that refer to these models' tables and are not in the registry, whatever table they belong to. */
async function unregisteredForeignKeys(
  database: Database,
  targets: ReadonlySet<Model>,
  models: readonly Model[],
): Promise<UnknownKey[]> {
  const tables = models.filter(({ isTable }) => isTable);
  const found = await database.run(referencesStatement(tables.map(({ table }) => table)), 'read');
  return found.flatMap((key) => {
    const model = tables[key.target - 1];
    if (!model || !targets.has(model)) return [];
    const unknown = { ...key, model, from: key.from === null ? undefined : tables[key.from - 1] };
    return isDeclared(unknown) ? [] : [unknown];
  });
}

const capped = (count: number): Pick<Dependents, 'count' | 'isCapped'> => ({
  count: Math.min(count, MAX_COUNTED),
  isCapped: count > MAX_COUNTED,
});

async function countsOf(
  database: Database,
  plan: ListPlan,
  paths: readonly DependentPath[],
  isDeletion: boolean,
): Promise<number[]> {
  if (paths.length === 0) return [];
  return database.run(dependentsStatement(plan, paths, MAX_COUNTED, isDeletion), 'read');
}

/** Counts the records that the deletion would affect beyond the ends of the paths. */
async function countFurther(
  database: Database,
  resources: AdminViews,
  models: readonly Model[],
  plan: ListPlan,
  paths: readonly DependentPath[],
): Promise<Dependents[]> {
  const edges = edgesBelow(plan.model, models);
  const counts = await database.run(
    furtherDependentsStatement(plan, edges, paths, models, MAX_COUNTED),
    'read',
  );
  return edges.flatMap(({ model, column }, index): Dependents[] => {
    const what = { resource: resources.get(model.name), column, effect: column.onDelete, path: [] };
    return counts[index] ? [{ ...what, depth: Infinity, ...capped(counts[index]) }] : [];
  });
}

/**
 * Counts the records that deleting all that the plan matches would affect.
 * @param isForAdmin others see only the records that exist for them
 * @param maxSteps follows only this many of the registry's foreign keys in a row. Without it, foreign keys that only the database
 * knows count as well.
 */
export async function countDependents(
  database: Database,
  resources: AdminViews,
  models: readonly Model[],
  plan: ListPlan,
  isForAdmin: boolean,
  maxSteps?: number,
): Promise<Dependents[]> {
  const { visibility } = plan;
  const { paths: found, unfinished } = findPaths(plan.model, models, maxSteps ?? MAX_STEPS);
  const isSeen = ({ model, column }: DependentPath['steps'][number]): boolean =>
    visibility.joinable(model) && visibility.find(model, column.name) === column;
  const declared = isForAdmin ? found : found.filter(({ steps }) => steps.every(isSeen));
  const paths = [...declared];
  if (isForAdmin && maxSteps === undefined) {
    const cascading = declared.filter(isCascade);
    const ends = new Set([plan.model, ...cascading.flatMap(({ steps }) => steps.at(-1)?.model ?? [])]);
    for (const last of await unregisteredForeignKeys(database, ends, models)) {
      const toModel = cascading.filter(({ steps }) => steps.at(-1)?.model === last.model);
      if (last.model === plan.model) paths.push({ steps: [], unknownKey: last });
      paths.push(...toModel.map(({ steps }) => ({ steps, unknownKey: last })));
    }
  }
  const counts = await countsOf(database, plan, paths, maxSteps === undefined);
  const isFurther =
    isForAdmin &&
    maxSteps === undefined &&
    paths.some((path, index) => unfinished.has(path) && counts[index]);
  const further = isFurther ? await countFurther(database, resources, models, plan, declared) : [];
  const near = paths.flatMap(({ steps, unknownKey: last }, index): Dependents[] => {
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

/** The foreign keys along which a deletion of the model's records cascades. */
const cascadesBelow = (model: Model, models: readonly Model[]): Edge[] =>
  edgesBelow(model, models).filter(({ column }) => column.onDelete === 'cascade');

/**
 * The foreign keys on a path to one of these models. What a deletion reaches along others may be millions of records, which
 * lead to none of the wanted ones.
 */
function leadingTo(ends: readonly Model[], cascades: readonly Edge[]): Edge[] {
  const leading = new Set(ends);
  // The loop visits the models that it adds, too.
  for (const end of leading) for (const { model, target } of cascades) if (model === end) leading.add(target);
  return cascades.filter(({ model }) => leading.has(model));
}

/** Whether deleting all that the plan matches would also delete this record of the named model. */
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
  const paths = leadingTo([model], cascades);
  return database.run(deletesStatement(plan, paths, models, [model], { id }), 'read');
}

/** The models with the table of `target` whose records a deletion can reach. Several models may share one table. */
function modelsOfTable(from: Model, cascades: readonly Edge[], target: Model): Model[] {
  const deleted = new Set([from, ...cascades.map(({ model }) => model)]);
  return [...deleted].filter(({ table }) => table === target.table);
}

/** Whether deletions of a model's records can reach those of `target` by the registry's foreign keys. */
export const mayReach = (model: Model, models: readonly Model[], target: Model): boolean =>
  modelsOfTable(model, cascadesBelow(model, models), target).length > 0;

/**
 * Whether deleting all that the plan matches may delete a record whose flag is true, or any without a flag. The answer is also yes when a foreign key
 * that the registry does not know leads to the flag's model.
 */
export async function mayReachFlagged(
  run: Transaction['run'],
  models: readonly Model[],
  plan: ListPlan,
  { model: target, column }: FlagColumn,
): Promise<boolean> {
  const cascades = cascadesBelow(plan.model, models);
  if (await run(reachesTableStatement(plan.model, cascades, target))) return true;
  const targets = modelsOfTable(plan.model, cascades, target);
  if (targets.length === 0) return false;
  // A policy may hide those who would be deleted, which does not keep the database from deleting them.
  if (targets.some(({ mayHideRows }) => mayHideRows)) return true;
  return run(deletesStatement(plan, leadingTo(targets, cascades), models, targets, { flag: column }));
}
