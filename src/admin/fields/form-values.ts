import { createHash } from 'node:crypto';
import type { Column } from '../../db/schema/model.ts';
import { markKey, sizeKey } from '../../query/statements/preview-sql.ts';
import { textOfColumn, textOfField, type RecordEntry } from '../../resources/records/record-entry.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import type { Form } from '../web/form-data.ts';

/** What stands in a form for one column; `isNull` says that the text means NULL, where it is empty. */
export interface Typed {
  readonly text: string;
  readonly isNull: boolean;
  /** The mark of the whole value, where PostgreSQL has cut the text. Such a text must never be saved. */
  readonly cutMark?: string | undefined;
}

/** What all fields of a form hold. */
export type TypedValues = ReadonlyMap<Column, Typed>;

/** The name of the box that tells NULL from the empty text: no column is called like this. */
export const nullName = ({ key }: Column): string => `${key}__null`;

/** Whether the column takes any text, the empty one included. */
export const isFreeText = ({ type, labels, choices }: Column): boolean =>
  type.operators.has('ilike') && !labels && !choices;

/** Whether a text must not be emptied: one that can be left out neither has a default that it could have meant. */
export const mustHaveText = (column: Column): boolean =>
  isFreeText(column) && !column.nullable && !column.hasDefault;

/** The texts among which a column's value is chosen, if any. */
export const textsOf = ({ labels, choices }: Column): readonly string[] | undefined =>
  labels ?? choices?.map(String);

/** Whether the empty text is a value of the column. */
export const takesEmpty = (column: Column): boolean =>
  textsOf(column)?.includes('') ?? (isFreeText(column) && !mustHaveText(column));

/** What a choice among texts sends for no value or the default: none of the texts, as the empty one may be among them. */
export function noChoice(column: Column): string {
  const texts = textsOf(column);
  let mark = texts ? '(none)' : '';
  while (texts?.includes(mark)) mark = `(${mark})`;
  return mark;
}

/** The text that the form of a new record begins with; undefined where the database makes the default. */
export function initialText({ initial, type }: Column): string | undefined {
  if (typeof initial !== 'string' || type.input.json === 'json') return JSON.stringify(initial);
  return initial === 'now' && type.now ? undefined : initial;
}

/** Whether a field that is left empty on a new record gets a default that the form does not show. */
export const hidesDefault = (column: Column): boolean =>
  column.hasDefault && initialText(column) === undefined;

/** Whether a box says what the empty text means: no value, or the default. */
export const hasNullBox = (column: Column, isNew: boolean): boolean =>
  isFreeText(column) && (column.nullable || (isNew && hidesDefault(column)));

/** Whether a yes or no is a box to tick, as against a choice that can also be left open. */
export const isTickBox = (column: Column, isNew: boolean): boolean =>
  column.type.input.control === 'checkbox' &&
  !column.nullable &&
  !(isNew && column.hasDefault && column.initial === undefined);

/**
 * Browsers send line breaks as CR LF, whatever they were.
 * @param keepsLone whether a CR without LF stays
 */
export function withoutReturns(text: string, keepsLone = false): string {
  if (!text.includes('\r')) return text;
  // Many times faster than a replacement where there are many line breaks.
  const units = Buffer.from(text, 'utf16le');
  let length = 0;
  for (let at = 0; at < units.length; at += 2) {
    const isReturn = units[at] === 0x0d && units[at + 1] === 0;
    if (isReturn && units[at + 2] === 0x0a && units[at + 3] === 0) continue;
    units[length] = isReturn && !keepsLone ? 0x0a : (units[at] ?? 0);
    units[length + 1] = units[at + 1] ?? 0;
    length += 2;
  }
  return units.toString('utf16le', 0, length);
}

/** Moments as the output has them: a browser writes a T between date and time, and leaves out seconds that are zero. */
const plainMoment = (text: string): string =>
  text.replace(/^(\d{4,}-\d\d-\d\d)T/, '$1 ').replace(/^((?:.* )?\d\d:\d\d)$/, '$1:00');

