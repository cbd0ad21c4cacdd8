// Reads one record by its key, and parses the keys and versions in requests.
import type { Database } from '../../db/connection/database.ts';
import { undefinedIfUnencodable } from '../../db/connection/database-errors.ts';
import { partTexts, splitKey, tooManyPlaces } from '../../db/schema/composite-key.ts';
import { partsOf, type Column } from '../../db/schema/model.ts';
import { addError, badBody, notFound, type FieldErrors } from '../../errors.ts';
import type { FoundRecord, MakeRecordStatement } from '../../query/statements/records-by-key.ts';
import type { ResourceView } from '../access/resource-view.ts';
import { parseField } from './checked-body.ts';
import type { JsonField, JsonFields } from './json-fields.ts';
import { messageOf, type Message } from '../../messages.ts';

/** The key as the database takes it; undefined for a text that is not of the key's type, which no record can have. */
export function parseId({ model }: ResourceView, id: string): string | undefined {
  const parsed = model.primaryKey.type.parse(id, model.primaryKey);
  return parsed.fault === undefined ? parsed.value : undefined;
}

/** The key as the database takes it. @throws Problem 404 for a text that is not of the key's type */
export function requireId(resource: ResourceView, text: string): string {
  const id = parseId(resource, text);
  if (id === undefined) throw notFound(messageOf('noRecord'));
  return id;
}

/** A record as clients see it: its JSON, and its version (for ETag), which includes the digest of the output's keys. */
export type RecordResult = FoundRecord;

export const recordResult = (
  { json, version }: FoundRecord,
  { outputDigest, versionCipher }: Pick<ResourceView, 'outputDigest' | 'versionCipher'>,
): RecordResult => ({
  json,
  version: `${versionCipher.encrypt(version)}${outputDigest}`,
});

/** The versions that `If-Match` names; undefined when any version is allowed. */
export type Versions = readonly string[] | undefined;

/** The rows' versions among those that `If-Match` names. */
export const rowVersions = ({ outputDigest, versionCipher }: ResourceView, versions: Versions): Versions =>
  versions?.flatMap((version) =>
    version.endsWith(outputDigest)
      ? (versionCipher.decrypt(version.slice(0, -outputDigest.length)) ?? [])
      : [],
  );

/** How to run the statement that reads a record by its key. A slow view must not hold up the statements behind it. */
export const keyReadKind = ({ model }: ResourceView): 'quick' | 'read' => (model.isFast ? 'quick' : 'read');

/**
 * Reads a record with one statement.
 * @param shownBy reads it in another form than the API's, which may take PostgreSQL long
 * @returns undefined if there is none
 */
export async function findRecord(
  database: Pick<Database, 'run'>,
  resource: ResourceView,
  text: string,
  shownBy?: MakeRecordStatement,
): Promise<RecordResult | undefined> {
  const id = parseId(resource, text);
  if (id === undefined) return undefined;
  const kind = shownBy ? 'read' : keyReadKind(resource);
  const found = await database.run((shownBy ?? resource.byKey)(id), kind).catch(undefinedIfUnencodable);
  return found && recordResult(found, resource);
}

/** Reads a record that must exist. @throws Problem 404 */
export async function readRecord(...args: Parameters<typeof findRecord>): Promise<RecordResult> {
  const found = await findRecord(...args);
  if (!found) throw notFound(messageOf('noRecord'));
  return found;
}

/** A value of a key as a field of a body. */
function keyField(text: string, { type, fractionalSecondDigits }: Column): JsonField {
  if (type.input.json === 'number') return { value: Number(text), source: text };
  if (type.input.json === 'boolean') return { value: text === 'true', source: text };
  return { value: text, source: JSON.stringify(text), exact: fractionalSecondDigits ? text : undefined };
}

/** A column of a key and its field. */
export interface KeyField {
  readonly column: Column;
  readonly field: JsonField;
  /** Why the column cannot store the value. */
  readonly fault: Message | undefined;
}

/** The columns of a key and their fields. A text that is not of the key's type gives fields that no column accepts. */
export function keyFields(idText: string, primaryKey: Column): KeyField[] {
  const { parts } = primaryKey;
  const texts = parts ? splitKey(idText, parts) : [idText];
  const sent = parts ? partTexts(idText, parts) : [idText];
  return partsOf(primaryKey).map((column, index) => {
    const text = 'fault' in texts ? '' : (texts[index] ?? '');
    return { column, field: keyField(text, column), fault: tooManyPlaces(sent[index] ?? '', column) };
  });
}

/** Whether two fields of a body have the same value, without fractions of a second. */
export function isSameField(one: JsonField, other: JsonField, column: Column): boolean {
  const valueOf = ({ value, source }: JsonField) => parseField({ value, source }, column).value;
  return valueOf(one) === valueOf(other);
}

/**
 * Adds the key of an address to the fields of a body.
 * @throws Problem 400 if the body has another key, or if the columns cannot store that of the address
 */
export function withKey(fields: JsonFields, idText: string, { model }: ResourceView): Map<string, JsonField> {
  const { primaryKey } = model;
  const { parts } = primaryKey;
  const errors: FieldErrors = {};
  const sent = fields.get('id');
  if (sent && parseField(sent, primaryKey).value !== primaryKey.type.parse(idText, primaryKey).value)
    addError(errors, 'id', messageOf('otherId'));
  const all = new Map(fields);
  if (parts) all.delete('id');
  for (const { column, field, fault } of keyFields(idText, primaryKey)) {
    if (fault !== undefined) addError(errors, column.key, fault);
    // A foreign key may be sent by either of two names.
    for (const name of parts ? new Set([column.key, column.name]) : []) {
      const own = fields.get(name);
      if (own && !isSameField(own, field, column)) addError(errors, name, messageOf('otherKey'));
    }
    all.delete(column.name);
    all.set(column.key, field);
  }
  if (Object.keys(errors).length > 0) throw badBody(errors);
  return all;
}
