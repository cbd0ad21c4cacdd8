// A record as the admin area shows it: how its JSON from PostgreSQL is parsed, and how its values become text.
import { setImmediate } from 'node:timers/promises';
import type { Column } from '../../db/schema/model.ts';
import { sizeKey } from '../../query/entries/preview-sql.ts';
import { parseJsonFields, parseJsonFieldsInTurns, splitValues, type JsonFields } from './json-fields.ts';
import type { Named } from './look-up.ts';

/** A record with its label and the labels of the records that it refers to. Long values may be cut. */
export interface RecordEntry extends Named {
  /** The label of the related record, by the foreign key's JSON key; null where there is no such record or label. */
  readonly labels: Readonly<Record<string, string | null>>;
  readonly fields: JsonFields;
  /** The keys of the related records, by the names of foreign keys of several columns. */
  readonly keys: Readonly<Record<string, string | null>>;
}

/** A record entry with the version of its row. */
export type StoredEntry = RecordEntry & { readonly version: string };

/** The text of a JSON field: a string without its quotes, any other value as its JSON. Null for null and for a missing field. */
export function textOfField(fields: JsonFields, key: string): string | null {
  const field = fields.get(key);
  if (!field || field.value === null) return null;
  return typeof field.value === 'string' ? field.value : field.source;
}

/**
 * The text of a column. JSON strings of a `json` column keep their quotes, because "1" and 1 are different values. A cut value
 * ends with `…`.
 */
export function textOfColumn(fields: JsonFields, column: Column): string | null {
  const { key, type } = column;
  if (fields.has(sizeKey(column))) return `${textOfField(fields, key) ?? ''}…`;
  return type.input.json === 'json' && fields.get(key)?.value !== null
    ? (fields.get(key)?.source ?? null)
    : textOfField(fields, key);
}

/** The key that a column of a record refers to, or its text. */
export const keyIn = ({ keys, fields }: RecordEntry, { key }: Column): string | null =>
  keys[key] ?? textOfField(fields, key);

/** Whether a text has a visible character. A link without one could not be seen. */
export const isVisible = (text: string): boolean =>
  /[^\s\u2800\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}]/u.test(text);

/** Records of this many bytes or more are parsed in steps, so that other requests run in between. */
export const LARGE_RECORD = 65_536;

/** Parses `{"label":…,"labels":{…},"record":{…}}`, as `entry` in query/entries/entry-sql.ts selects it. */
export function parseEntry(source: string): RecordEntry {
  const parts = parseJsonFields(source);
  return entryOf(parts, parseJsonFields(parts.get('record')?.source ?? '{}'));
}

/** Parses like `parseEntry`, and lets other requests run between the steps of a large record. */
export async function parseLargeEntry(bytes: Buffer): Promise<RecordEntry> {
  if (bytes.length < LARGE_RECORD) return parseEntry(bytes.toString());
  const source = bytes.toString();
  await setImmediate();
  const parts = await parseJsonFieldsInTurns(source);
  const fields = await parseJsonFieldsInTurns(parts.get('record')?.source ?? '{}');
  await setImmediate();
  return entryOf(parts, fields);
}

/** Parses the entries of a page. Lets other requests run in between, also when many small records are large together. */
export async function parseEntries(sources: string): Promise<RecordEntry[]> {
  const entries: RecordEntry[] = [];
  let parsed = 0;
  for (const source of splitValues(sources)) {
    entries.push(parseEntry(source));
    parsed += source.length;
    if (parsed < LARGE_RECORD) continue;
    await setImmediate();
    parsed = 0;
  }
  return entries;
}

function entryOf(parts: JsonFields, fields: JsonFields): RecordEntry {
  const id = textOfField(fields, 'id') ?? '';
  const label = parts.get('label')?.value;
  const labels = JSON.parse(parts.get('labels')?.source ?? '{}') as Record<string, string | null> | null;
  return {
    id,
    label: typeof label === 'string' && isVisible(label) ? label : `#${id}`,
    labels: Object.fromEntries(
      Object.entries(labels ?? {}).map(([key, text]) => [
        key,
        text !== null && isVisible(text) ? text : null,
      ]),
    ),
    fields,
    keys: JSON.parse(parts.get('keys')?.source ?? '{}') as Record<string, string | null>,
  };
}
