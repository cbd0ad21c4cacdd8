// A record as the admin area shows it: how its JSON from PostgreSQL is parsed, and how its values become text.
import { setImmediate } from 'node:timers/promises';
import type { Column } from '../../db/schema/model.ts';
import { sizeKey } from '../../query/labels/preview-sql.ts';
import { parseJsonFields, parseJsonFieldsInTurns, splitValues, type JsonFields } from './json-fields.ts';
import type { Named } from './look-up.ts';

/** A record with its label and the labels of the records that it refers to. Long values may be cut. */
export interface LabeledRecord extends Named {
  /** The label of the related record, by the foreign key's JSON key; null where the caller sees no such record, empty where it has no label. */
  readonly labels: Readonly<Record<string, string | null>>;
  readonly fields: JsonFields;
  /** The keys of the related records, by the names of foreign keys of several columns. */
  readonly keys: Readonly<Record<string, string | null>>;
}

/** A labeled record with the version of its row. */
export type StoredRecord = LabeledRecord & { readonly version: string };

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
  if (type.input.json !== 'json') return textOfField(fields, key);
  // Parsing a large value would take long.
  const source = fields.get(key)?.source ?? 'null';
  return source === 'null' ? null : source;
}

/** The key that a column of a record refers to, or its text. */
export const keyIn = ({ keys, fields }: LabeledRecord, { key }: Column): string | null =>
  keys[key] ?? textOfField(fields, key);

/** Whether a text has a visible character. A link without one could not be seen. */
export const isVisible = (text: string): boolean =>
  /[^\s\u2800\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}]/u.test(text);

/** Records of this many bytes or more are parsed in steps, so that other requests run in between. */
export const LARGE_RECORD = 65_536;

/** Parses `{"label":…,"labels":{…},"record":{…}}`, as `labeledRecord` in query/labels/labeled-record-sql.ts selects it. */
export function parseLabeledRecord(source: string): LabeledRecord {
  const parts = parseJsonFields(source);
  return labeledRecordOf(parts, parseJsonFields(parts.get('record')?.source ?? '{}'));
}

/** Parses like `parseLabeledRecord`, and lets other requests run between the steps of a large record. */
export async function parseLargeRecord(bytes: Buffer): Promise<LabeledRecord> {
  if (bytes.length < LARGE_RECORD) return parseLabeledRecord(bytes.toString());
  const source = bytes.toString();
  await setImmediate();
  const parts = await parseJsonFieldsInTurns(source);
  const fields = await parseJsonFieldsInTurns(parts.get('record')?.source ?? '{}');
  await setImmediate();
  return labeledRecordOf(parts, fields);
}

/** Parses the records of a page. Lets other requests run in between, also when many small records are large together. */
export async function parseLabeledRecords(sources: string): Promise<LabeledRecord[]> {
  const records: LabeledRecord[] = [];
  let parsed = 0;
  for (const source of splitValues(sources)) {
    records.push(parseLabeledRecord(source));
    parsed += source.length;
    if (parsed < LARGE_RECORD) continue;
    await setImmediate();
    parsed = 0;
  }
  return records;
}

function labeledRecordOf(parts: JsonFields, fields: JsonFields): LabeledRecord {
  const id = textOfField(fields, 'id') ?? '';
  const label = parts.get('label')?.value;
  const labels = JSON.parse(parts.get('labels')?.source ?? '{}') as Record<string, string | null> | null;
  return {
    id,
    label: typeof label === 'string' && isVisible(label) ? label : `#${id}`,
    labels: Object.fromEntries(
      Object.entries(labels ?? {}).map(([key, text]) => [key, text !== null && !isVisible(text) ? '' : text]),
    ),
    fields,
    keys: JSON.parse(parts.get('keys')?.source ?? '{}') as Record<string, string | null>,
  };
}
