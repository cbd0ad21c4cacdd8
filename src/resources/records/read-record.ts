// Reads one record by its key, and knows the keys and versions that requests name.
import type { Database } from '../../db/connection/database.ts';
import { LostWrite, undefinedIfUnencodable } from '../../db/connection/database-errors.ts';
import type { Statement } from '../../db/rows.ts';
import { notFound } from '../../errors.ts';
import { recordsStatement, type InsertedRecord } from '../../query/statements/insert-many.ts';
import type { FoundRecord } from '../../query/statements/read-statements.ts';
import type { ServedResource } from '../serve/served-resource.ts';
import { NO_RECORD } from './write-result.ts';

/** The key as the database takes it; undefined for a text that is not of the key's type, which no record can have. */
export function parseId({ model }: ServedResource, id: string): string | undefined {
  const parsed = model.primaryKey.type.parse(id, model.primaryKey);
  return parsed.fault === undefined ? parsed.value : undefined;
}

/** The key as the database takes it. @throws Problem 404 for a text that is not of the key's type */
export function requireId(resource: ServedResource, text: string): string {
  const id = parseId(resource, text);
  if (id === undefined) throw notFound(NO_RECORD);
  return id;
}

/** A record as clients see it: its JSON, and its version (for ETag), which includes the digest of the output's keys. */
export type RecordResult = FoundRecord;

export const recordResult = (
  { json, version }: FoundRecord,
  { shape, seal }: ServedResource,
): RecordResult => ({
  json,
  version: `${seal.seal(version)}${shape}`,
});

/** The versions that `If-Match` names; undefined when any version is allowed. */
export type Versions = readonly string[] | undefined;

/** The rows' versions among those that `If-Match` names. */
export const rowVersions = ({ shape, seal }: ServedResource, versions: Versions): Versions =>
  versions?.flatMap((version) =>
    version.endsWith(shape) ? (seal.open(version.slice(0, -shape.length)) ?? []) : [],
  );

/** How to run the statement that reads a record by its key. A slow view must not hold up the statements behind it. */
export const keyReadKind = ({ model }: ServedResource): 'quick' | 'read' => (model.isFast ? 'quick' : 'read');

/** Reads a record with one statement. @returns undefined if there is none */
export async function findRecord(
  database: Pick<Database, 'run'>,
  resource: ServedResource,
  text: string,
): Promise<RecordResult | undefined> {
  const id = parseId(resource, text);
  if (id === undefined) return undefined;
  let found: FoundRecord | undefined;
  try {
    found = await database.run(resource.byKey(id), keyReadKind(resource));
  } catch (error) {
    found = undefinedIfUnencodable(error);
  }
  return found && recordResult(found, resource);
}

/** The same, of a record that must exist. @throws Problem 404 */
export async function readRecord(
  database: Pick<Database, 'run'>,
  resource: ServedResource,
  id: string,
): Promise<RecordResult> {
  const found = await findRecord(database, resource, id);
  if (!found) throw notFound(NO_RECORD);
  return found;
}

/** Reads what a write has stored. The write is done, so an error must not claim that nothing was changed. */
async function reread<T>(database: Pick<Database, 'run'>, statement: Statement<T>): Promise<T> {
  try {
    return await database.run(statement, 'write');
  } catch (error) {
    throw new LostWrite(error as Error);
  }
}

/**
 * The record that a write returned; it is read again if the triggers of a view wrote it. They may have moved it out of the view.
 * @param id undefined if the triggers did not return a key
 */
export async function writtenRecord(
  database: Pick<Database, 'run'>,
  resource: ServedResource,
  id: string | undefined,
  returned: FoundRecord,
): Promise<RecordResult> {
  const isReread = resource.model.isReread && id !== undefined;
  const found = isReread ? await reread(database, resource.byKey(id)) : undefined;
  return recordResult(found ?? returned, resource);
}

/** The same for the records that one statement has created. */
export async function writtenRecords(
  database: Pick<Database, 'run'>,
  resource: ServedResource,
  returned: readonly InsertedRecord[],
): Promise<readonly InsertedRecord[]> {
  const { model, shown } = resource;
  if (!model.isReread) return returned;
  const keys = returned.map(({ key }) => parseId(resource, key) ?? null);
  const found = await reread(database, recordsStatement(model, shown, keys));
  return returned.map((record, index) => ({ ...record, json: found[index] ?? record.json }));
}
