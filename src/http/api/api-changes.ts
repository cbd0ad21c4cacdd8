// GET of the change feed: a page of JSON, all changes as NDJSON, or an endless stream of events.
import type { Level } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { Lane } from '../../db/lanes/lane.ts';
import { addError, badQuery, errorOf, Problem, unavailable, type FieldErrors } from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import { parseParameters } from '../../query/parse/grammar.ts';
import { accessOf, forbidden, isOpen, meets, type Access } from '../../resources/access/access.ts';
import type { ResourceViews, Views } from '../../resources/access/resource-view.ts';
import { HISTORY } from '../../resources/definition/system-tables.ts';
import type { Changes, ChangeSpan } from '../../resources/history/changes.ts';
import { NO_CHUNKS } from '../../resources/records/record-export.ts';
import type { Marks, Watermark } from '../../resources/history/watermark.ts';
import { json, Unauthorized, type ApiRequest, type Reply } from '../message/message.ts';
import { formatOf, MEDIA_TYPES, type FeedFormat } from './negotiation.ts';

export interface ChangesOptions {
  readonly views: Views;
  readonly changes: Changes;
  readonly watermark: Watermark;
  /** Who may read the feed. */
  readonly level: Level;
  /** The primary, with the identity of the caller if the resources need it. */
  readonly databaseFor: (request: ApiRequest, access: Access, hasIdentity: boolean) => Pick<Database, 'run'>;
  readonly isClosing: () => boolean;
}

export type ChangeFeed = ReturnType<typeof createChangeFeed>;

const FORMATS: readonly FeedFormat[] = ['json', 'ndjson', 'events'];

/** Limits of streams of events. They hold no connection to PostgreSQL, so there may be more of them than of other streams. */
const LIMITS = {
  connections: 64,
  maxOf: { anonymous: 16, user: 48 },
  maxWait: 4_000,
  own: messageOf('tooManyOwnStreams'),
  full: messageOf('tooManyStreams'),
};

/** A page ends after so many changes or characters. */
const PAGE = { changes: 1_000, characters: 1_048_576 };
/** Parts of the history in which a request looks for changes that its caller sees. Then it says how far it has come. */
const MAX_SPANS = 20;
/** Milliseconds until a stream without changes sends a heartbeat. Proxies end connections that are silent for a minute. */
const HEARTBEAT = 15_000;
/** The value of `after` for the changes from now on. */
const NOW = 'now';

const finalId = (marks: Marks): bigint => marks.get(HISTORY.model) ?? 0n;

