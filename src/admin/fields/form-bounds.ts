// Bounds the lengths of form values, so that a huge value does not block the event loop.
import type { Column } from '../../db/schema/model.ts';
import { Problem } from '../../errors.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { nullName, textsOf } from './form-values.ts';
import { grouped } from '../web/display-text.ts';

/** Maximum length of a control field such as `_list` (characters): above the longest query of a list. */
const LONGEST_CONTROL_FIELD = 16_384;
/** Characters per column in control fields that name columns. */
const LONGEST_NAMED = 80;
/** Characters of all control fields, besides two for each column. */
const LONGEST_CONTROL_FIELDS = 65_536;
/** Maximum length of a number, date, time or choice (characters). */
const LONGEST_SHORT = 1000;
/** Maximum length of a foreign key (characters): PostgreSQL cannot index longer keys. */
const LONGEST_KEY = 8192;
/** Maximum length of JSON (characters): parsing more would block the event loop. */
const LONGEST_JSON = 1024 * 1024;

/** Maximum length of a column's value in a form (characters). */
function maxLengthOf(column: Column): number {
  if (column.references) return LONGEST_KEY;
  const texts = textsOf(column);
  if (texts) return Math.max(LONGEST_SHORT, ...texts.map(({ length }) => length));
  if (column.type.input.json === 'json') return LONGEST_JSON;
  return column.type.long ? Infinity : LONGEST_SHORT;
}

/** The fault of a text that is too long for its column's field. `boundedForm` may already have truncated it. */
export function tooLongFault(column: Column, text: string): string | undefined {
  const max = maxLengthOf(column);
  return text.length > max ? `must be at most ${grouped(max)} characters here` : undefined;
}

/**
 * Keeps the fields of these columns and truncates long values, to one character more than `tooLongFault` accepts. JSON is not
 * truncated, so that the user does not lose it.
 * @throws Problem 400 for a control field that is too long, and for too many of them
 */
export function boundedForm(form: Form, columns: readonly Column[]): Form {
  const byName = new Map(columns.map((column) => [column.key, column]));
  const nullBoxes = new Set(columns.map(nullName));
  const longest = Math.max(LONGEST_CONTROL_FIELD, columns.length * LONGEST_NAMED);
  let left = LONGEST_CONTROL_FIELDS + 2 * columns.length * LONGEST_NAMED;
  const entries = form.entries.flatMap(([name, value]) => {
    if (name.startsWith('_')) {
      if (value.length > longest)
        throw new Problem(
          400,
          `The field ${name.slice(0, 100)} must be at most ${grouped(longest)} characters (got ${grouped(value.length)}).`,
        );
      // `readChoice` limits the keys of selected records.
      if (name !== '_id') left -= name.length + value.length;
      if (left < 0) throw new Problem(400, 'The form has too many fields whose names start with "_".');
      return [[name, value] as const];
    }
    if (nullBoxes.has(name)) return [[name, '1'] as const];
    const column = byName.get(name);
    if (!column) return [];
    const max = maxLengthOf(column);
    const isTruncated = value.length > max && max < LONGEST_JSON;
    return [[name, isTruncated ? value.slice(0, max + 1).toWellFormed() : value] as const];
  });
  return createForm(entries);
}
