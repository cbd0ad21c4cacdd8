// Deletes and changes selections of records for the admin area.
import type { Database } from '../../db/connection/database.ts';
import { type Statement } from '../../db/rows.ts';
import { findColumn, type Model } from '../../db/schema/model.ts';
import {
  duplicateColumns,
  isDatabaseError,
  isOfTable,
  toProblem,
} from '../../db/connection/database-errors.ts';
import { addError, badBody, Problem, type FieldErrors } from '../../errors.ts';
import {
  bulkDeleteStatement,
  bulkUpdateStatement,
  chosenOnly,
  type BulkCounts,
} from '../../query/statements/bulk-statements.ts';
import { countStatement } from '../../query/statements/read-statements.ts';
import type { Change } from '../../query/statements/change.ts';
import { checkStatement } from '../../query/statements/check-statements.ts';
import type { AdminResource, AdminResources } from '../serve/admin-resource.ts';
import { checkBody } from './checked-body.ts';
import type { Browsing } from './browsing.ts';
import type { Selection } from './selection.ts';
import { countDependents, isDependent, mayReachFlagged, type Dependents } from './dependents.ts';
import type { JsonFields } from './json-fields.ts';
import { UNIQUE_VIOLATION, StillReferenced, FOREIGN_KEY_VIOLATIONS, historyFault } from './conflicts.ts';
import type { Caller } from '../serve/served-resource.ts';
import { addCheckErrors, suppressed } from './write-result.ts';

const countChanged = (): Problem =>
  new Problem(409, 'The number of selected records has changed since the page was shown. Nothing was done.');

/** Reports columns that cannot be set in bulk. `checkBody` ignores or accepts them. */
function addUnsettable(fields: JsonFields, { model, readonly }: AdminResource, errors: FieldErrors): void {
  for (const column of model.columns) {
    if (!fields.has(column.key)) continue;
    if (readonly.has(column)) addError(errors, column.key, 'is read-only');
    if (column.isPassword) addError(errors, column.key, 'can be set for only one record at a time');
  }
}

/** Turns a database error into a problem that names the cause, where it is known. */
function explainError(
  error: unknown,
  changed: Model,
  changes: readonly Change[],
  models: readonly Model[],
): unknown {
  if (!isDatabaseError(error)) return error;
  if (changes.length === 0 && FOREIGN_KEY_VIOLATIONS.has(error.code)) {
    const names = models.filter((model) => isOfTable(model, error)).map(({ name }) => name);
    return new StillReferenced(
      'Other records refer to some of the selected records. Nothing was deleted.',
      names,
    );
  }
  if (error.code !== UNIQUE_VIOLATION) return toProblem(error) ?? error;
  const errors: FieldErrors = {};
  for (const column of duplicateColumns(changed, error)) {
    if (changes.some((change) => change.column === column))
      addError(errors, column.key, 'must be unique, so two records cannot have the same value');
  }
  return new Problem(409, 'A record with the same value already exists. Nothing was changed.', { errors });
}

export type Bulk = ReturnType<typeof createBulk>;

/** Deletes or changes many records at once, each time in one transaction. */
export function createBulk(
  database: Database,
  resources: AdminResources,
  browsing: Browsing,
  models: readonly Model[],
) {
  /** Runs the statement, and rolls it back unless it matches the expected number of records. Returns how many changed. */
  async function apply(
    statement: Statement<BulkCounts>,
    expected: number,
    resource: AdminResource,
    changes: readonly Change[] = [],
  ): Promise<number> {
    try {
      return await database.transaction(async ({ run }) => {
        const { matched, attempted, done } = await run(statement);
        if (matched !== expected) throw countChanged();
        // A trigger can cancel the change of a row without an error.
        if (done < attempted) throw suppressed();
        return done;
      }, 'bulk');
    } catch (error) {
      throw explainError(historyFault(error, resource), resource.model, changes, models);
    }
  }

  /**
   * Checks whether these values could be set in any record.
   * @returns the changes that they ask for
   * @throws Problem 400 that names each invalid field
   */
  async function check(resource: AdminResource, fields: JsonFields, caller: Caller): Promise<Change[]> {
    const { changes, checks, errors } = checkBody(fields, resource, { id: '', caller });
    addUnsettable(fields, resource, errors);
    for (const { kind, key, fault } of checks) if (kind === 'unchanged') addError(errors, key, fault);
    const references = checks.filter(({ kind }) => kind === 'reference');
    if (references.length > 0) {
      const results = await database.run(checkStatement(resource.model, undefined, references), 'read');
      addCheckErrors(references, results, errors);
    }
    if (Object.keys(errors).length > 0) throw badBody(errors);
    return changes;
  }

  return {
    /**
     * The effects on other records if these were deleted, through the registry's foreign keys and those that only the database
     * knows.
     * @param steps follows only this many of the registry's foreign keys in a row: 1 for records that refer to these directly
     */
    async dependents(
      resource: AdminResource,
      selection: Selection | readonly string[],
      steps?: number,
    ): Promise<Dependents[]> {
      const chosen = 'query' in selection ? selection : { query: '', search: '', ids: selection };
      return countDependents(database, resources, models, browsing.plan(resource, chosen), steps);
    },

    /** Whether a selection contains this record. */
    async includes(resource: AdminResource, selection: Selection, id: string): Promise<boolean> {
      const plan = chosenOnly(browsing.plan(resource, selection), [id]);
      return (await database.run(countStatement(plan), 'read')) > 0;
    },

    /** Whether deleting a selection would delete this record of a model, directly or by cascade. */
    async deletes(
      resource: AdminResource,
      selection: Selection,
      model: string,
      id: string,
    ): Promise<boolean> {
      return isDependent(database, models, browsing.plan(resource, selection), model, id);
    },

    /** Whether deleting a selection may delete an admin, directly or by cascade. */
    async deletesAdmin(resource: AdminResource, selection: Selection, userModel: string): Promise<boolean> {
      const users = models.find(({ name }) => name === userModel);
      const admin = users && findColumn(users, 'admin');
      if (!admin) return false;
      return mayReachFlagged(database, models, browsing.plan(resource, selection), users, admin);
    },

    /** The exact number of records of a selection. */
    async count(resource: AdminResource, selection: Selection): Promise<number> {
      return database.run(countStatement(browsing.plan(resource, selection)), 'read');
    },

    /**
     * Deletes all records of a selection.
     * @param expected the number that the page showed
     * @throws Problem 409 for another number, and where the database refuses; nothing is deleted then
     */
    async remove(
      resource: AdminResource,
      selection: Selection,
      caller: Caller,
      expected: number,
    ): Promise<number> {
      const plan = browsing.plan(resource, selection);
      await apply(bulkDeleteStatement(plan, caller, resource.recording), expected, resource);
      return expected;
    },

    check,

    /**
     * Sets columns of all records of a selection.
     * @param expected as for `remove`
     * @returns the number of records that changed
     * @throws Problem 400 for invalid values, 409 as `remove` does
     */
    async set(
      resource: AdminResource,
      selection: Selection,
      fields: JsonFields,
      caller: Caller,
      expected: number,
    ): Promise<number> {
      const plan = browsing.plan(resource, selection);
      const changes = await check(resource, fields, caller);
      if (changes.length === 0) return 0;
      const statement = bulkUpdateStatement(plan, changes, caller, resource.recording);
      return apply(statement, expected, resource, changes);
    },
  };
}
