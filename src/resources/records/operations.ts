// Creates, changes and deletes one record, or creates several, for the API and the admin area.
import type { Database } from '../../db/connection/database.ts';
import { isDatabaseError } from '../../db/connection/database-errors.ts';
import { SERVICE } from '../../db/lanes/requester.ts';
import type { Statement } from '../../db/rows.ts';
import { isKeyPart } from '../../db/schema/model.ts';
import { badBody, notFound, Problem, RECORD_BUSY, type FieldErrors } from '../../errors.ts';
import { checkStatement, isReferenceCheck } from '../../query/statements/check-statements.ts';
import { compileWrite, notFoundStatement } from '../../query/statements/write.ts';
import type { FoundRow, WrittenRecord, RecordRow } from '../../query/statements/write-plan.ts';
import type { RequestKey } from '../../query/statements/system-statements.ts';
import type { Passwords } from '../users/password-hashing.ts';
import { readsExcluded } from './reference-checks.ts';
import type { ResourceView } from '../access/resource-view.ts';
import { CallerChanged, inBatch, type Caller } from '../access/access.ts';
import { checkBody, parseField, type CheckedBody, type Writing } from './checked-body.ts';
import { createRecords, type CreatePreferences, type Writer } from './create-records.ts';
import { addDuplicates, explain, suppressed, UNIQUE_VIOLATION, type Attempt } from './explain.ts';
import { hashChanges, type WaitingClient } from './hash-changes.ts';
import type { JsonFields } from './json-fields.ts';
import {
  findRecord,
  parseId,
  recordResult,
  requireId,
  rowVersions,
  withKey,
  type RecordResult,
  type Versions,
} from './read-record.ts';
import { repeatedRequest, type RepeatedRequest } from './repeated-request.ts';
import { addCheckErrors, runWrite } from './write-result.ts';
import { messageOf } from '../../messages.ts';

export interface CreatedRecord extends RecordResult {
  /** The key as text. */
  readonly id: string;
}

export type Operations = ReturnType<typeof createOperations>;

const hasErrors = (errors: FieldErrors): boolean => Object.keys(errors).length > 0;

/** Outcome of an UPDATE or DELETE, and whether the caller may write the record. */
interface WriteOutcome<T extends FoundRow> {
  readonly result: T;
  readonly record: 'writable' | 'unwritable' | 'missing';
}

/** @throws Problem 404, 403 or 412, in this order of precedence */
function assertChangeable({ result, record }: WriteOutcome<FoundRow>, { owner }: ResourceView): void {
  if (record === 'missing') throw notFound(messageOf('noRecord'));
  if (record === 'unwritable') throw new Problem(403, messageOf(owner ? 'ownerChanges' : 'notChangeable'));
  if (!result.isMatch) throw new Problem(412, messageOf('recordChanged'));
}

/**
 * Operations that read and write one record. Each is one statement, which also runs the checks of a body. The operations check
 * ownership; access levels are up to the calling code.
 * @param requester the client that waits for the operations
 * @param outside runs the queries that explain an error: if `database` is a transaction, the error has ended it
 */
