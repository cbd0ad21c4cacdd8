// Converts between the values of a record and the texts of its form.
import { createHash } from 'node:crypto';
import type { Column } from '../../db/schema/model.ts';
import type { ElementFacts } from '../../db/types/column-type.ts';
import { isLongColumn, sizeKey } from '../../query/labels/preview-sql.ts';
import { textOfColumn, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import type { Form } from '../web/form-data.ts';
import { textToArray } from '../web/array-lines.ts';
import { isDateTime, utcOf } from '../web/time-zone.ts';

/** The value of one column in a form. With `isNull`, an empty text means NULL. */
export interface Typed {
  readonly text: string;
  readonly isNull: boolean;
}

/** The values of all fields of a form. */
export type TypedValues = ReadonlyMap<Column, Typed>;

/** The name of the checkbox that distinguishes NULL from an empty text. No column can have this name. */
export const nullName = ({ key }: Column): string => `${key}__null`;

/** Whether the column holds free text, not one of a set of choices. `takesEmpty` says whether the text may be empty. */
export const takesAnyText = ({ type, labels, choices }: Column): boolean =>
  type.operators.has('ilike') && !labels && !choices;

/** Whether a text column must not be empty: it is neither nullable nor has a default. */
export const mustHaveText = (column: Column): boolean =>
  takesAnyText(column) && !column.nullable && !column.hasDefault;

/** The values of a column with a fixed set of choices. */
export const textsOf = ({
  labels,
  choices,
}: Pick<ElementFacts, 'labels' | 'choices'>): readonly string[] | undefined => labels ?? choices?.map(String);

/** Whether the empty text is a valid value. */
export const takesEmpty = (column: Column): boolean =>
  textsOf(column)?.includes('') ?? (takesAnyText(column) && !mustHaveText(column));

/** The value of the option for NULL or the default. It differs from all choices, since one of them may be the empty text. */
export function noChoice(column: Column): string {
  const texts = textsOf(column);
  let value = texts ? '(none)' : '';
  while (texts?.includes(value)) value = `(${value})`;
  return value;
}

/** The initial text on a new record; undefined if the database computes the default. */
export function initialText({ initial, type }: Column): string | undefined {
  if (typeof initial !== 'string' || type.input.json === 'json') return JSON.stringify(initial);
  return initial === 'now' && type.now ? undefined : initial;
}

/** Whether an empty field of a new record gets a default that the form does not show. */
export const hidesDefault = (column: Column): boolean =>
  column.hasDefault && initialText(column) === undefined;

/** Whether the field has a checkbox for the meaning of an empty text: NULL, or the default. */
export const hasNullBox = (column: Column, isNew: boolean): boolean =>
  takesAnyText(column) && (column.nullable || (isNew && hidesDefault(column)));

/** Whether a boolean is a checkbox. Otherwise it is a select, which can also be empty. */
export const isCheckbox = (column: Column, isNew: boolean): boolean =>
  column.type.input.control === 'checkbox' &&
  !column.nullable &&
  !(isNew && column.hasDefault && column.initial === undefined);

/**
 * Normalizes line breaks to LF, because browsers send all of them as CR LF.
 * @param keepsLone whether to keep a CR without LF
 */
export function withoutReturns(text: string, keepsLone = false): string {
  if (!text.includes('\r')) return text;
  // Much faster than `replace` for a text with many line breaks.
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

/** A date-time in the format of the API: browsers write a T before the time and omit zero seconds. */
const toApiFormat = (text: string): string =>
  text.replace(/^(\d{4,}-\d\d-\d\d)T/, '$1 ').replace(/^((?:.* )?\d\d:\d\d)$/, '$1:00');

const hasTime = ({ type }: Column): boolean => ['datetime-local', 'time'].includes(type.input.control);

/** Reads the values from a submitted form. */
export function typedValues(form: Form, columns: readonly Column[], isNew: boolean): TypedValues {
  return new Map(
    columns.map((column) => {
      const sent = form.get(column.key) ?? '';
      // Browsers leave out a checkbox that is not ticked, so it comes before the choices.
      const isBox = isCheckbox(column, isNew);
      if (textsOf(column) && !isBox) {
        const isNull = form.get(column.key) === undefined || sent === noChoice(column);
        return [column, { text: isNull ? '' : withoutReturns(sent), isNull }];
      }
      const ticked = isBox ? String(sent === 'true') : sent;
      const plain = hasTime(column) ? toApiFormat(ticked.trim()) : ticked.trim();
      const trimmed = isDateTime(column) ? utcOf(plain) : plain;
      if (column.type.element) {
        const empty = column.nullable || (isNew && hidesDefault(column)) ? '' : '[]';
        const array = textToArray(withoutReturns(trimmed), column, empty);
        return [column, { text: array, isNull: array === '' }];
      }
      const text = takesAnyText(column) ? withoutReturns(ticked) : trimmed;
      const isNull = takesAnyText(column) ? form.get(nullName(column)) !== undefined : text === '';
      return [column, { text, isNull }];
    }),
  );
}

/** The columns that a submitted form of a stored record has values for: it has no field for a value that is too long. */
export const columnsIn = (form: Form, columns: readonly Column[]): readonly Column[] =>
  columns.filter((column) => !isLongColumn(column) || form.get(column.key) !== undefined);

/** The values of a stored record. Those that are too long for a form are left out. */
export function storedValues(
  { fields }: Pick<LabeledRecord, 'fields'>,
  columns: readonly Column[],
): TypedValues {
  const fitting = columns.filter((column) => !fields.has(sizeKey(column)));
  return new Map(
    fitting.map((column) => {
      const text = textOfColumn(fields, column);
      // Clearing a field means NULL, unless the stored value was the empty text.
      return [column, { text: text ?? '', isNull: text !== '' }];
    }),
  );
}

/** The parameter of the address of a new record that names the columns without a value, which get no default either. */
export const NO_VALUES = '_null';

/**
 * The initial values of a new record: the registry's defaults.
 * @param given the value from the address, if any; null for no value
 */
export function initialValues(
  columns: readonly Column[],
  given: (column: Column) => string | null | undefined,
): TypedValues {
  return new Map(
    columns.map((column) => {
      const preset = given(column);
      const text = preset === undefined ? initialText(column) : (preset ?? undefined);
      const isEmptyText = text === '' && takesAnyText(column);
      const isChosen = text !== undefined && textsOf(column) !== undefined;
      return [column, { text: text ?? '', isNull: !isEmptyText && !isChosen }];
    }),
  );
}

/** Whether two values are equal, apart from the kind of line breaks, which browsers do not keep. */
export function isSame(one: Typed | undefined, other: Typed | undefined): boolean {
  if (!one || !other) return one === other;
  const isOneNull = one.isNull && one.text === '';
  const isOtherNull = other.isNull && other.text === '';
  return isOneNull === isOtherNull && withoutReturns(one.text) === withoutReturns(other.text);
}

/** A short digest of a value, by which a later request can tell whether it has changed. */
export const digestOf = ({ text, isNull }: Typed): string =>
  createHash('sha256')
    .update(isNull && text === '' ? 'null' : `text ${withoutReturns(text)}`)
    .digest('base64url')
    .slice(0, 12);

/** The digests of the values that a form is made with, for its field `_origin`. */
export const originOf = (values: TypedValues): string =>
  [...values].map(([column, value]) => `${column.key}:${digestOf(value)}`).join(' ');

/** Maximum length of one `key:digest` entry in `_origin` (characters). */
const LONGEST_ENTRY = 80;

/** The digests that the form carries (`_origin`); empty if longer than these columns can produce. */
export function originIn(form: Form, columns: readonly Column[]): string {
  const origin = form.get('_origin') ?? '';
  return origin.length <= columns.length * LONGEST_ENTRY ? origin : '';
}

export const NULL: JsonField = { value: null, source: 'null' };
