// The fields of a record's form: for each column a label, a control that fits its type, hints and errors.
import type { Column } from '../../db/schema/model.ts';
import { isRelative } from '../../db/types/dates.ts';
import type { Named } from '../../resources/records/look-up.ts';
import {
  hasNullBox,
  hidesDefault,
  takesAnyText,
  isCheckbox,
  noChoice,
  nullName,
  textsOf,
  type Typed,
  type TypedValues,
} from './form-values.ts';
import { arrayToText } from '../web/array-lines.ts';
import { attributes, html, htmlInPieces, PIECE, type Html } from '../web/html.ts';
import { links } from '../web/admin-links.ts';
import { choiceLabel } from '../web/display-text.ts';
import { isDateTime, localText, timeZone, zoneFault } from '../web/time-zone.ts';
import { fieldErrors } from '../web/widgets.ts';

/** The records that a foreign key can refer to, if the admin area shows their resource. */
export interface References {
  /** All records; undefined if there are too many for a list. */
  readonly options: readonly Named[] | undefined;
  /** The label of the chosen record, if there are no `options`. */
  readonly label: string | undefined;
}

/** One field of a form. */
export interface Field {
  readonly column: Column;
  readonly typed: Typed;
  /** Whether the record already has this value. */
  readonly isStored?: boolean | undefined;
  readonly isNew: boolean;
  readonly errors?: readonly string[] | undefined;
  readonly references?: References | undefined;
  /** The escaped text, if it is long; see `renderLongTexts`. */
  readonly longText?: Html | undefined;
  /** Whether the field is marked as required. */
  readonly isRequired: boolean;
}

/** Browsers remove line breaks from inputs other than a textarea. */
const LINE_BREAK = /[\r\n]/;
/** A column with a lower maximum length gets an input of just that width (characters). */
const LONG = 60;
/** Maximum height of a textarea (lines). */
const MAX_LINES = 20;

/** Escapes the long texts of a form in pieces: escaping 1 MB at once would block the event loop for up to 60 ms. */
export async function renderLongTexts(typed: TypedValues): Promise<ReadonlyMap<Column, Html>> {
  const rendered = new Map<Column, Html>();
  for (const [column, { text }] of typed)
    if (text.length > PIECE)
      rendered.set(column, await htmlInPieces(column.type.element ? arrayToText(text, column) : text));
  return rendered;
}

/**
 * The `step` of a number input: 1, the column's decimal places, or any. Browsers count steps from the initial value, so an initial
 * value with more decimals would make every valid value invalid.
 */
function stepOf({ castType, scale }: Column, text: string): string {
  const digits = castType.startsWith('int') ? 0 : scale;
  const typed = text.split('.')[1]?.length ?? 0;
  if (digits === undefined || typed > Math.max(0, digits)) return 'any';
  return digits <= 0 ? '1' : `0.${'0'.repeat(digits - 1)}1`;
}

/** The `min` and `max` of a number input; none if the stored value is outside, or the browser would not send the form. */
function boundsOf({ min, max }: Column, text: string): Pick<Column, 'min' | 'max'> {
  const isBeyond = text !== '' && (Number(text) < Number(min) || Number(text) > Number(max));
  return isBeyond ? {} : { min, max };
}

interface MomentBounds {
  readonly min?: string | undefined;
  readonly max?: string | undefined;
}

/** The same for a date or time input, whose value has a T between date and time. */
function momentBoundsOf(column: Column, value: string): MomentBounds {
  const [min, max] = [column.earliest, column.latest].map((bound) => {
    if (bound === undefined || isRelative(bound)) return undefined;
    return (isDateTime(column) ? localText(bound).slice(0, 19) : bound).replace(' ', 'T');
  });
  const isBeyond = value !== '' && (value < (min ?? '') || value > (max ?? '~'));
  return isBeyond ? {} : { min, max };
}

/** Whether a number input can hold the text: browsers clear one whose number is too large for JavaScript. */
const isNumeral = (text: string): boolean =>
  text === '' || (/^-?\d+(\.\d+)?$/.test(text) && Number.isFinite(Number(text)));

const idOf = ({ key }: Column): string => `field-${key}`;