export function createChangeFeed(options: ChangesOptions) {
  const { views, changes, watermark, level, databaseFor, isClosing } = options;
  const lane = new Lane(LIMITS);

  /** The access of the caller, read from the database. @throws Unauthorized, Problem 403 */
  async function admit(request: ApiRequest, again = false): Promise<Access> {
    const isAnonymous = isOpen(level) && request.headers.authorization === undefined;
    const access = accessOf(isAnonymous ? undefined : await request.authenticate(again));
    if (!meets(access, level)) throw forbidden(level, 'adminsOnly', access);
    return access;
  }

  /** The position of `after`, and of the event that a client has seen last. @throws Problem 400 */
  async function startOf({ query, headers }: ApiRequest, format: FeedFormat): Promise<bigint> {
    const errors: FieldErrors = {};
    const given: string[] = [];
    for (const { name, value } of parseParameters(query)) {
      if (name !== 'after') addError(errors, name, messageOf('onlyAfter'));
      else if (given.push(value) > 1) addError(errors, name, messageOf('onlyOnce'));
    }
    if (Object.keys(errors).length > 0) throw badQuery(errors);
    // A browser that connects again repeats the address of its first request.
    const lastEvent = format === 'events' ? headers['last-event-id'] : undefined;
    const cursor = lastEvent === undefined || lastEvent === '' ? given[0] : String(lastEvent);
    if (cursor === undefined) return 0n;
    if (cursor === NOW) {
      const present = (await watermark.now()).get(HISTORY.model);
      if (present === undefined) throw unavailable(messageOf('notReady'));
      return present;
    }
    const position = changes.positionOf(cursor);
    if (position === undefined) throw badQuery(errorOf('after', messageOf('badFeedCursor')));
    return position;
  }

  async function read(request: ApiRequest, access: Access, after: bigint, upTo: bigint): Promise<ChangeSpan> {
    const seen: ResourceViews = views(access);
    await changes.prepare(access, seen, request.requester.workInTurns());
    const database = databaseFor(request, access, changes.needsIdentity(access, seen));
    return changes.read(database, access, seen, { after, upTo });
  }

  /** From where a client goes on, and whether it may do so at once. */
  const metaOf = (end: bigint, upTo: bigint): string =>
    JSON.stringify({ after: changes.freshCursor(end), more: end < upTo });

  async function page(request: ApiRequest, access: Access, start: bigint): Promise<Reply> {
    const upTo = finalId(await watermark.now());
    const objects: string[] = [];
    let [end, size, isFull] = [start, 0, false];
    // Up to this many parts, only what the caller sees decides where a page ends, and whether more follows.
    for (let spans = 0; end < upTo && !isFull && spans < MAX_SPANS; spans += 1) {
      const span = await read(request, access, end, upTo);
      for (const { position, json } of span.changes) {
        isFull = objects.length >= PAGE.changes || size >= PAGE.characters;
        if (isFull) break;
        objects.push(json);
        size += json.length;
        end = position;
      }
      if (!isFull) end = span.end;
    }
    return json(200, `{"meta":${metaOf(end, upTo)},"objects":[${objects.join()}]}`);
  }

  async function* lines(request: ApiRequest, access: Access, start: bigint): AsyncGenerator<string> {
    const upTo = finalId(await watermark.now());
    let [end, silent] = [start, 0];
    while (end < upTo && silent < MAX_SPANS && !isClosing()) {
      const span = await read(request, access, end, upTo);
      end = span.end;
      silent = span.changes.length > 0 ? 0 : silent + 1;
      if (silent === 0) yield `${span.changes.map((change) => change.json).join('\n')}\n`;
    }
    yield `{"meta":${metaOf(end, upTo)}}\n`;
  }

  /** Ends when the service closes, and when the caller loses the access. */
  async function* events(request: ApiRequest, start: bigint): AsyncGenerator<string> {
    let end = start;
    // An event without data sets only the position from which the client continues.
    const position = (): string => `id: ${changes.freshCursor(end)}\n\n`;
    yield `retry: 1000\n${position()}`;
    for (let silentSince = performance.now(); ;) {
      const upTo = finalId(await watermark.tick());
      let silent = 0;
      do {
        if (isClosing()) return;
        const access = await admit(request, true);
        const span = await read(request, access, end, upTo);
        end = span.end;
        silent = span.changes.length > 0 ? 0 : silent + 1;
        if (silent > 0) continue;
        silentSince = performance.now();
        yield span.changes.map((change) => `id: ${change.id}\ndata: ${change.json}\n\n`).join('');
      } while (end < upTo && silent < MAX_SPANS);
      if (silent < MAX_SPANS && performance.now() - silentSince < HEARTBEAT) continue;
      silentSince = performance.now();
      yield `: heartbeat\n${position()}`;
    }
  }

  /** A stream of events with its place among all, which it keeps until it ends or its client disconnects. */
  async function openEvents(request: ApiRequest, start: bigint): Promise<AsyncIterable<string>> {
    const { requester } = request;
    let release: (() => void) | undefined = await lane.enter(requester);
    const leave = (): void => {
      stopListening();
      release?.();
      release = undefined;
    };
    const stopListening = requester.onGone(() => leave());
    const chunks = events(request, start);
    const ended: IteratorReturnResult<undefined> = { done: true, value: undefined };
    const iterator: AsyncIterator<string> = {
      next: () =>
        chunks.next().catch((error: unknown) => {
          if (error instanceof Unauthorized || error instanceof Problem) return ended;
          throw error;
        }),
      return: async () => {
        leave();
        await chunks.return(undefined);
        return ended;
      },
    };
    return { [Symbol.asyncIterator]: () => iterator };
  }

  return {
    async answer(request: ApiRequest): Promise<Reply> {
      const access = await admit(request);
      const format = formatOf(request, FORMATS);
      const start = await startOf(request, format);
      if (format === 'json') return page(request, access, start);
      const isHead = request.method === 'HEAD';
      const headers = { 'Content-Type': MEDIA_TYPES[format] };
      if (format === 'ndjson')
        return { status: 200, headers, body: isHead ? NO_CHUNKS : lines(request, access, start) };
      // Proxies must neither keep nor collect what belongs to a stream.
      const ofStream = { ...headers, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' };
      return {
        status: 200,
        headers: ofStream,
        body: isHead ? NO_CHUNKS : await openEvents(request, start),
      };
    },
    /** The open streams of events. */
    lanes: () => ({ changes: lane.state }),
  };
}
