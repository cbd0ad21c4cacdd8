// Creates, changes and deletes one record, for the API and the admin area.
import type { Database } from '../../db/connection/database.ts';
import { sql } from '../../db/fragment.ts';
import { createStatement, isTrue, oneCell, type Statement } from '../../db/rows.ts';
import { SERVICE } from '../../db/lanes/requester.ts';
import { isKeyPart, type Model } from '../../db/schema/model.ts';
import { dependsOnPresent, isRolledBack } from '../../query/statements/check-statements.ts';
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
import type { InsertedRecord } from '../../query/statements/insert-many.ts';
import type { Passwords } from '../passwords/password-hashing.ts';
import {
  explainRule,
  UNIQUE_VIOLATION,
  locateError,
  conflictProblem,
  valuesIn,
  type WriteAttempt,
} from './conflicts.ts';
import { deletionProblem, isStillReferenced } from '../references/blocked-deletions.ts';
import { needsCheck, setsHidden, unenforcedHidden } from '../references/composite-references.ts';
import {
  CallerChanged,
  meets,
  visibilityFor,
  type Caller,
  type ServedResource,
  type ServedResources,
} from '../serve/served-resource.ts';
import {
  addDatabaseFaults,
  addFailures,
  assertChangeable,
  NO_RECORD,
  isRewrittenByRule,
  runWrite,
  writeOutcome,
  suppressed,
  type MaySee,
} from './write-result.ts';

/** The answer to a request that requires that a record does not exist. */
export const EXISTS = 'There is a record with this key already.';

export interface CreatedRecord extends RecordResult {
  /** The key as text. */
  readonly id: string;
}

export type Operations = ReturnType<typeof createOperations>;

/**
 * Operations that read and write one record. Each is one statement, which also runs the checks of a body. The operations check
 * ownership; access levels are up to the calling code.
 * @param requester the client that waits for the operations
 * @param outside runs the queries that explain an error: if `database` is a transaction, the error has ended it
 */