/** The value of a date or time input; undefined if the input cannot hold the text. */
function dateTimeValue({ type }: Column, text: string): string | undefined {
  const { control } = type.input;
  if (text === '') return '';
  if (control === 'date') return /^\d{4}-\d\d-\d\d$/.test(text) ? text : undefined;
  if (control === 'time') return /^\d\d:\d\d(:\d\d)?$/.test(text) && text < '24' ? text : undefined;
  return /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?$/.test(text) ? text.replace(' ', 'T') : undefined;
}

/** A select. A stored value that is not among the options is added, so that saving does not change it. */
function selectOf(
  field: Field,
  options: readonly (readonly [value: string, text: string])[],
  common: Html,
): Html {
  const { column, typed, isNew } = field;
  const none = noChoice(column);
  const isNone = typed.text === '' && (typed.isNull || none === '');
  const isOpen = column.nullable || isNone || (isNew && (hidesDefault(column) || !column.hasDefault));
  const all =
    isNone || options.some(([value]) => value === typed.text)
      ? options
      : [...options, [typed.text, typed.text] as const];
  return html`<select${common}>
    ${isOpen && html`<option value="${none}">${isNew && hidesDefault(column) ? 'the default' : column.nullable ? 'no value' : '–'}</option>`}
    ${all.map(([value, text]) => html`<option value="${value}" ${attributes({ selected: !isNone && value === typed.text })}>${text === '' ? 'empty text' : text}</option>`)}
  </select>`;
}

/** A search for the related record: suggestions with the script, a separate page without it. */
function referenceInput(field: Field, common: Html): Html {
  const { column, typed, isStored, references } = field;
  const model = column.references?.name ?? '';
  return html`<div class="reference" data-lookup="${links.action(model, 'lookup')}">
    <input${common} value="${typed.text}" autocomplete="off" ${attributes({ 'data-stored': isStored })} />
    <span class="reference-label"
      >${
        references?.label !== undefined &&
        html`<a href="${links.record(model, typed.text)}">${references.label}</a>`
      }</span
    >
    <button
      class="secondary"
      name="_lookup"
      value="${column.key}"
      formnovalidate
      aria-label="Search ${column.title}"
    >
      Search …
    </button>
  </div>`;
}

/** How to type an array, and its choices. */
function arrayHint({ elementFacts, nullable, choiceLabels }: Column): string {
  if (!elementFacts) return '';
  const choices = textsOf(elementFacts)?.map((text) =>
    choiceLabels ? `${text} (${choiceLabels.get(text)})` : text,
  );
  const isOneOf = choices ? `Choices: ${choices.join(', ')}.` : '';
  const none = nullable ? 'Empty means no value, [] means no elements.' : '';
  return ['One element per line, or a JSON array.', none, isOneOf].filter(Boolean).join(' ');
}

/** The hint of a field, or an empty text: the registry's help text, the meaning of an empty field, the time zone. */
function hintOf({ column, isNew }: Field): string {
  const isNow = column.initial === 'now' && Boolean(column.type.now);
  const left = !isNew || !column.hasDefault || column.type.input.control === 'checkbox';
  const empty = isNow
    ? 'If left empty: now.'
    : column.initial === undefined && !takesAnyText(column)
      ? 'If left empty: the default.'
      : '';
  const { control } = column.type.input;
  const zone = control === 'datetime-local' ? `In ${timeZone()}.` : '';
  return [column.help, arrayHint(column), left ? '' : empty, zone].filter(Boolean).join(' ');
}