const isMoment = ({ type }: Column): boolean => ['datetime-local', 'time'].includes(type.input.control);

/** What a browser sent. */
export function typedValues(form: Form, columns: readonly Column[], isNew: boolean): TypedValues {
  return new Map(
    columns.map((column) => {
      const sent = form.get(column.key) ?? '';
      if (textsOf(column)) {
        const isNull = form.get(column.key) === undefined || sent === noChoice(column);
        return [column, { text: isNull ? '' : withoutReturns(sent), isNull }];
      }
      const ticked = isTickBox(column, isNew) ? String(sent === 'true') : sent;
      const trimmed = isMoment(column) ? plainMoment(ticked.trim()) : ticked.trim();
      const text = isFreeText(column) ? withoutReturns(ticked) : trimmed;
      const isNull = isFreeText(column) ? form.get(nullName(column)) !== undefined : text === '';
      return [column, { text, isNull }];
    }),
  );
}

/** The field that names the columns whose values stay as they are, since the form does not hold them. */
export const KEPT = '_kept';

/** The columns that a form holds, of those that it could. */
export function heldBy(form: Form, columns: readonly Column[]): readonly Column[] {
  const kept = new Set((form.get(KEPT) ?? '').split(' '));
  return columns.filter(({ key }) => !kept.has(key));
}

/** The columns whose values a form can hold: PostgreSQL has cut those that are too long. */
export const holdable = ({ members }: RecordEntry, columns: readonly Column[]): readonly Column[] =>
  columns.filter((column) => !members.has(sizeKey(column)));

/** What a record holds. */
export function storedValues({ members }: RecordEntry, columns: readonly Column[]): TypedValues {
  return new Map(
    columns.map((column) => {
      const text = textOfColumn(members, column);
      // Who clears a value that may be missing means that there is none, unless it was the empty text.
      const cutMark = textOfField(members, markKey(column)) ?? undefined;
      return [column, { text: text ?? '', isNull: text !== '', cutMark }];
    }),
  );
}

/** What a new record begins with: the registry's defaults, and what the address gives by the names of columns. */
export function initialValues(
  columns: readonly Column[],
  given: (column: Column) => string | undefined,
): TypedValues {
  return new Map(
    columns.map((column) => {
      const text = given(column) ?? initialText(column);
      const isEmptyText = text === '' && isFreeText(column);
      const isChosen = text !== undefined && textsOf(column) !== undefined;
      return [column, { text: text ?? '', isNull: !isEmptyText && !isChosen }];
    }),
  );
}

/** Whether two values are the same to people: a browser does not keep what kind of line breaks a text has. */
export function isSame(one: Typed | undefined, other: Typed | undefined): boolean {
  if (!one || !other) return one === other;
  if (one.cutMark !== undefined || other.cutMark !== undefined) return markOf(one) === markOf(other);
  const isOneNull = one.isNull && one.text === '';
  const isOtherNull = other.isNull && other.text === '';
  return isOneNull === isOtherNull && withoutReturns(one.text) === withoutReturns(other.text);
}

/** A short mark of a value, by which a later request can tell whether it is another one. */
export const markOf = ({ text, isNull, cutMark }: Typed): string =>
  cutMark ??
  createHash('sha256')
    .update(isNull && text === '' ? 'null' : `text ${withoutReturns(text)}`)
    .digest('base64url')
    .slice(0, 12);

/** Characters of a column's mark in `_origin` at most, with its key and what is around them. */
const LONGEST_MARK = 80;

/** The marks that a form was sent with, as one text; none where it is longer than these columns can make it. */
export function originIn(form: Form, columns: readonly Column[]): string {
  const origin = form.get('_origin') ?? '';
  return origin.length <= columns.length * LONGEST_MARK ? origin : '';
}

export const NULL: JsonField = { value: null, source: 'null' };
