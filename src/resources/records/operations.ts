// Creates, changes and deletes one record, for the API and the admin area.
import type { Database } from '../../db/connection/database.ts';
import { sql } from '../../db/fragment.ts';
import { createStatement, isTrue, oneCell, type Statement } from '../../db/rows.ts';
import { SERVICE } from '../../db/lanes/requester.ts';
import { isKeyPart } from '../../db/schema/model.ts';
import { checkStatement, isReferenceCheck, isRolledBack } from '../../query/statements/check-statements.ts';
import { isDatabaseError } from '../../db/connection/database-errors.ts';
import { badBody, notFound, Problem, type FieldErrors } from '../../errors.ts';
import { createMany, type ManyPreferences } from './create-many.ts';
import { hashChanges, type WaitingClient } from './hash-changes.ts';
import {
  findRecord,
  parseId,
  requireId,
  rowVersions,
  withKey,
  recordResult,
  type RecordResult,
  type Versions,
} from './read-record.ts';
import { checkBody, parseField, type CheckedBody, type Writing } from './checked-body.ts';
import type { JsonFields } from './json-fields.ts';
import type { Change } from '../../query/statements/change.ts';
import type { InsertedRecord } from '../../query/statements/insert-many.ts';
import type { Passwords } from '../passwords/password-hashing.ts';
import { explainRule, UNIQUE_VIOLATION, locateError, conflictProblem, valuesIn } from './conflicts.ts';
import { deletionProblem, isStillReferenced } from '../references/blocked-deletions.ts';
import { readsExcluded } from '../references/reference-checks.ts';
import { CallerChanged, type Caller, type ServedResource } from '../serve/served-resource.ts';
import {
  addCheckErrors,
  assertChangeable,
  NO_RECORD,
  isRewrittenByRule,
  runWrite,
  writeOutcome,
  suppressed,
} from './write-result.ts';

/** The answer to a request that requires that a record does not exist. */
export const EXISTS = 'There is a record with this key already.';

export interface CreatedRecord extends RecordResult {
  /** The key as text. */
  readonly id: string;
}

export type Operations = ReturnType<typeof createOperations>;

const hasErrors = ({ errors }: CheckedBody): boolean => Object.keys(errors).length > 0;

/**
 * Operations that read and write one record. Each is one statement, which also runs the checks of a body. The operations check
 * ownership; access levels are up to the calling code.
 * @param requester the client that waits for the operations
 * @param outside runs the queries that explain an error: if `database` is a transaction, the error has ended it
 */
