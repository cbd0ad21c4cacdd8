import { text, type Database, type RawRow } from '../../db/connection/database.ts';
import type { Statement } from '../../db/fragment.ts';
import { isUnanswered } from '../../db/connection/pool.ts';
import { SERVICE, type Requester } from '../../db/scheduling/requester.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { isDatabaseError, LostWrite, noSuchText } from '../../db/connection/database-errors.ts';
import { badBody, notFound, type FieldErrors } from '../../errors.ts';
import type { Change } from '../../query/statements/change.ts';
import { checkStatement, type Check } from '../../query/statements/check-statements.ts';
import {
  deleteStatement,
  insertStatement,
  ownedStatement,
  updateStatement,
  type Guard,
} from '../../query/statements/write-statements.ts';
import { checkBody, type CheckedBody, type Writing } from './checked-body.ts';
import type { JsonFields } from './json-fields.ts';
import { saltedDigest, type Passwords } from '../passwords/password-hashing.ts';
import type { Turn } from '../passwords/password-gate.ts';
import { historyFault, recordingOf } from '../serve/recording.ts';
import { referred, REFERRED, conflictProblem, type Attempt } from './conflicts.ts';
import {
  CallerChanged,
  meets,
  viewOf,
  type Caller,
  type ServedResource,
  type ServedResources,
} from '../serve/served-resource.ts';
import {
  addCheckErrors,
  assertChangeable,
  isSuppressed,
  NO_RECORD,
  NOT_SUPPORTED,
  parseBooleans,
  writeOutcome,
  suppressed,
} from './write-result.ts';

/** A record's JSON as PostgreSQL made it, and the version of its row (for ETag). */
export interface RecordResult {
  readonly json: Buffer;
  readonly version: string;
}

/** The versions that `If-Match` names; undefined when any will do. */
export type Versions = readonly string[] | undefined;

/** What can be done with a record of a resource. Each operation is one statement; access levels are the caller's to check. */
export interface Operations {
  readonly read: (resource: ServedResource, id: string) => Promise<RecordResult>;
  /** All that is wrong with a body, without writing it; duplicates are told by the write alone. */
  readonly faults: (resource: ServedResource, members: JsonFields, writing: Writing) => Promise<FieldErrors>;
  readonly create: (
    resource: ServedResource,
    members: JsonFields,
    caller: Caller,
  ) => Promise<RecordResult & { id: string }>;
  readonly update: (
    resource: ServedResource,
    id: string,
    members: JsonFields,
    caller: Caller,
    versions: Versions,
  ) => Promise<RecordResult>;
  readonly remove: (
    resource: ServedResource,
    id: string,
    caller: Caller,
    versions: Versions,
  ) => Promise<void>;
}

/** What stored hashes look like, those of others included: `$argon2id$…`, `$2b$…`. */
const HASH = /^\$[a-z0-9-]+\$/;

/** The key as the database takes it, or undefined: a text that is not of the key's type names no record. */
export function parseId({ model }: ServedResource, id: string): string | undefined {
  const parsed = model.primaryKey.type.parse(id, model.primaryKey);
  return parsed.fault === undefined ? parsed.value : undefined;
}

/** The same. @throws Problem 404 for a text that names no record */
export function requireId(resource: ServedResource, text: string): string {
  const id = parseId(resource, text);
  if (id === undefined) throw notFound(NO_RECORD);
  return id;
}

const guardOf = ({ owner, shape }: ServedResource, caller: Caller, versions: Versions): Guard => ({
  owner: owner && { column: owner, caller: caller.id },
  versions: versions?.flatMap((version) =>
    version.endsWith(shape) ? [version.slice(0, -shape.length)] : [],
  ),
  precondition: caller.precondition,
});

/** The version of a record as it is shown: that of its row, and the shape of the output. */
export const versionOf = (cell: Buffer | null | undefined, { shape }: ServedResource): string =>
  `${text(cell) ?? ''}${shape}`;