export function createOperations(
  database: Pick<Database, 'run'>,
  resources: ServedResources,
  passwords: Passwords,
  requester: WaitingClient = SERVICE,
  outside: Pick<Database, 'run'> = database,
) {
  const check = (fields: JsonFields, resource: ServedResource, writing: Writing): Promise<CheckedBody> =>
    checkBody(fields, resource, writing, requester.workInTurns());

  /**
   * Rejects a body with faults, and adds those that only the database knows, so that the answer lists all of them. For a body
   * without faults so far, the writing statement runs these checks itself.
   * @param always runs the checks now, because no statement will write
   * @param maySee see `addDatabaseFaults`
   */
  function assertValid(
    resource: ServedResource,
    body: CheckedBody,
    id?: string,
    always = false,
    maySee?: () => Promise<MaySee | undefined>,
  ): Promise<void> | undefined {
    const isValid = !always && !needsCheck(body, resource.model) && Object.keys(body.errors).length === 0;
    return isValid ? undefined : rejectFaults(resource.model, body, id, maySee);
  }

  async function rejectFaults(
    model: Model,
    body: CheckedBody,
    id: string | undefined,
    maySee: (() => Promise<MaySee | undefined>) | undefined,
  ): Promise<void> {
    await addDatabaseFaults(model, id, body, database, await maySee?.());
    if (Object.keys(body.errors).length > 0) throw badBody(body.errors);
  }

  const holds = async ({ precondition }: Caller): Promise<boolean> =>
    !precondition || database.run(createStatement(sql`select ${precondition}`, oneCell(isTrue)), 'write');

  /** Explains a rejection. The problem's cause is the rejection. */
  async function rejectWrite(cause: unknown, attempt: WriteAttempt): Promise<never> {
    const { resource, changes, body, id } = attempt;
    if (isDatabaseError(cause) && isRolledBack(cause)) throw suppressed();
    const error = await locateError(
      cause,
      { resource, records: [attempt], isNew: id === undefined },
      outside,
    );
    if (!isDatabaseError(error)) throw error;
    if (isRewrittenByRule(error)) throw suppressed();
    const explained = await conflictProblem(error, attempt, database, outside);
    const isHidden = setsHidden(changes, resource) || body.hiddenReferences.length > 0;
    throw explainRule(error, resource, explained, valuesIn([attempt]), isHidden);
  }

  const write = <T>(statement: Statement<T>, attempt: WriteAttempt): Promise<T> =>
    runWrite(database, statement).catch((cause: unknown) => rejectWrite(cause, attempt));

  /** Reads whether the caller owns the record; undefined if there is none, or if records have no owner. */
  async function isOwner({ writes }: ServedResource, id: string, caller: Caller) {
    const statement = writes.ownership(id, caller);
    return statement && database.run(statement, 'write');
  }

  /** Whether the caller may read the records of a model. */
  const readerOf = (caller: Caller): ((model: Model) => boolean) =>
    visibilityFor(resources, (level) => meets(level, caller)).joinable;

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
    const mayRead = readerOf(caller);
    const body = await check(fields, resource, { id: undefined, caller, isStrict, mayRead });
    // A view or foreign table may allow duplicates, and a trigger may change the existing record instead.
    const mayRepeat = absent !== undefined && !resource.model.isTable;
    const rejection = assertValid(resource, body, undefined, mayRepeat);
    if (rejection) await rejection;
    if (mayRepeat && (await version(resource, absent))) throw new Problem(412, EXISTS);
    const hashed = hashChanges(body.changes, passwords, requester);
    const changes = hashed instanceof Promise ? await hashed : hashed;
    const unenforced = unenforcedHidden([body]);
    const added = { changes, checks: body.checks, unenforced, author: caller };
    const statement = resource.writes.insert(added);
    const attempt = { resource, id: undefined, changes, body };
    const { record, checks } = await write(statement, attempt);
    if (!record) {
      await addFailures(resource.model, undefined, body, checks, database);
      if (Object.keys(body.errors).length > 0) throw badBody(body.errors);
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
        mayRead: readerOf(caller),
        holds,
      }),

    /** All faults of a body, without writing it. Only the write itself reports duplicates. */
    async faults(resource: ServedResource, fields: JsonFields, writing: Writing): Promise<FieldErrors> {
      const body = await check(fields, resource, { ...writing, mayRead: readerOf(writing.caller) });
      const id = writing.id === undefined ? undefined : parseId(resource, writing.id);
      await addDatabaseFaults(resource.model, id, body, database);
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
      const { model, output } = resource;
      const id = parseId(resource, idText);
      const mayRead = readerOf(caller);
      const body = await check(fields, resource, { id: id ?? idText, caller, isStrict, mayRead });
      const maySeeOthers: MaySee = (column) => output.includes(column) && mayRead(model);
      const maySee = async () => {
        const isNeeded = id !== undefined && body.checks.some(dependsOnPresent);
        return isNeeded && (await isOwner(resource, id, caller)) === false ? maySeeOthers : undefined;
      };
      const rejection = assertValid(resource, body, id, id === undefined, maySee);
      if (rejection) await rejection;
      if (id === undefined) throw notFound(NO_RECORD);
      const hashed = hashChanges(body.changes, passwords, requester, resource);
      const changes = hashed instanceof Promise ? await hashed : hashed;
      const expected = rowVersions(resource, versions);
      const unenforced = unenforcedHidden([body]);
      const changed = { id, changes, checks: body.checks, unenforced, author: caller, versions: expected };
      const statement = resource.writes.update(changed);
      const attempt = () => write(statement, { resource, id, changes, body });
      const outcome = await writeOutcome(
        attempt,
        () => isOwner(resource, id, caller),
        () => holds(caller),
      );
      const { result, ownership } = outcome;
      // The statement did not read the record of another owner, so its checks run now.
      if (ownership === 'others') await addDatabaseFaults(model, id, body, database, maySeeOthers);
      else if (body.checks.length > 0) await addFailures(model, id, body, result.checks, database);
      if (Object.keys(body.errors).length > 0) throw badBody(body.errors);
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
          ? await deletionProblem(error, outside, resources, resource, id, readerOf(caller))
          : explainRule(error, resource, error, []);
      }
    },
  };
}
