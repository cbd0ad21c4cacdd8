// Converts between the cells of an imported row and the values of a record.
import type { Column } from '../../db/schema/model.ts';
import { addError, type FieldErrors } from '../../errors.ts';
import { isFreeText, withoutGuard } from '../../query/csv/csv-rows.ts';
import type { CsvRow } from '../../query/csv/csv-parser.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { textOfField } from '../../resources/records/labeled-record.ts';
import {
  jsonFieldInTurns,
  jsonFieldOf,
  type JsonField,
  type JsonFields,
} from '../../resources/records/json-fields.ts';
import { mustHaveText, NULL } from '../fields/form-values.ts';
import { isSettable, type ImportFile } from './import-file.ts';
import { grouped } from '../web/display-text.ts';
import type { Message } from '../../messages.ts';

/** A record's value as the text of a cell; null for no value. */
export function storedText(record: JsonFields, column: Column): string | null {
  if (column.type.input.json !== 'json') return textOfField(record, column.key);
  const source = record.get(column.key)?.source ?? 'null';
  return source === 'null' ? null : source;
}

/** The value of a cell as text; null for no value. An empty quoted cell is an empty string only in a text column. */
export function cellText(cell: string | null, column: Column): string | null {
  if (cell === null) return null;
  const text = isFreeText(column) ? withoutGuard(cell) : cell.trim();
  if (column.type.input.json === 'json') return ['', 'null'].includes(text.trim()) ? null : text.trim();
  return text === '' && !isFreeText(column) ? null : text;
}

const isJsonNull = (cell: string | null, column: Column): boolean =>
  column.type.input.json === 'json' && cell?.trim() === 'null';

/** Maximum characters of a cell. Parsing and escaping a longer one would block the event loop. */
const MAX_CELL_LENGTH = 1024 * 1024;

type CellField = JsonField | { readonly fault: Message | string };

/**
 * Converts the text of a cell to a JSON field. Returns a promise only for a JSON column, whose text may be long. Booleans accept every
 * spelling that filters accept, because spreadsheets write them in capitals.
 */
export function cellField(column: Column, text: string | null): CellField | Promise<CellField> {
  if (text === null) return NULL;
  // Other columns have a lower limit.
  if (text.length > MAX_CELL_LENGTH && isFreeText(column) && column.maxLength === undefined)
    return {
      fault: `must be at most ${grouped(MAX_CELL_LENGTH)} characters in an import (got ${grouped(text.length)})`,
    };
  if (column.type.input.json === 'json') return jsonFieldInTurns(column, text);
  const isBoolean = column.type.input.json === 'boolean';
  return jsonFieldOf(column, isBoolean ? (column.type.parse(text, column).value ?? text) : text);
}

/**
 * The fields that a row sets: those that differ from the record, or all values of a new record. Faults go to `errors`.
 * Spreadsheets save an empty string as an empty cell, like NULL. So in a column without NULL, an empty cell means:
 * - in a new record, the default;
 * - in a text column, the empty string, if the form allows it or the record has it already.
 * `null` in a JSON column does not count as an empty cell.
 */
export async function fieldsOfRow(
  { columns }: ImportFile,
  { cells }: CsvRow,
  resource: AdminView,
  present: JsonFields | undefined,
  errors: FieldErrors,
): Promise<Map<string, JsonField>> {
  const fields = new Map<string, JsonField>();
  for (const [index, column] of columns.entries()) {
    if (!isSettable(column, resource)) continue;
    let text = cellText(cells[index] ?? null, column);
    if (text === null && !column.nullable) {
      if (!present) {
        // Unlike an empty cell, `null` does not mean the default.
        if (isJsonNull(cells[index] ?? null, column)) addError(errors, column.key, 'must not be null');
        continue;
      }
      if (storedText(present, column) === null) continue; // in a view, or an old row
      if (isFreeText(column) && column.type.input.json === 'string') text = '';
    }
    if (present && text === storedText(present, column)) continue;
    if (text === '' && mustHaveText(column)) {
      addError(errors, column.key, 'is required');
      continue;
    }
    const cell = cellField(column, text);
    const field = cell instanceof Promise ? await cell : cell;
    if ('fault' in field) addError(errors, column.key, field.fault);
    else fields.set(column.key, field);
  }
  return fields;
}