/** Reads a record: one statement that is certain to be short. @throws Problem 404 */
export async function readRecord(
  database: Pick<Database, 'run'>,
  resource: ServedResource,
  id: string,
): Promise<RecordResult> {
  const wanted = resource.byKey(requireId(resource, id));
  let rows: readonly RawRow[];
  try {
    rows = await database.run(wanted, 'quick');
  } catch (error) {
    rows = noSuchText(error);
  }
  const [row] = rows;
  if (!row?.[0]) throw notFound(NO_RECORD);
  return { json: row[0], version: versionOf(row[1], resource) };
}

/**
 * @param log the history, or undefined for a service without one
 * @param requester the client that waits for the operations
 */
export function createOperations(
  database: Pick<Database, 'run'>,
  resources: ServedResources,
  passwords: Passwords,
  log?: Model,
  requester: Pick<Requester, 'onGone' | 'key' | 'origin'> = SERVICE,
): Operations {
  /**
   * Finishes the faults of a body with those that the database knows, so that all are told at once. Where there is none yet
   * the statement that writes asks itself, unless it will not run: that is what `always` is for.
   */
  async function assertValid(
    resource: ServedResource,
    body: CheckedBody,
    id?: string,
    always = false,
  ): Promise<void> {
    if (!always && Object.keys(body.errors).length === 0) return;
    await addKnown(resource, body, id);
    if (Object.keys(body.errors).length > 0) throw badBody(body.errors);
  }

  /**
   * Adds the faults that the database knows.
   * @param maySee whether the caller may see the values that the record has in a column
   */
  async function addKnown(
    { model }: ServedResource,
    { checks, errors }: CheckedBody,
    id?: string,
    maySee: (column: Column) => boolean = () => true,
  ): Promise<void> {
    const isTold = ({ kind, column }: Check): boolean => kind !== 'unchanged' || maySee(column);
    const told = checks.filter(isTold);
    if (told.length > 0) {
      const [row] = await database.run(checkStatement(model, id, told), 'write');
      addCheckErrors(told, parseBooleans(row?.[0]), errors);
    }
    addCheckErrors(
      checks.filter((check) => !isTold(check)),
      [],
      errors,
    );
  }

  /**
   * Hashes new passwords. When the client leaves, they leave the queue.
   * @param resource whose record is changed; undefined for a new one
   */
  async function hashPasswords(changes: readonly Change[], resource?: ServedResource): Promise<Change[]> {
    if (!changes.some(({ column }) => column.isPassword)) return [...changes];
    const gone = new AbortController();
    const stop = requester.onGone(() => gone.abort());
    try {
      // Anonymous clients share turns: one of them can have any number of addresses.
      const group = requester.origin === 'anonymous' ? 'anonymous' : undefined;
      return await hashAll(changes, { client: requester.key, group, signal: gone.signal }, resource);
    } finally {
      stop();
    }
  }

  function hashAll(
    changes: readonly Change[],
    turn: Partial<Turn>,
    resource?: ServedResource,
  ): Promise<Change[]> {
    return Promise.all(
      changes.map(async (change) => {
        const { column, value } = change;
        if (!column.isPassword || value === null) return change;
        // What the output shows may come back, whatever it is; of a hidden column only somebody who has a hash can know it.
        const mayBeStored = resource && (resource.output.includes(column) || HASH.test(value));
        return {
          column,
          value: mayBeStored ? saltedDigest(value) : null,
          hash: await passwords.hash(value, turn),
        };
      }),
    );
  }

  /** Runs a statement that writes. */
  async function run(statement: Statement): Promise<RawRow[]> {
    try {
      return await database.run(statement, 'write');
    } catch (error) {
      throw isUnanswered(error) ? new LostWrite(error as Error) : error;
    }
  }

  /** The same, and explains why other records refuse the write. */
  async function write(statement: Statement, attempt: Attempt): Promise<RawRow[]> {
    try {
      return await run(statement);
    } catch (cause) {
      const error = historyFault(cause, log);
      if (isDatabaseError(error) && error.code === NOT_SUPPORTED) throw suppressed();
      throw isDatabaseError(error) ? await conflictProblem(error, attempt, database) : error;
    }
  }

  /** The question whose a record is, where that matters. */
  const whose = (model: Model, id: string, { owner }: Guard): (() => Promise<RawRow[]>) | undefined =>
    owner && (() => database.run(ownedStatement(model, id, owner), 'write'));

  /** Whether the caller may read the records of a model. */
  const readerOf = (caller: Caller): ((model: Model) => boolean) =>
    viewOf(resources, (level) => meets(level, caller)).joinable;

  return {
    read: (resource, id) => readRecord(database, resource, id),

    async faults(resource, members, writing) {
      const body = checkBody(members, resource, { ...writing, mayRead: readerOf(writing.caller) });
      await addKnown(resource, body, writing.id === undefined ? undefined : parseId(resource, writing.id));
      return body.errors;
    },

    async create(resource, members, caller) {
      const body = checkBody(members, resource, { id: undefined, caller, mayRead: readerOf(caller) });
      await assertValid(resource, body);
      const { hiddenReferences } = body;
      const changes = await hashPasswords(body.changes);
      // Where every column has its default, the statement has no place for a condition.
      if (caller.precondition && changes.length === 0) throw new CallerChanged();
      const [row] = await write(
        insertStatement(
          resource.model,
          resource.output,
          changes,
          body.checks,
          caller,
          recordingOf(resource, caller, log),
        ),
        { resource, id: undefined, changes, hiddenReferences },
      );
      if (!row?.[0]) {
        addCheckErrors(body.checks, parseBooleans(row?.[3]), body.errors);
        if (Object.keys(body.errors).length > 0) throw badBody(body.errors);
        throw caller.precondition ? new CallerChanged() : suppressed();
      }
      return { json: row[0], version: versionOf(row[1], resource), id: text(row[2]) ?? '' };
    },

    async update(resource, idText, members, caller, versions) {
      const { model, output } = resource;
      const id = parseId(resource, idText);
      const mayRead = readerOf(caller);
      const body = checkBody(members, resource, { id: id ?? idText, caller, mayRead });
      await assertValid(resource, body, id, id === undefined);
      if (id === undefined) throw notFound(NO_RECORD);
      const changes = await hashPasswords(body.changes, resource);
      const guard = guardOf(resource, caller, versions);
      const recording = recordingOf(resource, caller, log);
      const statement = updateStatement(model, output, id, changes, body.checks, guard, recording);
      const outcome = await writeOutcome(
        () => write(statement, { resource, id, changes, hiddenReferences: body.hiddenReferences }),
        whose(model, id, guard),
        caller,
      );
      const { row, standing } = outcome;
      // The record of another owner was not looked at: whether a value that breaks a rule is there already is asked now.
      const maySee = (column: Column): boolean => output.includes(column) && mayRead(model);
      if (standing === 'others') await addKnown(resource, body, id, maySee);
      else addCheckErrors(body.checks, parseBooleans(row?.[2]), body.errors);
      if (Object.keys(body.errors).length > 0) throw badBody(body.errors);
      assertChangeable(outcome);
      if (isSuppressed(row)) throw suppressed();
      return { json: row?.[3] ?? Buffer.from('null'), version: versionOf(row?.[4], resource) };
    },

    async remove(resource, idText, caller, versions) {
      const id = requireId(resource, idText);
      const guard = guardOf(resource, caller, versions);
      const statement = deleteStatement(resource.model, id, guard, recordingOf(resource, caller, log));
      try {
        const outcome = await writeOutcome(() => run(statement), whose(resource.model, id, guard), caller);
        assertChangeable(outcome);
        if (text(outcome.row?.[2]) !== 't') throw suppressed();
      } catch (cause) {
        const error = historyFault(cause, log);
        if (isDatabaseError(error) && error.code === NOT_SUPPORTED) throw suppressed();
        throw isDatabaseError(error) && REFERRED.has(error.code)
          ? await referred(error, database, resources, resource, id, readerOf(caller))
          : error;
      }
    },
  };
}