export function createOperations(
  database: Writer,
  passwords: Passwords,
  requester: WaitingClient = SERVICE,
  outside: Pick<Database, 'run'> = database,
) {
  const mayWait = database.transaction === undefined;
  const check = (fields: JsonFields, resource: ResourceView, writing: Writing): Promise<CheckedBody> =>
    checkBody(fields, resource, writing, requester.workInTurns());

  /**
   * Makes the checks of a body that is not written, so that the answer lists all faults. They do not depend on values that the
   * caller may not read.
   */
  async function addFaults(
    resource: ResourceView,
    id: string | undefined,
    { checks, errors }: CheckedBody,
  ): Promise<void> {
    const { model, isReadable, visibility } = resource;
    const allowed = checks.filter((check) => !(isReferenceCheck(check) && readsExcluded(check, resource)));
    if (allowed.length === 0) return;
    // It may be a record that the caller may not change, such as that of another owner.
    const readable = !isReadable && resource.allowed('update') ? undefined : id;
    addCheckErrors(
      allowed,
      await database.run(checkStatement(model, readable, allowed, visibility), 'write'),
      errors,
    );
  }

  /** Rejects a body with faults. The writing statement makes the checks of a body without faults so far. */
  async function rejectFaults(
    resource: ResourceView,
    id: string | undefined,
    body: CheckedBody,
  ): Promise<void> {
    await addFaults(resource, id, body);
    if (hasErrors(body.errors)) throw badBody(body.errors);
  }

  /**
   * Changes or deletes a record. If it finds none that the caller may write, one query distinguishes a missing record from others. The
   * statement runs once more when the caller may write it since.
   * @throws Problem, whose cause is the error of the database; CallerChanged
   */
  async function change<T extends FoundRow>(
    statement: Statement<T>,
    row: RecordRow,
    caller: Caller,
    attempt: Omit<Attempt, 'scope'> & { readonly resource: ResourceView },
  ): Promise<WriteOutcome<T>> {
    try {
      for (let attempts = 0; attempts < 2; attempts += 1) {
        const result = await runWrite(database, statement);
        if (result.isFound) return { result, record: 'writable' };
        const why = notFoundStatement(attempt.resource.writes, row, caller);
        if (!why) return { result, record: 'missing' };
        const { isAllowed, holds } = await database.run(why, 'write');
        if (!holds) throw new CallerChanged();
        if (isAllowed === false) return { result, record: 'unwritable' };
        if (!isAllowed) return { result, record: 'missing' };
      }
    } catch (error) {
      throw await explain(error, { ...attempt, scope: 'record' }, outside);
    }
    throw RECORD_BUSY;
  }

  /** The version that a record has now; undefined if there is none. */
  const version = async (resource: ResourceView, idText: string): Promise<string | undefined> =>
    (await findRecord(database, resource, idText))?.version;

  const createAll = (
    resource: ResourceView,
    bodies: readonly (JsonFields | undefined)[],
    caller: Caller,
    preferences: CreatePreferences,
    isArray: boolean,
  ): Promise<readonly WrittenRecord[]> =>
    createRecords(resource, bodies, caller, {
      preferences,
      isArray,
      database,
      outside,
      passwords,
      requester,
    });

  async function create(
    resource: ResourceView,
    fields: JsonFields,
    caller: Caller,
    isStrict?: boolean,
  ): Promise<CreatedRecord> {
    const [record] = await createAll(resource, [fields], caller, { isStrict }, false);
    if (!record) throw new Error('the statement has returned no record');
    const { json, version: encrypted } = recordResult(record, resource);
    return { json, version: encrypted, id: record.id };
  }

  /** All faults of a body that can be known without writing it. */
  async function faults(resource: ResourceView, fields: JsonFields, writing: Writing): Promise<FieldErrors> {
    const body = await check(fields, resource, writing);
    const id = writing.id === undefined ? undefined : parseId(resource, writing.id);
    await addFaults(resource, id, body);
    await addDuplicates({ resource, records: [body.changes] }, id, body.errors, database);
    return body.errors;
  }

  return {
    version,
    create,
    faults,

    /** See `repeatedRequest`. */
    repeated: (
      resource: ResourceView,
      key: RequestKey,
      caller: Caller,
    ): Promise<RepeatedRequest | undefined> => repeatedRequest(database, resource, key, caller),

    /**
     * Creates the record with this key, which the database does not make.
     * @throws Problem 412 if there is one already, 403 if the key is that of another owner; like `create`
     */
    async createAt(
      resource: ResourceView,
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
          throw new Problem(403, messageOf('ownerCreates'));
        all.delete(owner.key);
      }
      if (!model.isTable) {
        // A view or foreign table may allow duplicates, and a trigger may change the existing record instead.
        const found = await faults(resource, all, { id: undefined, caller, isStrict });
        if (hasErrors(found)) throw badBody(found);
        if (await version(resource, idText)) throw new Problem(412, messageOf('exists'));
      }
      try {
        return await create(resource, all, caller, isStrict);
      } catch (error) {
        const cause = error instanceof Problem ? error.cause : error;
        const isDuplicate = isDatabaseError(cause) && cause.code === UNIQUE_VIOLATION;
        if (isDuplicate && (await version(resource, idText))) throw new Problem(412, messageOf('exists'));
        throw error;
      }
    },

    /** Creates a record that was deleted, under its key: the `id` of the fields. */
    restore: (resource: ResourceView, fields: JsonFields, caller: Caller): Promise<unknown> =>
      createAll(resource, [fields], caller, { keepsKey: true }, false),

    /** Creates the records of an array. */
    createMany: (
      resource: ResourceView,
      bodies: readonly (JsonFields | undefined)[],
      caller: Caller,
      preferences: CreatePreferences,
    ): Promise<readonly WrittenRecord[]> => createAll(resource, bodies, caller, preferences, true),

    async update(
      resource: ResourceView,
      idText: string,
      fields: JsonFields,
      caller: Caller,
      versions: Versions,
      isStrict?: boolean,
    ): Promise<RecordResult> {
      const id = parseId(resource, idText);
      const body = await check(fields, resource, { id: id ?? idText, caller, isStrict });
      if (hasErrors(body.errors) || id === undefined) await rejectFaults(resource, id, body);
      if (id === undefined) throw notFound(messageOf('noRecord'));
      const records = await hashChanges([body.changes], passwords, requester, resource);
      const changes = records.flat();
      const columns = changes.map(({ column }) => column);
      const allowed = resource.allowed('update', columns);
      const rows = { id, versions: rowVersions(resource, versions), allowed, mayWait };
      const required = resource.required('update', columns);
      const { checks } = body;
      const plan = { kind: 'update', rows, changes, checks, author: caller, required } as const;
      const statement = compileWrite(resource.writes, plan);
      const outcome = await change(statement, rows, caller, { resource, kind: 'update', records });
      const { result, record } = outcome;
      // The statement did not read a record that the caller may not change, so its checks run now.
      if (record === 'unwritable') await addFaults(resource, id, body);
      else addCheckErrors(body.checks, result.checks, body.errors);
      if (hasErrors(body.errors)) throw badBody(body.errors);
      assertChangeable(outcome, resource);
      return recordResult(result, resource);
    },

    async remove(resource: ResourceView, idText: string, caller: Caller, versions: Versions): Promise<void> {
      const id = requireId(resource, idText);
      const rows = { id, versions: rowVersions(resource, versions), allowed: resource.allowed('delete'), mayWait }; // prettier-ignore
      const author = resource.writes.cascades.length > 0 ? inBatch(caller) : caller;
      const statement = compileWrite(resource.writes, { kind: 'delete', rows, author });
      // The foreign key of a view is only in the registry, so it blocks no deletion.
      const referring = () => [...resource.all.values()].filter((one) => one.model.isTable && one.isReadable);
      const attempt = { resource, kind: 'delete', records: [], id, referring } as const;
      const outcome = await change(statement, rows, caller, attempt);
      assertChangeable(outcome, resource);
      if (!outcome.result.isDeleted) throw suppressed();
    },
  };
}
