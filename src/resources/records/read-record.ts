// Reads one record by its key, and knows the keys and versions that requests name.
import { text, type Database, type RawRow } from '../../db/connection/database.ts';
import { noSuchText } from '../../db/connection/database-errors.ts';
import { notFound } from '../../errors.ts';
import type { ServedResource } from '../serve/served-resource.ts';
import { NO_RECORD } from './write-result.ts';

/** A record's JSON as PostgreSQL made it, and the version of its row (for ETag). */
export interface RecordResult {
  readonly json: Buffer;
  readonly version: string;
}

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

/** The version of a record as clients see it: the row's version and the digest of the output's keys. */
export const versionOf = (cell: Buffer | null | undefined, { shape }: ServedResource): string =>
  `${text(cell) ?? ''}${shape}`;

/** Reads a record with one statement that is always quick. @throws Problem 404 */
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
