// Deletes and changes selections of records for the admin area.
import type { Database } from '../../db/connection/database.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import { sql, type Fragment } from '../../db/fragment.ts';
import type { Statement } from '../../db/rows.ts';
import { findColumn, isKeyPart, type Column, type Model } from '../../db/schema/model.ts';
import { addError, badBody, Problem, type FieldErrors } from '../../errors.ts';
import type { ListPlan } from '../../query/plan.ts';
import { pageStatement } from '../../query/read.ts';
import type { Selection } from '../../query/selection.ts';
import {
  changePreviewStatement,
  chosenOnly,
  countStatement,
  keysStatement,
  lockRecordsStatement,
  type ChangePreview,
} from '../../query/statements/bulk-statements.ts';
import {
  checkStatement,
  isReferenceCheck,
  type Check,
  type ReferenceCheck,
} from '../../query/statements/check-statements.ts';
import {
  lockModelStatement,
  mayLockStatement,
  type FlagColumn,
} from '../../query/statements/dependent-statements.ts';
import { compileWrite } from '../../query/statements/write.ts';
import { MAX_TOGETHER, VALUE_FAULTS } from '../../query/statements/new-values.ts';
import type { Change, DeletePlan, UpdatePlan } from '../../query/statements/write-plan.ts';
import type { AdminView, AdminViews } from '../access/admin-view.ts';
import { isAlwaysShown } from '../access/resource-view.ts';
import { inBatch, isForAdmins, type Caller } from '../access/access.ts';
import type { Browsing } from './admin-listing.ts';
import { checkBody } from './checked-body.ts';
import { countDependents, isDependent, mayReach, mayReachFlagged, type Dependents } from './dependents.ts';
import { explain, suppressed } from './explain.ts';
import type { JsonFields } from './json-fields.ts';
import { addCheckErrors } from './write-result.ts';
import { messageOf } from '../../messages.ts';

const NONE: ReadonlySet<Column> = new Set();

const countChanged = (): Problem => new Problem(409, messageOf('selectionChanged'));

/** Maximum records that an error names. */
const MAX_NAMED = 5;

/** The statements find rows by their keys, which no constraint of a view or foreign table keeps unique. */
const repeatedKey = (): Problem => new Problem(409, messageOf('repeatedKey'));

/** Reports columns that cannot be set in bulk. `checkBody` ignores or accepts them. */
function addUnsettable(fields: JsonFields, { model, readonly }: AdminView, errors: FieldErrors): void {
  for (const column of model.columns) {
    if (!fields.has(column.key)) continue;
    if (readonly.has(column)) addError(errors, column.key, messageOf('readonly'));
    if (isKeyPart(model, column)) addError(errors, column.key, messageOf('keyPart'));
    if (column.isPassword) addError(errors, column.key, messageOf('notInBulk'));
  }
}

/** What a change of a selection writes. */
export interface BulkChange {
  /** The new values, by the columns' JSON keys. */
  readonly fields: JsonFields;
  /** For values that replace a text inside of the present one: that text. */
  readonly finds?: ReadonlyMap<string, string> | undefined;
}

/**
 * Whether a text inside of the column's values can be replaced. Choices, keys, user names and patterns are about whole values, and how
 * many records change would tell what a caller may not see.
 */
export const isReplaceable = (resource: AdminView, column: Column): boolean =>
  column.type.operators.has('ilike') &&
  !column.labels &&
  !column.choices &&
  !column.references &&
  column.pattern === undefined &&
  column !== resource.loginName &&
  isAlwaysShown(resource, column);

/** Adds why new values cannot be. @param faults see `faultsSql` */
export function addValueFaults(changes: readonly Change[], faults: string, errors: FieldErrors): void {
  [...faults].forEach((digit, index) => {
    const fault = VALUE_FAULTS[Number(digit)];
    // What is about all values together is at the last column.
    const { column, maxBytes = 0 } = changes[index] ?? changes.at(-1) ?? {};
    if (!fault || !column) return;
    const max = {
      required: 0,
      longerThan: column.maxLength ?? 0,
      wouldBeLarge: maxBytes,
      largeTogether: MAX_TOGETHER,
    }[fault];
    addError(errors, column.key, messageOf(fault, { max }));
  });
}

const isSet = (key: string, changes: readonly Change[]): boolean =>
  changes.some(({ column }) => column.key === key);

/** A check of a record's values together. Its error names only the columns that are set. */
const atSetColumns = (check: ReferenceCheck, changes: readonly Change[]): ReferenceCheck => ({
  ...check,
  fieldNames: check.fieldNames.filter((key) => isSet(key, changes)),
});

/** The conditions of a bulk operation. Errors of `begin` and `end` roll it back. */
export interface BulkTerms {
  /** The number of records that the page showed. */
  readonly expected: number;
  /** Runs first in the transaction, before anything is locked. */
  readonly begin?: TransactionGuard | undefined;
  /** Runs before the commit, with the number of records that change. */
  readonly end: (transaction: Transaction, done: number) => Promise<void>;
}

