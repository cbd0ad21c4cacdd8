// POST, PUT and DELETE of the JSON API: decides who writes, and answers.
import { hash } from 'node:crypto';
import type { Settings } from '../../config.ts';
import { asProblem } from '../../db/connection/database-errors.ts';
import { ClientGone } from '../../db/lanes/requester.ts';
import type { Model } from '../../db/schema/model.ts';
import { Problem, unavailable } from '../../errors.ts';
import { MAX_RECORDS } from '../../resources/records/create-records.ts';
import {
  parseJsonBodyInTurns,
  parseJsonFieldsInTurns,
  type JsonFields,
} from '../../resources/records/json-fields.ts';
import type { RequestKey } from '../../query/statements/system-statements.ts';
import type { WrittenRecord } from '../../query/statements/write-plan.ts';
import type { CreatedRecord, Operations } from '../../resources/records/operations.ts';
import { shownBy, type RepeatedRequest } from '../../resources/records/repeated-request.ts';
import type { Versions } from '../../resources/records/read-record.ts';
import { accessOf, forbidden, CallerChanged, type Caller } from '../../resources/access/access.ts';
import { hasChosenKey, type ResourceView } from '../../resources/access/resource-view.ts';
import type { Method } from '../../resources/definition/resource.ts';
import type { Action } from '../../resources/definition/roles.ts';
import { assertOrigin } from '../auth/request-origin.ts';
import { entityTag, noneMatchLists, parseIfMatch } from '../message/entity-tag.ts';
import { withBasePath } from '../message/base-path.ts';
import { keySegment } from '../message/key-segment.ts';
import { authorOf, json, type ApiRequest, type Reply } from '../message/message.ts';
import { idempotencyKeyOf, preference } from '../message/request-headers.ts';
import { assertNoParameters, effectiveMethod } from './api-routes.ts';
import { readJsonText } from '../message/request-body.ts';
import { messageOf } from '../../messages.ts';

export interface ApiWriteOptions {
  readonly operations: (request: ApiRequest, resource: ResourceView) => Operations;
  readonly settings: Settings;
  /** The table of keys of requests; undefined if the database has none. */
  readonly requestKeys: Model | undefined;
}

const ACTIONS: Readonly<Record<string, Action>> = { POST: 'create', PUT: 'update', DELETE: 'delete' };
const actionOf = ({ method }: ApiRequest): Action => ACTIONS[effectiveMethod(method)] ?? 'update';

/** Whether another statement would be useless: the database is down or overloaded, or the client has left. */
const isUnavailable = (error: unknown): boolean =>
  error instanceof ClientGone || [429, 503].includes(asProblem(error)?.status ?? 0);

/** `If-None-Match: *` requires that the record does not exist. */
const requiresAbsence = ({ headers }: ApiRequest): boolean => headers['if-none-match']?.trim() === '*';

/**
 * Writes a record that has one of the versions of `If-Match`, and none of `If-None-Match`. `If-None-Match` is compared before the
 * write, so the record can change in between. `If-Match` is a part of the write.
 */
async function writeIfMatching<T>(
  { headers }: ApiRequest,
  current: () => Promise<string | undefined>,
  write: (versions: Versions) => Promise<T>,
): Promise<T> {
  const unwanted = headers['if-none-match'];
  if (unwanted === undefined) return write(parseIfMatch(headers['if-match']));
  const isAny = unwanted.trim() === '*';
  const version = isAny ? undefined : await current();
  const isListed = isAny || (version !== undefined && noneMatchLists(unwanted, version));
  if (!isListed) return write(parseIfMatch(headers['if-match']));
  // Without any allowed version, the write fails with 412, or with an error that takes precedence.
  return write([]).catch((error: unknown) => {
    const detail = isAny ? messageOf('exists') : messageOf('listedVersion');
    throw error instanceof Problem && error.status === 412 ? new Problem(412, detail) : error;
  });
}

