// Statements on the service's own tables: secrets, events, saved views, and the keys with which clients repeat a write (Idempotency-Key).
import { EMPTY, join, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import {
  createStatement,
  fixedStatement,
  hasRows,
  isTrue,
  json,
  nothing,
  oneCell,
  text,
  type Statement,
} from '../../db/rows.ts';
import type { Model } from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../source.ts';

export const NOW = raw("(now() at time zone 'UTC')");

/** Reads a secret. */
export const secretStatement = (table: string, name: string): Statement<string | null> =>
  createStatement(
    sql`select value from ${writtenTable({ table })} where name = ${value(name)}`,
    oneCell(text),
  );

/** Stores a secret, unless there is one. */
export const addSecretStatement = (table: string, name: string, secret: string): Statement<void> =>
  createStatement(
    sql`insert into ${writtenTable({ table })} (name, value) values (${value(name)}, ${value(secret)}) on conflict do nothing`,
    nothing,
  );

/** Stores an event. @param values of `event`, `user_key`, `user_name`, `address`, `request` and `detail` */
export const eventStatement = (events: Model, values: readonly (string | null)[]): Statement<void> =>
  fixedStatement(
    sql`insert into ${writtenTable(events)} (event, user_key, user_name, address, request, detail) values (${join(values.map(value), ', ')})`,
    nothing,
  );

/** A saved view of a list. */
export interface SavedView {
  readonly id: string;
  readonly title: string;
  readonly query: string;
  readonly isShared: boolean;
}

/** The statements on saved views of one model. @param user the key of the caller, who sees their own views and the shared ones */
export function viewStatements(views: Model, model: string, user: string) {
  const table = allRows(views, 'v');
  const ofUser = sql`v.model = ${value(model)} and (v.user_key is null or v.user_key = ${value(user)})`;
  const own = (id: string, isAdmin: boolean): Fragment =>
    sql`v.id = ${value(id)}::bigint and ${ofUser} and (v.user_key is not null or ${raw(String(isAdmin))})`;
  return {
    list: (): Statement<SavedView[]> =>
      fixedStatement(
        sql`select v.id::text, v.title, v.query, v.user_key is null from ${table} where ${ofUser} order by v.id`,
        (rows) =>
          rows.map(([id, title, query, isShared]) => ({
            id: text(id) ?? '',
            title: text(title) ?? '',
            query: text(query) ?? '',
            isShared: isTrue(isShared),
          })),
      ),

    /** It returns whether there was room for another one. */
    add: (title: string, query: string, isShared: boolean, max: number): Statement<boolean> =>
      fixedStatement(
        sql`insert into ${writtenTable(views)} (user_key, model, title, query) select ${value(isShared ? null : user)}, ${value(model)}, ${value(title)}, ${value(query)} where (select count(*) from ${table} where ${ofUser}) < ${raw(String(max))} returning true`,
        hasRows,
      ),

    /** It returns whether the caller has such a view. @param title undefined to delete it */
    change: (id: string, title: string | undefined, isAdmin: boolean): Statement<boolean> =>
      fixedStatement(
        title === undefined
          ? sql`delete from ${table} where ${own(id, isAdmin)} returning true`
          : sql`update ${table} set title = ${value(title)} where ${own(id, isAdmin)} returning true`,
        hasRows,
      ),
  };
}

/** What a write does to its records. */
export type Action = 'create' | 'update' | 'delete';

/** The key of a request. What writes stores it, so that a key is there exactly if its write was made. */
export interface RequestKey {
  /** See `REQUEST_KEY` in resources/definition/system-tables.ts. */
  readonly table: Model;
  /** The digest of the caller and the key. */
  readonly hash: string;
  /** The digest of the request. */
  readonly request: string;
  /** What the answer shows of a record: see `shownBy`. */
  readonly shown: string;
}

/** A record as the answer had it. */
export interface KeptRecord {
  readonly json: Buffer;
  readonly version: string;
  /** The key as text. */
  readonly id: string;
}

/** The values of a key, as SQL. */
export const keyValues = ({ hash, request, shown }: RequestKey): Fragment =>
  sql`${value(hash)}, ${value(request)}, ${value(shown)}`;

/**
 * Stores a key, unless another request has done so: then the statement ends with the error of a duplicate.
 * @param values see `keyValues`
 * @param records JSON of the records of the answer, each an array of its JSON, version and key
 * @param from ` from …`: the written records, none if there is no success
 */
export const keyInsert = (
  { table }: Pick<RequestKey, 'table'>,
  values: Fragment,
  action: Action,
  [records, from]: readonly [records: Fragment, from: Fragment],
): Fragment =>
  sql`insert into ${writtenTable(table)} (key_hash, request, shown, action, records) select ${values}, ${raw(`'${action}'`)}, (${records})::text${from}`;

/** Stores a key at the end of the transaction whose statements have written the records. */
export function keyStatement(
  key: RequestKey,
  action: Action,
  records: readonly KeptRecord[],
): Statement<void> {
  const cells = records.map(({ json: record, version, id }) => [record.toString(), version, id]);
  return createStatement(
    keyInsert(key, keyValues(key), action, [value(JSON.stringify(cells)), EMPTY]),
    nothing,
  );
}

/** What an earlier request with the same key has stored. */
export interface KeptAnswer extends Pick<RequestKey, 'request' | 'shown'> {
  readonly action: Action;
  readonly records: readonly KeptRecord[];
}

/** Looks up a key. @param precondition of the caller: without it, nothing is shown */
export const keptStatement = (
  { table, hash }: RequestKey,
  precondition = raw('true'),
): Statement<{ readonly holds: boolean; readonly answer: KeptAnswer | undefined }> =>
  createStatement(
    sql`select ${precondition}, k.request, k.shown, k.action, k.records from (select) one left join ${writtenTable(table)} k on k.key_hash = ${value(hash)}`,
    ([row]) => ({
      holds: isTrue(row?.[0]),
      answer: row?.[1]
        ? {
            request: text(row[1]) ?? '',
            shown: text(row[2]) ?? '',
            action: text(row[3]) as Action,
            records: json<[string, string | null, string][]>(row[4]).map(([record, version, id]) => ({
              json: Buffer.from(record),
              version: version ?? '', // of one whose key alone is returned
              id,
            })),
          }
        : undefined,
    }),
  );

/** Deletes the keys of more than 24 hours ago. A statement deletes only so many that it takes no long time. */
export const pruneKeysStatement = (table: Model): Statement<void> =>
  createStatement(
    sql`delete from ${writtenTable(table)} where key_hash in (select key_hash from ${writtenTable(table)} where created < ${NOW} - interval '24 hours' limit 20000 for update skip locked)`,
    nothing,
  );