/** The control of a field, by the type of its column. */
export function fieldControl(field: Field): Html {
  const { column, typed, isNew, errors, references, longText, isRequired } = field;
  const { control } = column.type.input;
  const id = idOf(column);
  const described = [hintOf(field) && `${id}-hint`, errors && errors.length > 0 && `${id}-error`]
    .filter(Boolean)
    .join(' ');
  const common = attributes({
    id,
    name: column.key,
    // No `required`: the browser would stop at the first empty field, while the service reports all errors at once. Only the
    // browser can reject half a date, which it would send as an empty value, so the form is not `novalidate`. No `maxlength`: it
    // counts UTF-16 units, two for an emoji, and cuts pasted text without a message.
    'aria-required': isRequired && !isCheckbox(column, isNew) ? 'true' : undefined,
    'aria-invalid': errors && errors.length > 0 ? 'true' : undefined,
    'aria-describedby': described === '' ? undefined : described,
  });
  if (isCheckbox(column, isNew))
    return html`<input${common}
      type="checkbox"
      value="true"
      ${attributes({ checked: typed.text === 'true' })}
    />`;
  if (control === 'checkbox') return selectOf(field, [['true', choiceLabel(column, 'true', 'Yes')], ['false', choiceLabel(column, 'false', 'No')]], common); // prettier-ignore
  const texts = textsOf(column);
  if (texts) return selectOf(field, texts.map((text) => [text, choiceLabel(column, text)]), common); // prettier-ignore
  const hasBreaks = LINE_BREAK.test(typed.text);
  if (references && (references.options || !hasBreaks)) {
    return references.options
      ? selectOf(field, references.options.map(({ id: key, label }) => [key, label]), common) // prettier-ignore
      : referenceInput(field, common);
  }
  const text = column.type.element ? arrayToText(typed.text, column) : typed.text;
  const lines = text.split('\n', MAX_LINES).length;
  if (control === 'textarea' || (control === 'text' && (hasBreaks || typed.text.length > 500))) {
    const isCode = column.type.input.json === 'json';
    // HTML parsers drop the first line break of a textarea, so one is added.
    return html`<textarea${common} rows="${Math.min(MAX_LINES, Math.max(isCode ? 3 : 4, lines + 1))}"${attributes({ class: isCode && 'code', spellcheck: isCode ? 'false' : undefined })}>${'\n'}${longText ?? text}</textarea>`;
  }
  if (control === 'number' && isNumeral(typed.text))
    return html`<input${common}
      type="number"
      value="${typed.text}"
      ${attributes({ step: stepOf(column, typed.text), ...boundsOf(column, typed.text) })}
    />`;
  const local = isDateTime(column) ? localText(typed.text) : typed.text;
  if (control === 'date' || control === 'time' || control === 'datetime-local') {
    // Only a text input takes an offset.
    const value = zoneFault(typed.text) === undefined ? dateTimeValue(column, local) : undefined;
    if (value !== undefined)
      return html`<input${common}
        type="${control}"
        value="${value}"
        ${attributes({ step: control === 'date' ? undefined : 1, ...momentBoundsOf(column, value) })}
      />`;
  }
  const isShort = (column.maxLength ?? LONG) < LONG;
  return html`<input${common}
    type="text"
    value="${longText ?? local}"
    ${attributes({ size: isShort ? column.maxLength : undefined })}
  />`;
}

/** A field with its label, hints and errors. */
export function fieldRow(field: Field): Html {
  const { column, typed, isNew, errors, isRequired } = field;
  const id = idOf(column);
  const hint = hintOf(field);
  const meaning = `empty means ${isNew && hidesDefault(column) ? 'the default' : 'no value'}`;
  // A screen reader reads the checkbox without the label of the field above it.
  const box = attributes({ checked: typed.isNull, 'aria-label': `${column.title}: ${meaning}` });
  const nullBox =
    hasNullBox(column, isNew) &&
    html`<label class="check null"
      ><input type="checkbox" name="${nullName(column)}" value="1" ${box} /> ${meaning}</label
    >`;
  return html`<div class="${errors && errors.length > 0 ? 'field faulty' : 'field'}">
    <label for="${id}"
      >${column.title}${isRequired && html` <span class="required" title="required" aria-hidden="true">*</span>`}</label
    >
    <div class="control">
      ${fieldControl(field)} ${nullBox} ${hint !== '' && html`<p class="hint" id="${id}-hint">${hint}</p>`}
      ${fieldErrors(id, errors)}
    </div>
  </div>`;
}

/** The text of a field that can no longer be saved, to copy. */
export function unsavedRow(column: Column, text: string, longText: Html | undefined): Html {
  const id = idOf(column);
  const shown = column.type.element ? arrayToText(text, column) : text;
  const state = attributes({ id, rows: shown.split('\n', MAX_LINES).length, readonly: true });
  return html`<div class="field">
    <label for="${id}">${column.title}</label>
    <div class="control"><textarea${state}>${'\n'}${longText ?? shown}</textarea></div>
  </div>`;
}