/** Whether a read-only field is an error and not ignored: `Prefer: handling=strict` (RFC 7240, section 4.4). */
const isStrict = ({ headers }: ApiRequest): boolean => preference(headers, 'handling') === 'strict';

const handling = (request: ApiRequest): Record<string, string> =>
  isStrict(request) ? { 'Preference-Applied': 'handling=strict' } : {};

const digest = (text: string): string => hash('sha256', text, 'base64');

/** A body, and for an Idempotency-Key the digest of its text. */
interface ReadBody<T> {
  readonly parsed: T;
  readonly bodyDigest: string;
}

/** Parses the body on the first call only: a write that runs twice must not read it twice. */
function parseBodyOnce<T>(
  request: ApiRequest,
  parse: (text: string) => T | Promise<T>,
): () => Promise<ReadBody<T>> {
  let body: Promise<ReadBody<T>> | undefined;
  const hasKey = request.headers['idempotency-key'] !== undefined;
  const read = async (): Promise<ReadBody<T>> => {
    const text = await readJsonText(request);
    return { bodyDigest: hasKey ? digest(text) : '', parsed: await parse(text) };
  };
  return () => (body ??= read());
}

/** Reads a body that the method ignores. If the body is malformed, the request fails before it changes anything. */
async function ignoreBody(request: ApiRequest): Promise<void> {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = request.headers;
  if (coding !== undefined || Number(length) > 0) await request.ignoreBody();
}

/** Whether a PUT may create the record: the client knows its natural key, and asks not to change an existing one. */
const mayCreate = (request: ApiRequest, resource: ResourceView): boolean =>
  requiresAbsence(request) &&
  request.headers['if-match'] === undefined &&
  hasChosenKey(resource) &&
  resource.allows.has('create');

/** Turns the 412 for an existing record into undefined. @throws any other error */
function undefinedIfExists(error: unknown): undefined {
  if (error instanceof Problem && error.status === 412) return undefined;
  throw error;
}

/** The response to one new record. */
function createdReply(request: ApiRequest, { name }: ResourceView, record: CreatedRecord): Reply {
  const location = withBasePath(`/api/${name}/${keySegment(record.id)}/`);
  const headers = { Location: location, ETag: entityTag(record.version) };
  return json(201, record.json, { ...headers, ...handling(request) });
}

const COMMA = Buffer.from(',');

/** Whether a POST of several records returns only their keys. */
const isMinimal = (request: ApiRequest): boolean => preference(request.headers, 'return') === 'minimal';

/** The response to several new records: the records, or with `Prefer: return=minimal` their keys. */
function createdManyReply(
  request: ApiRequest,
  { model }: ResourceView,
  records: readonly WrittenRecord[],
): Reply {
  const keysOnly = isMinimal(request);
  const isNumber = model.primaryKey.type.json === 'bare';
  const parts = records.map(({ json: record, id }) =>
    keysOnly ? Buffer.from(isNumber ? id : JSON.stringify(id)) : record,
  );
  const separated = parts.flatMap((part, index) => (index === 0 ? [part] : [COMMA, part]));
  const applied = [
    ...(isStrict(request) ? ['handling=strict'] : []),
    ...(keysOnly ? ['return=minimal'] : []),
  ];
  return json(
    201,
    Buffer.concat([Buffer.from('['), ...separated, Buffer.from(']')]),
    applied.length > 0 ? { 'Preference-Applied': applied.join(', ') } : {},
  );
}

/** A caller who may write, and the resource as this caller sees it. */
interface Writer {
  readonly caller: Caller;
  readonly seen: ResourceView;
}

/** A write by its caller, and its answer. */
interface Attempt {
  readonly run: Operations;
  readonly bodyDigest: string;
  readonly write: (caller: Caller) => Promise<Reply>;
  /** The answer to the same write by an earlier request. */
  readonly repeat: (made: RepeatedRequest) => Reply;
}

const valuesOf = ({ caller }: Writer): string => JSON.stringify([...(caller.values ?? [])]);

