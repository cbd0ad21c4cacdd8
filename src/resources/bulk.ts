import { text, type Database, type RawRow } from '../db/connection.ts';
import type { Statement } from '../db/fragment.ts';
import type { Column, Model, OnDelete } from '../db/model.ts';
import { isDatabaseError, toProblem } from '../db/sqlstate.ts';
import { addError, badBody, Problem, type FieldErrors } from '../errors.ts';
import { bulkDeleteStatement, bulkUpdateStatement, dependentsStatement, type Trail } from '../query/bulk.ts';
import { countStatement } from '../query/read.ts';
import { checkStatement, type Change } from '../query/write.ts';
import type { AdminResource, AdminResources } from './admin.ts';
import { checkBody } from './body.ts';
import type { Browsing, Selection } from './browse.ts';
import type { Members } from './members.ts';
import { historyFault, recordingOf, REFERRED } from './operations.ts';
import type { Caller } from './served.ts';

/** Records that go with others when those are deleted, lose their reference to them, or keep them from being deleted. */
export interface Dependents {
  readonly model: Model;
  /** Undefined where the admin area does not show them. */
  readonly resource: AdminResource | undefined;
  readonly column: Column;
  readonly effect: OnDelete;
  /** How many models lie between: 0 for records that refer directly. */
  readonly depth: number;
  /** The foreign keys that lead from these records to those that would be deleted: a path of filters. */
  readonly path: readonly Column[];
  readonly count: number;
  /** Whether there are more than were counted. */
  readonly isCapped: boolean;
}

/** Changes of many records at once, each in one transaction. */
export interface Bulk {
  /**
   * What deleting these records would do to others, by the foreign keys of the registry.
   * @param steps how many foreign keys are followed: 1 for the records that refer to these directly
   */
  readonly dependents: (
    resource: AdminResource,
    of: Selection | readonly string[],
    steps?: number,
  ) => Promise<Dependents[]>;
  /** How many records a selection has, to the last one. */
  readonly count: (resource: AdminResource, selection: Selection) => Promise<number>;
  /**
   * Deletes all records of a selection.
   * @param expected how many the person was told; another number changes nothing
   * @throws Problem 409
   */
  readonly remove: (
    resource: AdminResource,
    selection: Selection,
    caller: Caller,
    expected: number,
  ) => Promise<number>;
  /**
   * Whether these values can be set in any record.
   * @throws Problem 400 that names what cannot be used
   */
  readonly check: (resource: AdminResource, members: Members, caller: Caller) => Promise<void>;
  /**
   * Sets columns of all records of a selection.
   * @param expected as for `remove`
   * @returns in how many records something has changed
   * @throws Problem 400 for values that cannot be used, 409
   */
  readonly set: (
    resource: AdminResource,
    selection: Selection,
    members: Members,
    caller: Caller,
    expected: number,
  ) => Promise<number>;
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

const changedMeanwhile = (): Problem =>
  new Problem(409, 'The records have changed since they were counted. Nothing was done.');

/** Values that are not set like this, which `checkBody` leaves alone or takes as they are. */
function addUnsettable(members: Members, { model, readonly }: AdminResource, errors: FieldErrors): void {
  for (const column of model.columns) {
    if (!members.has(column.key)) continue;
    if (readonly.has(column)) addError(errors, column.key, 'is read-only');
    if (column.isPassword) addError(errors, column.key, 'is set for one record at a time');
  }
}

/** What the database has against a change of many records, where it can be explained. */
function explained(error: unknown, { uniques }: Model, changes: readonly Change[]): unknown {
  if (!isDatabaseError(error)) return error;
  if (changes.length === 0 && REFERRED.has(error.code))
    return new Problem(409, 'Other records refer to some of these. Nothing was deleted.');
  if (error.code !== '23505') return toProblem(error) ?? error;
  const errors: FieldErrors = {};
  for (const column of uniques.get(error.constraint_name ?? '') ?? []) {
    if (changes.some((change) => change.column === column))
      addError(errors, column.key, 'no two records may have the same value');
  }
  return new Problem(409, 'There is such a record already. Nothing was changed.', { errors });
}

/** @param log the history, or undefined for a service without one */
export function createBulk(
  database: Database,
  resources: AdminResources,
  browsing: Browsing,
  models: readonly Model[],
  log?: Model,
): Bulk {
  /** Runs the one statement, and takes it back where it does not touch as many records as was said. */
  async function apply(
    statement: Statement,
    expected: number,
    model: Model,
    changes: readonly Change[] = [],
  ): Promise<RawRow> {
    try {
      return await database.transaction(async (run) => {
        const [row] = await run(statement.text, statement.values);
        if (!row || Number(text(row[0])) !== expected) throw changedMeanwhile();
        return row;
      }, 'people');
    } catch (error) {
      throw explained(historyFault(error, log), model, changes);
    }
  }

  /** The changes that the members ask for. */
  async function check(resource: AdminResource, members: Members, caller: Caller): Promise<Change[]> {
    const { changes, checks, errors } = checkBody(members, resource, { id: '', caller });
    addUnsettable(members, resource, errors);
    for (const { kind, key, fault } of checks) if (kind === 'unchanged') addError(errors, key, fault);
    const references = checks.filter(({ kind }) => kind === 'reference');
    if (references.length > 0) {
      const [row] = await database.run(checkStatement(resource.model, undefined, references), 'work');
      const held = [...(text(row?.[0]) ?? '').matchAll(/[tf]/g)].map(([letter]) => letter === 't');
      references.forEach(({ key, fault }, index) => {
        if (!held[index]) addError(errors, key, fault);
      });
    }
    if (Object.keys(errors).length > 0) throw badBody(errors);
    return changes;
  }

  return {
    async dependents(resource, of, mostSteps = MOST_STEPS) {
      const trails = trailsOf(resource.model, models, mostSteps);
      if (trails.length === 0) return [];
      const plan = browsing.plan(resource, 'query' in of ? of : { query: '', search: '', ids: of });
      const [row] = await database.run(dependentsStatement(plan, trails, COUNTED), 'work');
      const counts = [...(text(row?.[0]) ?? '').matchAll(/\d+/g)].map(([digits]) => Number(digits));
      return trails.flatMap(({ steps }, index): Dependents[] => {
        const last = steps.at(-1);
        const count = counts[index] ?? 0;
        if (!last || count === 0) return [];
        const isCapped = count > COUNTED;
        const path = steps.map(({ column }) => column).reverse();
        const counted = { count: Math.min(count, COUNTED), isCapped };
        const { model, column } = last;
        const what = { model, column, resource: resources.get(model.name), effect: column.onDelete };
        return [{ ...what, depth: steps.length - 1, path, ...counted }];
      });
    },

    async count(resource, selection) {
      const [row] = await database.run(countStatement(browsing.plan(resource, selection)), 'work');
      return Number(text(row?.[0]));
    },

    async remove(resource, selection, caller, expected) {
      const plan = browsing.plan(resource, selection);
      await apply(bulkDeleteStatement(plan, recordingOf(resource, caller, log)), expected, resource.model);
      return expected;
    },

    async check(resource, members, caller) {
      await check(resource, members, caller);
    },

    async set(resource, selection, members, caller, expected) {
      const plan = browsing.plan(resource, selection);
      const changes = await check(resource, members, caller);
      if (changes.length === 0) return 0;
      const statement = bulkUpdateStatement(plan, changes, recordingOf(resource, caller, log));
      const row = await apply(statement, expected, resource.model, changes);
      return Number(text(row[1]));
    },
  };
}