export function createOperations(
  database: Pick<Database, 'run'>,
  passwords: Passwords,
  requester: WaitingClient = SERVICE,
  outside: Pick<Database, 'run'> = database,
) {
  const check = (fields: JsonFields, resource: ServedResource, writing: Writing): Promise<CheckedBody> =>
    checkBody(fields, resource, writing, requester.workInTurns());

  /**
   * Makes the checks of a body that is not written, so that the answer lists all faults. They do not depend on values that the
   * caller may not read.
   */
  async function addFaults(
    resource: ServedResource,
    id: string | undefined,
    { checks, errors }: CheckedBody,
  ): Promise<void> {
    const { model, owner, isReadable } = resource;
    const allowed = checks.filter((check) => !(isReferenceCheck(check) && readsExcluded(check, resource)));
    if (allowed.length === 0) return;
    // It may be the record of another owner.
    const readable = owner && !isReadable ? undefined : id;
    addCheckErrors(allowed, await database.run(checkStatement(model, readable, allowed), 'write'), errors);
  }

  /** Rejects a body with faults. The writing statement makes the checks of a body without faults so far. */
  async function rejectFaults(
    resource: ServedResource,
    id: string | undefined,
    body: CheckedBody,
  ): Promise<void> {
    await addFaults(resource, id, body);
    if (hasErrors(body)) throw badBody(body.errors);
  }

  const holds = async ({ precondition }: Caller): Promise<boolean> =>
    !precondition || database.run(createStatement(sql`select ${precondition}`, oneCell(isTrue)), 'write');

  /** Runs a statement that writes, and explains a rejection. The problem's cause is the rejection. */
  async function write<T>(
    statement: Statement<T>,
    resource: ServedResource,
    changes: readonly Change[],
    isNew: boolean,
  ): Promise<T> {
    const refused = { resource, records: [{ changes }], isNew };
    try {
      return await runWrite(database, statement);
    } catch (cause) {
      if (isDatabaseError(cause) && isRolledBack(cause)) throw suppressed();
      const error = await locateError(cause, refused, outside);
      if (!isDatabaseError(error)) throw error;
      if (isRewrittenByRule(error)) throw suppressed();
      throw explainRule(
        error,
        resource,
        conflictProblem(error, resource, refused),
        valuesIn(refused.records),
      );
    }
  }

  /** Reads whether the caller owns the record; undefined if there is none, or if records have no owner. */
  async function isOwner({ writes }: ServedResource, id: string, caller: Caller) {
    const statement = writes.ownership(id, caller);
    return statement && database.run(statement, 'write');
  }

  /** The version that a record has now; undefined if there is none. */
  const version = async (resource: ServedResource, idText: string): Promise<string | undefined> =>
    (await findRecord(database, resource, idText))?.version;

  /** @param absent an id that must not exist yet */
  async function create(
    resource: ServedResource,
    fields: JsonFields,
    caller: Caller,
    isStrict?: boolean,
    absent?: string,
  ): Promise<CreatedRecord> {
    const body = await check(fields, resource, { id: undefined, caller, isStrict });
    // A view or foreign table may allow duplicates, and a trigger may change the existing record instead.
    const mayRepeat = absent !== undefined && !resource.model.isTable;
    if (hasErrors(body) || mayRepeat) await rejectFaults(resource, undefined, body);
    if (mayRepeat && (await version(resource, absent))) throw new Problem(412, EXISTS);
    const hashed = hashChanges(body.changes, passwords, requester);
    const changes = hashed instanceof Promise ? await hashed : hashed;
    const statement = resource.writes.insert({ changes, checks: body.checks, author: caller });
    const { record, checks } = await write(statement, resource, changes, true);
    if (!record) {
      addCheckErrors(body.checks, checks, body.errors);
      if (hasErrors(body)) throw badBody(body.errors);
      throw new CallerChanged(); // nothing else keeps the statement from writing
    }
    return { json: record.json, version: recordResult(record, resource).version, id: record.id };
  }

  return {
    version,
    create,

    /**
     * Creates the record with this key, which the database does not make.
     * @throws Problem 412 if there is one already, 403 if the key is that of another owner; like `create`
     */
    async createAt(
      resource: ServedResource,
      idText: string,
      fields: JsonFields,
      caller: Caller,
      isStrict?: boolean,
    ): Promise<CreatedRecord> {
      const id = requireId(resource, idText);
      const all = withKey(fields, resource.model.primaryKey.parts ? idText : id, resource);
      const { owner, model } = resource;
      if (owner && isKeyPart(model, owner)) {
        // A new record always belongs to the caller, so the address must name the caller.
        const named = all.get(owner.key);
        if (named && parseField(named, owner).value !== caller.id)
          throw new Problem(403, 'Only the owner of a record may create it.');
        all.delete(owner.key);
      }
      try {
        return await create(resource, all, caller, isStrict, idText);
      } catch (error) {
        const cause = error instanceof Problem ? error.cause : error;
        const isDuplicate = isDatabaseError(cause) && cause.code === UNIQUE_VIOLATION;
        if (isDuplicate && (await version(resource, idText))) throw new Problem(412, EXISTS);
        throw error;
      }
    },

    /** Creates several records, see `createMany`. */
    createMany: (
      resource: ServedResource,
      bodies: readonly (JsonFields | undefined)[],
      caller: Caller,
      preferences: ManyPreferences,
    ): Promise<InsertedRecord[]> =>
      createMany(resource, bodies, caller, preferences, {
        database,
        passwords,
        requester,
        holds,
      }),

    /** All faults of a body, without writing it. Only the write itself reports duplicates. */
    async faults(resource: ServedResource, fields: JsonFields, writing: Writing): Promise<FieldErrors> {
      const body = await check(fields, resource, writing);
      const id = writing.id === undefined ? undefined : parseId(resource, writing.id);
      await addFaults(resource, id, body);
      return body.errors;
    },

    async update(
      resource: ServedResource,
      idText: string,
      fields: JsonFields,
      caller: Caller,
      versions: Versions,
      isStrict?: boolean,
    ): Promise<RecordResult> {
      const id = parseId(resource, idText);
      const body = await check(fields, resource, { id: id ?? idText, caller, isStrict });
      if (hasErrors(body) || id === undefined) await rejectFaults(resource, id, body);
      if (id === undefined) throw notFound(NO_RECORD);
      const hashed = hashChanges(body.changes, passwords, requester, resource);
      const changes = hashed instanceof Promise ? await hashed : hashed;
      const expected = rowVersions(resource, versions);
      const changed = { id, changes, checks: body.checks, author: caller, versions: expected };
      const statement = resource.writes.update(changed);
      const attempt = () => write(statement, resource, changes, false);
      const outcome = await writeOutcome(
        attempt,
        () => isOwner(resource, id, caller),
        () => holds(caller),
      );
      const { result, ownership } = outcome;
      // The statement did not read the record of another owner, so its checks run now.
      if (ownership === 'others') await addFaults(resource, id, body);
      else addCheckErrors(body.checks, result.checks, body.errors);
      if (hasErrors(body)) throw badBody(body.errors);
      assertChangeable(outcome);
      return recordResult(result, resource);
    },

    async remove(
      resource: ServedResource,
      idText: string,
      caller: Caller,
      versions: Versions,
    ): Promise<void> {
      const id = requireId(resource, idText);
      const expected = rowVersions(resource, versions);
      const statement = resource.writes.delete({ id, author: caller, versions: expected });
      try {
        const outcome = await writeOutcome(
          () => runWrite(database, statement),
          () => isOwner(resource, id, caller),
          () => holds(caller),
        );
        assertChangeable(outcome);
        if (!outcome.result.isDeleted) throw suppressed();
      } catch (cause) {
        const error = await locateError(cause, { resource, records: [], isNew: false }, outside);
        if (!isDatabaseError(error)) throw error;
        if (isRewrittenByRule(error)) throw suppressed();
        throw isStillReferenced(error)
          ? await deletionProblem(error, outside, resource, id)
          : explainRule(error, resource, error, []);
      }
    },
  };
}
