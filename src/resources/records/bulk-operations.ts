import { text, type Database } from '../../db/connection/database.ts';
import type { Statement } from '../../db/fragment.ts';
import { findColumn, type Model } from '../../db/schema/model.ts';
import { duplicated, isDatabaseError, isOfTable, toProblem } from '../../db/connection/database-errors.ts';
import { addError, badBody, Problem, type FieldErrors } from '../../errors.ts';
import {
  bulkDeleteStatement,
  bulkUpdateStatement,
  chosenOnly,
} from '../../query/statements/bulk-statements.ts';
import { countStatement } from '../../query/statements/read-statements.ts';
import type { Change } from '../../query/statements/change.ts';
import { checkStatement } from '../../query/statements/check-statements.ts';
import type { AdminResource, AdminResources } from '../serve/admin-resource.ts';
import { checkBody } from './checked-body.ts';
import type { Browsing } from './browsing.ts';
import type { Selection } from './selection.ts';
import { countDependents, isDependent, mayDelete, type Dependents } from './dependents.ts';
import type { JsonFields } from './json-fields.ts';
import { historyFault, recordingOf } from '../serve/recording.ts';
import { DUPLICATE, Referred, REFERRED } from './conflicts.ts';
import type { Caller } from '../serve/served-resource.ts';
import { addCheckErrors, parseBooleans, suppressed } from './write-result.ts';

/** Changes of many records at once, each in one transaction. */
export interface Bulk {
  /**
   * What deleting these records would do to others, by the foreign keys of the registry and those that only the database knows.
   * @param steps how many foreign keys of the registry are followed, and no others: 1 for the records that refer to these directly
   */
  readonly dependents: (
    resource: AdminResource,
    of: Selection | readonly string[],
    steps?: number,
  ) => Promise<Dependents[]>;
  /** Whether a selection has this record. */
  readonly includes: (resource: AdminResource, selection: Selection, id: string) => Promise<boolean>;
  /** Whether deleting a selection would delete this record of a model, which is one of them or goes with them. */
  readonly deletes: (
    resource: AdminResource,
    selection: Selection,
    model: string,
    id: string,
  ) => Promise<boolean>;
  /** Whether deleting a selection may delete a user of this model who is an admin. */
  readonly deletesAdmin: (
    resource: AdminResource,
    selection: Selection,
    userModel: string,
  ) => Promise<boolean>;
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
  readonly check: (resource: AdminResource, members: JsonFields, caller: Caller) => Promise<void>;
  /**
   * Sets columns of all records of a selection.
   * @param expected as for `remove`
   * @returns in how many records something has changed
   * @throws Problem 400 for values that cannot be used, 409
   */
  readonly set: (
    resource: AdminResource,
    selection: Selection,
    members: JsonFields,
    caller: Caller,
    expected: number,
  ) => Promise<number>;
}

const changedMeanwhile = (): Problem =>
  new Problem(409, 'The records have changed since they were counted. Nothing was done.');

/** Values that are not set like this, which `checkBody` leaves alone or takes as they are. */
function addUnsettable(members: JsonFields, { model, readonly }: AdminResource, errors: FieldErrors): void {
  for (const column of model.columns) {
    if (!members.has(column.key)) continue;
    if (readonly.has(column)) addError(errors, column.key, 'is read-only');
    if (column.isPassword) addError(errors, column.key, 'is set for one record at a time');
  }
}

/** What the database has against a change of many records, where it can be explained. */
function explained(
  error: unknown,
  changed: Model,
  changes: readonly Change[],
  models: readonly Model[],
): unknown {
  if (!isDatabaseError(error)) return error;
  if (changes.length === 0 && REFERRED.has(error.code)) {
    const names = models.filter((model) => isOfTable(model, error)).map(({ name }) => name);
    return new Referred('Other records refer to some of these. Nothing was deleted.', names);
  }
  if (error.code !== DUPLICATE) return toProblem(error) ?? error;
  const errors: FieldErrors = {};
  for (const column of duplicated(changed, error)) {
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
  /** Runs the one statement, and takes it back where it does not touch as many records as was said. Gives how many changed. */
  async function apply(
    statement: Statement,
    expected: number,
    model: Model,
    changes: readonly Change[] = [],
  ): Promise<number> {
    try {
      return await database.transaction(async (run) => {
        const [row] = await run(statement.text, statement.values);
        const [matched, wanted = 0, done = wanted] = (row ?? []).map((cell) => Number(text(cell)));
        if (matched !== expected) throw changedMeanwhile();
        // A trigger can turn a change into nothing, without an error.
        if (done < (changes.length > 0 ? wanted : expected)) throw suppressed();
        return done;
      }, 'bulk');
    } catch (error) {
      throw explained(historyFault(error, log), model, changes, models);
    }
  }

  /** The changes that the members ask for. */
  async function check(resource: AdminResource, members: JsonFields, caller: Caller): Promise<Change[]> {
    const { changes, checks, errors } = checkBody(members, resource, { id: '', caller });
    addUnsettable(members, resource, errors);
    for (const { kind, key, fault } of checks) if (kind === 'unchanged') addError(errors, key, fault);
    const references = checks.filter(({ kind }) => kind === 'reference');
    if (references.length > 0) {
      const [row] = await database.run(checkStatement(resource.model, undefined, references), 'read');
      addCheckErrors(references, parseBooleans(row?.[0]), errors);
    }
    if (Object.keys(errors).length > 0) throw badBody(errors);
    return changes;
  }

  async function includes(resource: AdminResource, selection: Selection, id: string): Promise<boolean> {
    const plan = chosenOnly(browsing.plan(resource, selection), [id]);
    const [row] = await database.run(countStatement(plan), 'read');
    return Number(text(row?.[0])) > 0;
  }

  return {
    async dependents(resource, of, mostSteps) {
      const plan = browsing.plan(resource, 'query' in of ? of : { query: '', search: '', ids: of });
      return countDependents(database, resources, models, plan, mostSteps);
    },

    includes,

    async deletes(resource, selection, model, id) {
      return isDependent(database, models, browsing.plan(resource, selection), model, id);
    },

    async deletesAdmin(resource, selection, userModel) {
      const users = models.find(({ name }) => name === userModel);
      const admin = users && findColumn(users, 'admin');
      if (!admin) return false;
      return mayDelete(database, models, browsing.plan(resource, selection), users, admin);
    },

    async count(resource, selection) {
      const [row] = await database.run(countStatement(browsing.plan(resource, selection)), 'read');
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
      return apply(statement, expected, resource.model, changes);
    },
  };
}
