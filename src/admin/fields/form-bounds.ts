import type { Column } from '../../db/schema/model.ts';
import { Problem } from '../../errors.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { nullName, textsOf } from './form-values.ts';
import { grouped } from '../web/display-text.ts';

/** Characters of a field that steers a form: more than the longest query of a list. */
const LONGEST_STEERING = 16_384;
/** Characters for each column in the fields that name columns. */
const LONGEST_NAMED = 80;
/** Characters of a value whose type has no long ones: a number, a moment, one of some choices. */
const LONGEST_SHORT = 1000;
/** Characters of a foreign key: PostgreSQL's indexes hold no longer keys. */
const LONGEST_KEY = 8192;
/** Characters of JSON: a scan of more would hold the event loop. */
const LONGEST_JSON = 1024 * 1024;

/** The most characters that are read of what was typed for a column. */
function mostOf(column: Column): number {
  if (column.references) return LONGEST_KEY;
  const texts = textsOf(column);
  if (texts) return Math.max(LONGEST_SHORT, ...texts.map(({ length }) => length));
  if (column.type.input.json === 'json') return LONGEST_JSON;
  return column.type.long ? Infinity : LONGEST_SHORT;
}

/** Why a text is longer than what is read for its column; the rest of it may be missing already. */
export function lengthFault(column: Column, text: string): string | undefined {
  const most = mostOf(column);
  return text.length > most ? `must be at most ${grouped(most)} characters here` : undefined;
}

/**
 * What a form has for these columns, in a length that does not hold the event loop. What is too long is cut to what
 * `lengthFault` refuses, except JSON, which people would have to type again.
 * @throws Problem 400 for a field that steers the form
 */
export function boundedForm(form: Form, columns: readonly Column[]): Form {
  const byName = new Map(columns.map((column) => [column.key, column]));
  const nullBoxes = new Set(columns.map(nullName));
  const longest = Math.max(LONGEST_STEERING, columns.length * LONGEST_NAMED);
  const entries = form.entries.flatMap(([name, value]) => {
    if (name.startsWith('_')) {
      if (value.length <= longest) return [[name, value] as const];
      throw new Problem(400, `The field ${name.slice(0, 100)} has more than ${grouped(longest)} characters.`);
    }
    if (nullBoxes.has(name)) return [[name, '1'] as const];
    const column = byName.get(name);
    if (!column) return [];
    const most = mostOf(column);
    const isCut = value.length > most && most < LONGEST_JSON;
    return [[name, isCut ? value.slice(0, most + 1).toWellFormed() : value] as const];
  });
  return createForm(entries);
}