export type TransactionGuard = (transaction: Transaction) => Promise<void>;

export type Bulk = ReturnType<typeof createBulk>;

/** Deletes or changes many records at once, each time in one transaction. */
export function createBulk(
  database: Database,
  resources: AdminViews,
  browsing: Browsing,
  models: readonly Model[],
) {
  const read = <T>(statement: Statement<T>): Promise<T> => database.run(statement, 'read');

  /** Names the first of the records that the caller may not write. */
  async function notAllOfThem(resource: AdminView, plan: ListPlan, rule: Fragment, count: number) {
    const where = [...plan.where, { rule: sql`(${rule}) is not true` }];
    const keys = await read(keysStatement({ ...plan, where }, MAX_NAMED));
    const labels = await browsing.labelsOf(resource, new Set(keys));
    const names = [...keys.map((key) => labels.get(key) ?? `#${key}`), ...(count > keys.length ? ['…'] : [])];
    return new Problem(403, messageOf('notAllChangeable', { count, names: names.join(', ') }));
  }

  /**
   * Runs the write, and rolls it back unless it matches the expected number of records and changes no others. Counts them first,
   * because the statement would lock all of them before it finds another number.
   * @returns how many changed
   */
  async function apply(
    resource: AdminView,
    write: UpdatePlan<ListPlan> | DeletePlan<ListPlan>,
    { expected, begin, end }: BulkTerms,
  ): Promise<number> {
    const { changes, checks } = write.kind === 'update' ? write : { changes: [], checks: [] };
    try {
      return await database.transaction(async (transaction) => {
        await begin?.(transaction);
        if ((await transaction.run(countStatement(write.rows))) !== expected) throw countChanged();
        const columns = changes.map(({ column }) => column);
        const rule = resource.allowed(write.kind, columns);
        const writable = rule ? { ...write.rows, where: [...write.rows.where, { rule }] } : write.rows;
        const allowed = rule ? await transaction.run(countStatement(writable)) : expected;
        if (rule && allowed !== expected)
          throw await notAllOfThem(resource, write.rows, rule, expected - allowed);
        const {
          matched,
          attempted,
          done,
          checks: results,
          faults = '',
        } = await transaction.run(compileWrite(resource.writes, { ...write, rows: writable }));
        if (matched !== expected) throw countChanged();
        const errors: FieldErrors = {};
        addCheckErrors(checks, results, errors);
        addValueFaults(changes, faults, errors);
        if (Object.keys(errors).length > 0) throw badBody(errors);
        // A trigger can cancel the change of a row without an error.
        if (done < attempted) throw suppressed();
        if (done > attempted) throw repeatedKey();
        await end(transaction, done);
        return done;
      }, 'bulk');
    } catch (error) {
      const referring = () => models.map((model) => ({ model, excluded: NONE }));
      const { kind } = write;
      const records = kind === 'update' ? [changes] : [];
      throw await explain(error, { resource, kind, scope: 'selection', records, referring }, database);
    }
  }

  /**
   * Checks whether these values could be in any record.
   * @returns the changes that they ask for, and the checks that depend on the other values of each record
   * @throws Problem 400 that names each invalid field
   */
  async function check(
    resource: AdminView,
    { fields, finds }: BulkChange,
    caller: Caller,
  ): Promise<{ changes: readonly Change[]; later: readonly Check[] }> {
    // Any id makes it an update; no record has the empty one.
    const { changes, checks, errors } = await checkBody(fields, resource, { id: '', caller });
    addUnsettable(fields, resource, errors);
    for (const { column } of changes)
      if (finds?.has(column.key) && !isReplaceable(resource, column))
        addError(errors, column.key, messageOf('notReplaceable'));
    for (const { kind, fieldNames, fault } of checks)
      if (kind === 'unchanged' || kind === 'unchangedText')
        for (const name of fieldNames) addError(errors, name, fault);
    const references = checks.filter(isReferenceCheck);
    const isPartial = ({ values }: ReferenceCheck): boolean => values.includes(undefined);
    const complete = references.filter((check) => !isPartial(check));
    if (complete.length > 0) {
      const results = await database.run(
        checkStatement(resource.model, undefined, complete, resource.visibility),
        'read',
      );
      addCheckErrors(complete, results, errors);
    }
    if (Object.keys(errors).length > 0) throw badBody(errors);
    return {
      changes: changes.map((change) => ({
        ...change,
        find: finds?.get(change.column.key),
        maxBytes: resource.maxValue,
      })),
      later: references.filter(isPartial).map((check) => atSetColumns(check, changes)),
    };
  }

  /** The column of the user model that makes admins. */
  function adminColumn(userModel: string): FlagColumn | undefined {
    const model = models.find(({ name }) => name === userModel);
    const column = model && findColumn(model, 'admin');
    return column && { model, column };
  }

  return {
    /**
     * The effects on other records if these were deleted, through the registry's foreign keys and those that only the database
     * knows.
     * @param steps follows only this many of the registry's foreign keys in a row: 1 for records that refer to these directly
     */
    async dependents(
      resource: AdminView,
      selection: Selection | readonly string[],
      steps?: number,
    ): Promise<Dependents[]> {
      const chosen = 'query' in selection ? selection : { query: '', search: '', ids: selection };
      const plan = browsing.plan(resource, chosen);
      return countDependents(database, resources, models, plan, isForAdmins(resource.seenBy.level), steps);
    },

    /** Whether a selection contains this record. */
    async includes(resource: AdminView, selection: Selection, id: string): Promise<boolean> {
      const plan = chosenOnly(browsing.plan(resource, selection), [id]);
      return (await database.run(countStatement(plan), 'read')) > 0;
    },

    /** Whether deleting a selection would delete this record of a model, directly or by cascade. */
    async deletes(resource: AdminView, selection: Selection, model: string, id: string): Promise<boolean> {
      return isDependent(database, models, browsing.plan(resource, selection), model, id);
    },

    /**
     * Whether deleting a selection may delete an admin, directly or by cascade. The answer is also yes where it can reach users and
     * `adminGuard` could not lock their table.
     */
    async deletesAdmin(resource: AdminView, selection: Selection, userModel: string): Promise<boolean> {
      const admin = adminColumn(userModel);
      if (!admin) return false;
      const plan = browsing.plan(resource, selection);
      if (mayReach(resource.model, models, admin.model) && !(await read(mayLockStatement(admin.model))))
        return true;
      return mayReachFlagged(read, models, plan, admin);
    },

    /** Whether deleting a selection may delete a user, directly or by cascade. */
    async deletesUsers(resource: AdminView, selection: Selection, userModel: string): Promise<boolean> {
      const model = models.find(({ name }) => name === userModel);
      const plan = browsing.plan(resource, selection);
      return model !== undefined && mayReachFlagged(read, models, plan, { model, column: undefined });
    },

    /**
     * A guard for the transaction that deletes a selection: it fails with Problem 409 if that would delete an admin. Other
     * transactions cannot change users until the transaction has ended, not even those who are about to become admins.
     * @returns undefined if no deletion of these records can reach the user model
     */
    adminGuard(resource: AdminView, selection: Selection, userModel: string): TransactionGuard | undefined {
      const admin = adminColumn(userModel);
      if (!admin || !mayReach(resource.model, models, admin.model)) return undefined;
      const plan = browsing.plan(resource, selection);
      return async ({ run }) => {
        await run(lockModelStatement(admin.model));
        if (await mayReachFlagged(run, models, plan, admin))
          throw new Problem(409, messageOf('includesAdmin'));
      };
    },

    /** The exact number of records of a selection. */
    async count(resource: AdminView, selection: Selection): Promise<number> {
      return database.run(countStatement(browsing.plan(resource, selection)), 'read');
    },

    /**
     * Deletes all records of a selection.
     * @throws Problem 409 for another number, and where the database refuses; nothing is deleted then
     */
    async remove(
      resource: AdminView,
      selection: Selection,
      caller: Caller,
      terms: BulkTerms,
    ): Promise<number> {
      const plan = browsing.plan(resource, selection);
      await apply(resource, { kind: 'delete', rows: plan, author: inBatch(caller) }, terms);
      return terms.expected;
    },

    check,

    /**
     * Reads all records of a selection in a transaction, until whose end no other one changes those that the caller may change.
     * @returns the JSON of an array
     * @throws Problem 409 for another number, 413 if they are too large together
     */
    async readAll(
      { run }: Transaction,
      resource: AdminView,
      selection: Selection,
      { expected, maxBytes }: { readonly expected: number; readonly maxBytes: number },
    ): Promise<string> {
      const plan = browsing.plan(resource, selection);
      if ((await run(countStatement(plan))) !== expected) throw countChanged();
      if (resource.model.isLockable && resource.may.has('change')) await run(lockRecordsStatement(plan));
      const list = { ...plan, limit: expected, offset: 0n };
      const page = await run(pageStatement({ list, columns: resource.plain, maxBytes }));
      if (!page.objects) throw new Problem(413, messageOf('tooLargeTogether'));
      return `[${page.objects.join()}]`;
    },

    /** What a change of a selection would touch. */
    preview: (
      resource: AdminView,
      selection: Selection,
      changes: readonly Change[],
    ): Promise<ChangePreview> => read(changePreviewStatement(browsing.plan(resource, selection), changes)),

    /**
     * Changes columns of all records of a selection.
     * @returns the number of records that changed
     * @throws Problem 400 for invalid values, 409 as `remove` does
     */
    async set(
      resource: AdminView,
      selection: Selection,
      change: BulkChange,
      caller: Caller,
      terms: BulkTerms,
    ): Promise<number> {
      const plan = browsing.plan(resource, selection);
      const { changes, later } = await check(resource, change, caller);
      if (changes.length === 0) return 0;
      const required = resource.required(
        'update',
        changes.map(({ column }) => column),
      );
      const author = inBatch(caller);
      const write = { kind: 'update', rows: plan, changes, checks: later, author, required } as const;
      return apply(resource, write, terms);
    },
  };
}