/** Whether both see the same: `$me` in rules about rows has the same values, too. */
const isSameAccess = (one: Writer, other: Writer): boolean =>
  one.seen.seenBy.key === other.seen.seenBy.key && valuesOf(one) === valuesOf(other);

export function createApiWrites({ operations, settings, requestKeys }: ApiWriteOptions) {
  /** The caller as a writer; undefined if the caller's rights do not allow the request. */
  function writerOf(request: ApiRequest, resource: ResourceView, caller: Caller): Writer | undefined {
    const seen = resource.for(accessOf(caller));
    return seen.allows.has(actionOf(request)) ? { caller, seen } : undefined;
  }

  /** @throws Unauthorized; Problem 403 for a foreign origin, or a caller whose rights do not allow it */
  async function requireWriter(request: ApiRequest, resource: ResourceView): Promise<Writer> {
    const caller = await request.authenticate();
    assertOrigin(request.headers, settings, settings.corsOrigins);
    const writer = writerOf(request, resource, caller);
    if (!writer)
      throw forbidden(resource.needed(effectiveMethod(request.method) as Method), 'adminsWrite', caller);
    return writer;
  }

  /** The writer as remembered, if possible: the write can then check the precondition. */
  const withPrecondition = (request: ApiRequest, writer: Writer): Writer => ({
    ...writer,
    caller: request.recall() ?? writer.caller,
  });

  /**
   * Runs a write for its caller. The writing statement itself confirms the caller: the body may take long to arrive, and for a
   * caller remembered from earlier requests this saves a round trip. If the write of such a caller fails, the caller is
   * authenticated again, unless the database is unavailable. An authentication error takes precedence.
   * @param run gets the resource as the caller sees it
   */
  async function asWriter<T>(
    request: ApiRequest,
    resource: ResourceView,
    run: (resource: ResourceView, caller: Caller) => Promise<T>,
  ): Promise<T> {
    const write = ({ seen, caller }: Writer): Promise<T> => run(seen, authorOf(caller, request));
    const remembered = request.recall();
    const known = remembered && writerOf(request, resource, remembered);
    const presumed = known ?? withPrecondition(request, await requireWriter(request, resource));
    try {
      assertOrigin(request.headers, settings, settings.corsOrigins);
      return await write(presumed);
    } catch (error) {
      const hasChanged = error instanceof CallerChanged;
      if (isUnavailable(error) || !(hasChanged || known)) throw error;
      const writer = await requireWriter(request, resource);
      // An error made for another access may name records that the caller must not see now.
      if (!hasChanged && isSameAccess(writer, presumed)) throw error;
      return write(withPrecondition(request, writer)).catch((again: unknown) => {
        throw again instanceof CallerChanged ? unavailable(messageOf('userChanged')) : again;
      });
    }
  }

  /** The key of a request; undefined without an Idempotency-Key. @throws Problem 400, 501 */
  function keyOf(
    { method, path, headers }: ApiRequest,
    resource: ResourceView,
    caller: Caller,
    bodyDigest: string,
  ): RequestKey | undefined {
    const key = idempotencyKeyOf(headers);
    if (key === undefined) return undefined;
    if (!requestKeys) throw new Problem(501, messageOf('noIdempotencyKeys'));
    return {
      table: requestKeys,
      hash: digest(JSON.stringify([caller.id, key])),
      // `Prefer` decides what the answer is.
      request: digest(JSON.stringify([method, path, headers['prefer'], bodyDigest])),
      shown: shownBy(resource),
    };
  }

  /**
   * Makes a write once, whatever the number of requests with its Idempotency-Key. The statement that writes stores the key, and
   * waits for another one that is about to do so. Only then the key is looked up: a repeated write fails.
   */
  async function once(
    request: ApiRequest,
    resource: ResourceView,
    caller: Caller,
    { run, bodyDigest, write, repeat }: Attempt,
  ): Promise<Reply> {
    const key = keyOf(request, resource, caller, bodyDigest);
    if (!key) return write(caller);
    try {
      return await write({ ...caller, key });
    } catch (error) {
      if (error instanceof CallerChanged || isUnavailable(error)) throw error;
      if (error instanceof Problem && error.status === 403) throw error;
      const made = await run.repeated(resource, key, caller);
      if (!made) throw error;
      const reply = repeat(made);
      return { ...reply, headers: { ...reply.headers, 'Idempotency-Replayed': 'true' } };
    }
  }

  /** The response to a change. */
  const changedReply = (request: ApiRequest, { json: record, version }: Omit<CreatedRecord, 'id'>): Reply =>
    json(200, record, { ETag: entityTag(version), ...handling(request) });

  /** The only record that an earlier request has written. */
  function recordOf({ records: [record] }: RepeatedRequest): CreatedRecord {
    if (!record) throw new Error('the earlier request has written no record');
    return record;
  }

  return {
    async create(request: ApiRequest, named: ResourceView): Promise<Reply> {
      const body = parseBodyOnce(request, (text) =>
        parseJsonBodyInTurns(text, MAX_RECORDS, request.requester.workInTurns()),
      );
      return asWriter(request, named, async (resource, caller) => {
        assertNoParameters(request.query);
        const { parsed, bodyDigest } = await body();
        const { record, records } = parsed;
        const run = operations(request, resource);
        const preferences = { isStrict: isStrict(request), isMinimal: isMinimal(request) };
        return once(request, resource, caller, {
          run,
          bodyDigest,
          write: async (author) =>
            record
              ? createdReply(request, resource, await run.create(resource, record, author, isStrict(request)))
              : createdManyReply(
                  request,
                  resource,
                  await run.createMany(resource, records, author, preferences),
                ),
          repeat: (made) =>
            record
              ? createdReply(request, resource, recordOf(made))
              : createdManyReply(request, resource, made.records),
        });
      });
    },

    update(request: ApiRequest, named: ResourceView, id: string): Promise<Reply> {
      const body = parseBodyOnce(request, (text) =>
        parseJsonFieldsInTurns(text, request.requester.workInTurns()),
      );
      return asWriter(request, named, async (resource, caller) => {
        assertNoParameters(request.query);
        const { parsed, bodyDigest } = await body();
        const run = operations(request, resource);
        const write = async (author: Caller): Promise<Reply> => {
          let fields: JsonFields = parsed;
          let isPresent = false;
          if (mayCreate(request, resource)) {
            const created = await run
              .createAt(resource, id, fields, author, isStrict(request))
              .catch(undefinedIfExists);
            if (created) return createdReply(request, resource, created);
            // The record exists, so the write below fails, too, because of `If-None-Match: *`. It is made only for its error, and
            // needs no fields: an error such as another owner takes precedence over 412.
            fields = new Map();
            isPresent = true;
          }
          const current = () => run.version(resource, id);
          const record = await writeIfMatching(request, current, (versions) =>
            run.update(resource, id, fields, author, versions, isStrict(request)),
          ).catch((error: unknown) => {
            // It was deleted meanwhile.
            throw isPresent && error instanceof Problem && error.status === 404
              ? new Problem(412, messageOf('exists'))
              : error;
          });
          return changedReply(request, record);
        };
        return once(request, resource, caller, {
          run,
          bodyDigest,
          write,
          repeat: (made) =>
            made.action === 'create'
              ? createdReply(request, resource, recordOf(made))
              : changedReply(request, recordOf(made)),
        });
      });
    },

    async remove(request: ApiRequest, named: ResourceView, id: string): Promise<Reply> {
      let body: Promise<void> | undefined;
      return asWriter(request, named, async (resource, caller) => {
        assertNoParameters(request.query);
        await (body ??= ignoreBody(request));
        const run = operations(request, resource);
        const current = () => run.version(resource, id);
        const repeat = (): Reply => json(200, '{"deleted": 1}');
        const write = async (author: Caller): Promise<Reply> => {
          await writeIfMatching(request, current, (versions) => run.remove(resource, id, author, versions));
          return repeat();
        };
        return once(request, resource, caller, { run, bodyDigest: '', write, repeat });
      });
    },
  };
}
