// The change feed: the entries of the history that a caller may see, in an order that no later commit overtakes.
import { randomBytes } from 'node:crypto';
import type { Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import type { createCursorTokens } from '../../query/cursor.ts';
import { countUnreadable, portionEnd, UNREADABLE } from '../../query/statements/history-entries.ts';
import { seenChanges, type SeenChange } from '../../query/statements/visible-history.ts';
import { readerOf, type Access } from '../access/access.ts';
import { makeInTurns } from '../access/lazy-map.ts';
import { isAlwaysShown, type ResourceView, type ResourceViews } from '../access/resource-view.ts';

/** Digits of an id in a cursor, so that its length does not show how many changes there are. */
const DIGITS = 19;

/** What a reader of the feed gets at once. */
const PORTION = { entries: 1_000, bytes: 1_048_576 };

/** A change for clients. */
export interface Change {
  /** Also the cursor after it. */
  readonly id: string;
  readonly position: bigint;
  readonly json: string;
}

/** The changes of a part of the history. */
export interface ChangeSpan {
  readonly changes: readonly Change[];
  /** Up to which entry these are all of them. */
  readonly end: bigint;
}

/** The names of the resources whose changes the access may see. A token may see more than its scope, but not here. */
const namesFor = (access: Access, views: ResourceViews): string[] =>
  [...views.keys()].filter((name) => readerOf(access, name) === access);

/** The resources whose changes the access sees. */
const readableBy = (access: Access, views: ResourceViews): ResourceView[] =>
  namesFor(access, views)
    .flatMap((name) => views.get(name) ?? [])
    .filter(({ isReadable, recorded }) => isReadable && recorded !== undefined);

/** A key in JSON, as the API outputs it. */
const keyJson = (key: string, { type }: Column): string =>
  type.json === 'bare' && /^-?\d+$/.test(key) ? key : JSON.stringify(key);

/** Values are JSON of one line. Line breaks are only between them, since a string escapes them. */
const oneLine = (object: string | null | undefined): string => object?.replace(/[\r\n]+/g, ' ') ?? 'null';

/** Whether the access sees the name of every user, and so who made a change. */
function seesUsers(view: ResourceView): boolean {
  const { model, isReadable, loginName, visibility, hasIdentity } = view;
  if (!isReadable || loginName === undefined || hasIdentity) return false;
  if (visibility.rows(model) !== undefined) return false;
  return isAlwaysShown(view, loginName);
}

export type Changes = ReturnType<typeof createChanges>;

export function createChanges(
  history: Model,
  cursors: ReturnType<typeof createCursorTokens>,
  { datetimeFormat, userModel }: Pick<Settings, 'datetimeFormat' | 'userModel'>,
) {
  const tokens = cursors('changes');
  const cursorOf = (position: bigint, more: readonly string[] = []): string =>
    tokens.encode({
      keys: [String(position).padStart(DIGITS, '0'), ...more],
      isBackward: false,
      isInclusive: false,
    });

  function changeOf(change: SeenChange, views: ResourceViews): Change {
    const [entry = '', at = '', userKey, userName, source, action, model = '', record = '', before, after] = change; // prettier-ignore
    const view = views.get(String(model));
    const users = views.get(userModel);
    const position = BigInt(String(entry));
    const id = cursorOf(position);
    const isUnreadable = before === UNREADABLE.json || after === UNREADABLE.json;
    if (isUnreadable) countUnreadable();
    const parts = {
      id: JSON.stringify(id),
      at: JSON.stringify(datetimeFormat === 'iso' ? `${String(at).replace(' ', 'T')}Z` : at),
      model: JSON.stringify(model),
      record: view ? keyJson(String(record), view.model.primaryKey) : 'null',
      action: JSON.stringify(action),
      source: JSON.stringify(source),
      user:
        typeof userKey === 'string' && users && seesUsers(users)
          ? `{"id":${keyJson(userKey, users.model.primaryKey)},"username":${JSON.stringify(userName)}}`
          : 'null',
      before: isUnreadable ? 'null' : oneLine(before),
      after: isUnreadable ? 'null' : oneLine(after),
      ...(isUnreadable && { unreadable: 'true' }),
    };
    return { id, position, json: `{${Object.entries(parts).map(([name, value]) => `"${name}":${value}`).join()}}` }; // prettier-ignore
  }

  return {
    /** @returns undefined for a text that is no cursor */
    positionOf(cursor: string): bigint | undefined {
      const [digits] = tokens.decode(cursor)?.keys ?? [];
      return digits === undefined || digits === null ? undefined : BigInt(digits);
    },

    /** A cursor that differs each time, so that it does not show whether there were changes that the caller may not see. */
    freshCursor: (position: bigint): string => cursorOf(position, [randomBytes(9).toString('base64url')]),

    /**
     * The first changes after a position, of those that are final.
     * @param database the primary, with the identity of the caller
     */
    async read(
      database: Pick<Database, 'run'>,
      access: Access,
      views: ResourceViews,
      { after, upTo }: { readonly after: bigint; readonly upTo: bigint },
    ): Promise<ChangeSpan> {
      const none = { changes: [], end: after > upTo ? after : upTo };
      const shown = readableBy(access, views);
      if (after >= upTo || shown.length === 0) return none;
      const end = await database.run(portionEnd(history, { after, upTo }, PORTION), 'read');
      if (end === 0n) return none;
      const changes = await database.run(seenChanges(history, shown, { after, upTo: end }), 'read');
      return { changes: changes.map((change) => changeOf(change, views)), end };
    },

    /** Resolves what the access sees, before its first read. */
    prepare: (access: Access, views: ResourceViews, yieldIfDue: YieldIfDue): Promise<void> =>
      makeInTurns(views, yieldIfDue, namesFor(access, views)),

    /** Whether PostgreSQL must know the caller to say which records exist. */
    needsIdentity: (access: Access, views: ResourceViews): boolean =>
      readableBy(access, views).some(({ hasIdentity }) => hasIdentity),
  };
}
