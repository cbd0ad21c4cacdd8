import type { Column } from '../../db/schema/model.ts';
import { addError, type FieldErrors } from '../../errors.ts';
import { isFreeText, withoutGuard, type CsvRow } from '../../query/statements/csv.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { textOfField } from '../../resources/records/browsing.ts';
import { jsonFieldOf, type JsonField, type JsonFields } from '../../resources/records/json-fields.ts';

import { mustHaveText, NULL } from '../fields/form-values.ts';
import { isSettable, type ImportFile } from './import-file.ts';
import { grouped } from '../web/display-text.ts';

/** The value of a column as a cell would hold it; null for none. */
export function storedText(record: JsonFields, column: Column): string | null {
  if (column.type.input.json !== 'json') return textOfField(record, column.key);
  const source = record.get(column.key)?.source ?? 'null';
  return source === 'null' ? null : source;
}

/** What a cell says; null for no value. Empty quotes are a text only where there are texts. */
export function cellText(cell: string | null, column: Column): string | null {
  if (cell === null) return null;
  const told = isFreeText(column) ? withoutGuard(cell) : cell.trim();
  if (column.type.input.json === 'json') return ['', 'null'].includes(told.trim()) ? null : told.trim();
  return told === '' && !isFreeText(column) ? null : told;
}

const isJsonNull = (cell: string | null, column: Column): boolean =>
  column.type.input.json === 'json' && cell?.trim() === 'null';

/** Characters of a cell: to read and write more would hold the event loop. */
const LONGEST_CELL = 1024 * 1024;

/** True and false by all their names: spreadsheets write them in capitals. */
export function cellMember(column: Column, told: string | null): JsonField | { readonly fault: string } {
  if (told === null) return NULL;
  // Other columns have a shorter bound of their own.
  if (told.length > LONGEST_CELL && isFreeText(column) && column.maxLength === undefined)
    return {
      fault: `must be at most ${grouped(LONGEST_CELL)} characters in an import (got ${grouped(told.length)})`,
    };
  if (column.type.input.json !== 'boolean') return jsonFieldOf(column, told);
  return jsonFieldOf(column, column.type.parse(told, column).value ?? told);
}

/**
 * The members that a row sets: those that differ from the record, or of a new one all that it says. Spreadsheets do not tell
 * NULL from the empty text, so in a column that takes no NULL an empty cell is the empty text, where the form takes that or the
 * record has it, and of a new record the default. A cell of JSON that says `null` is not empty.
 */
export function membersOf(
  { columns }: ImportFile,
  { cells }: CsvRow,
  resource: AdminResource,
  present: JsonFields | undefined,
  errors: FieldErrors,
): Map<string, JsonField> {
  const members = new Map<string, JsonField>();
  columns.forEach((column, index) => {
    if (!isSettable(column, resource)) return;
    let told = cellText(cells[index] ?? null, column);
    if (told === null && !column.nullable) {
      if (!present) {
        // Unlike an empty cell this one says what the value is.
        if (isJsonNull(cells[index] ?? null, column)) addError(errors, column.key, 'must not be null');
        return;
      }
      if (isFreeText(column) && column.type.input.json === 'string') told = '';
      if (told === '' && mustHaveText(column) && storedText(present, column) !== '') {
        addError(errors, column.key, 'is required');
        return;
      }
    }
    if (present && told === storedText(present, column)) return;
    const member = cellMember(column, told);
    if ('fault' in member) addError(errors, column.key, member.fault);
    else members.set(column.key, member);
  });
  return members;
}
