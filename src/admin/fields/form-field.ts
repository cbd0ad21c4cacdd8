// The field of a column in a form: its control, what people type into it, and what that means.
import { createHash } from 'node:crypto';
import { hasNaturalKey, isKeyPart, type Column } from '../../db/schema/model.ts';
import type { Widget } from '../../db/schema/presentation.ts';
import { TOO_MANY_ELEMENTS } from '../../db/types/array-types.ts';
import { isPresent, isRelative } from '../../db/types/dates.ts';
import { Problem } from '../../errors.ts';
import { messageOf, type Message } from '../../messages.ts';
import { sizeKey } from '../../query/labels/preview-sql.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { hasAddress } from '../../resources/records/checked-body.ts';
import { jsonFieldInTurns, type JsonField, type JsonFields } from '../../resources/records/json-fields.ts';
import { textOfColumn } from '../../resources/records/labeled-record.ts';
import type { Named } from '../../resources/records/look-up.ts';
import { links } from '../web/admin-links.ts';
import { choiceLabel } from '../web/display-text.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { attributes, html, type Attributes, type Html } from '../web/html.ts';
import { outerLink, webAddress } from '../web/addresses.ts';
import { t } from '../web/language.ts';
import { indentedJson } from '../web/indented-json.ts';
import { faultOf, isWhole, pageWriting, readText, shownText, textsOf } from '../web/read-text.ts';
import { isDateTime, localText, withZone } from '../web/time-zone.ts';
import { timeZone } from '../web/presentation.ts';
import { LONGEST_RENDERED, renderMarkdown } from '../web/markdown.ts';
import { pictureOf } from '../web/seen-value.ts';
import { controlAttributes, labeledField } from '../web/widgets.ts';

/** The value of one column in a form. With `isNull`, an empty text means NULL, or the default. */
export interface Typed {
  /** The value in the format of the API; with a fault, the text that was typed. */
  readonly text: string;
  readonly isNull: boolean;
  /** Why the text is not one value. */
  readonly fault?: Message | string | undefined;
  /** In a foreign key: whether the text is a key that a page has shown, and not words, which may mean another record. */
  readonly isKey?: boolean | undefined;
}

/** The values of all fields of a form. */
export type TypedValues = ReadonlyMap<Column, Typed>;

/** The records that a foreign key can refer to, if the admin area shows their resource. */
export interface References {
  /** All records; undefined if there are too many for a list. */
  readonly options: readonly Named[] | undefined;
  /** The label of the chosen record, if there are no `options`. */
  readonly label: string | undefined;
}

/** What a field shows beside its value. */
export interface FieldState {
  /** The stored value of the record. */
  readonly before?: Typed | undefined;
  readonly errors?: readonly string[] | undefined;
  readonly references?: References | undefined;
  /** The escaped text, if it is long; see `renderLongTexts`. */
  readonly longText?: Html | undefined;
  /** Whether Markdown is shown below the field as it will look. */
  readonly isPreviewed?: boolean;
  /** Whether the field gets the focus when the page is loaded. */
  readonly hasFocus?: boolean | undefined;
}

/** Browsers remove line breaks from inputs other than a textarea. */
const LINE_BREAK = /[\r\n]/;
/** A column with a lower maximum length gets an input of just that width (characters). */
const LONG = 60;
/** Maximum height of a textarea (lines). */
const MAX_LINES = 20;
/** Maximum length of a number, date, time or choice (characters). */
const LONGEST_SHORT = 1000;
/** Maximum length of a foreign key (characters): PostgreSQL cannot index longer keys. */
const LONGEST_KEY = 8192;
/** Maximum length of JSON (characters): parsing more would block the event loop. */
const LONGEST_JSON = 1024 * 1024;

/** Says that a field has a key, whatever its value. */
const ANY_KEY = '*';
/** A key as a search field and its search page send it. */
export const markedKey = (key: string): string => `=${key}`;

const NULL: JsonField = { value: null, source: 'null' };

/** Whether the column holds free text, not one of a set of choices. `takesEmpty` says whether the text may be empty. */
const takesAnyText = ({ type, labels, choices }: Column): boolean =>
  type.operators.has('ilike') && !labels && !choices;

/** Whether a text column must not be empty: it is neither nullable nor has a default. */
const mustHaveText = (column: Column): boolean =>
  takesAnyText(column) && !column.nullable && !column.hasDefault;

/** The value of the option for NULL or the default. It differs from all choices, since one of them may be the empty text. */
function noChoice(column: Column): string {
  const texts = textsOf(column);
  let value = texts ? '(none)' : '';
  while (texts?.includes(value)) value = `(${value})`;
  return value;
}

/** The initial text on a new record; undefined if the database computes the default. */
function initialText({ initial, type }: Column): string | undefined {
  if (typeof initial !== 'string' || type.input.json === 'json') return JSON.stringify(initial);
  return isPresent(initial, type) ? undefined : initial;
}

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

const EXACT: Attributes = { spellcheck: 'false', autocapitalize: 'none' };
/**
 * The attributes of the inputs of widgets. Their type is `text`: with `type="email"` and others, browsers change values, or do not send
 * a form with a stored value that they find wrong.
 */
const INPUT_OF_WIDGET: Readonly<Partial<Record<Widget, Attributes>>> = {
  email: { ...EXACT, inputmode: 'email', autocomplete: 'off' },
  url: { ...EXACT, inputmode: 'url', autocomplete: 'off' },
  image: { ...EXACT, inputmode: 'url', autocomplete: 'off' },
  phone: { inputmode: 'tel', autocomplete: 'off' },
  color: { ...EXACT, autocomplete: 'off', size: 9, 'data-color': true },
  code: { ...EXACT, class: 'code', wrap: 'off' },
};

/** The `min` and `max` of a date or time input; none if the stored value is outside, or the browser would not send the form. */
function momentBoundsOf(column: Column, value: string): Attributes {
  const [min, max] = [column.earliest, column.latest].map((bound) => {
    if (bound === undefined || isRelative(bound)) return undefined;
    return (isDateTime(column) ? localText(bound).slice(0, 19) : bound).replace(' ', 'T');
  });
  const isBeyond = value !== '' && (value < (min ?? '') || value > (max ?? '~'));
  return isBeyond ? {} : { min, max };
}

/** The value of a date or time input; undefined if the input cannot hold the text. */
function dateTimeValue({ type }: Column, text: string): string | undefined {
  const { control } = type.input;
  if (text === '') return '';
  if (control === 'date') return /^\d{4}-\d\d-\d\d$/.test(text) ? text : undefined;
  if (control === 'time') return /^\d\d:\d\d(:\d\d)?$/.test(text) && text < '24' ? text : undefined;
  return /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?$/.test(text) ? text.replace(' ', 'T') : undefined;
}

/** How to type an array, and its choices. */
function arrayHint({ elementFacts, nullable, choiceLabels }: Column): string {
  if (!elementFacts) return '';
  const choices = textsOf(elementFacts)?.map((text) =>
    choiceLabels ? `${text} (${choiceLabels.get(text)})` : text,
  );
  const isOneOf = choices ? t('choicesAre', { choices: choices.join(', ') }) : '';
  const none = nullable ? t('emptyArray') : '';
  return [t('elementPerLine'), none, isOneOf].filter(Boolean).join(' ');
}

/** A value as its form shows it. */
export const shownTyped = (column: Column, { text, fault }: Typed): string =>
  fault === undefined ? shownText(column, text, pageWriting()) : text;

/** The field of a column in a form, of a new record or of a stored one. */
export class FormField {
  readonly column: Column;
  readonly isNew: boolean;
  /** The name of the control. A prefix distinguishes the fields of several records in one form. */
  readonly name: string;
  readonly id: string;
  readonly label: string;
  /** Whether it is a cell of a table, whose title has the name of the column. */
  readonly isInRow: boolean;
  /** The name of the checkbox that keeps a stored empty text. No column can have this name. */
  readonly emptyName: string;
  /** The name of the hidden field that says whether a foreign key is a key, `=KEY` or `*` for any. No column can have this name. */
  readonly keyName: string;
  /** Whether the column holds free text, which may be empty. */
  readonly takesAnyText: boolean;
  /** Whether the empty text is a valid value. */
  readonly takesEmpty: boolean;
  /** Whether an empty field of free text means NULL or the default, and not the empty text. */
  private readonly isNullIfEmpty: boolean;
  /** Whether a boolean is a checkbox. Otherwise it is a select, which can also be empty. */
  readonly isCheckbox: boolean;
  /** Whether an empty field of a new record gets a default that the form does not show. */
  readonly hidesDefault: boolean;
  /** Whether people type JSON, and not the lines of an array. */
  private readonly isJson: boolean;
  /** Maximum length of the value (characters). */
  readonly maxLength: number;

  /** @param row the name of the row in a table of several records: `Line 3` */
  constructor(column: Column, isNew: boolean, prefix = '', row?: string) {
    const { key, title, type, nullable, hasDefault, initial, references } = column;
    this.column = column;
    this.isNew = isNew;
    this.name = prefix + key;
    this.id = `field-${this.name}`;
    this.label = row === undefined ? title : `${row}, ${title}`;
    this.isInRow = row !== undefined;
    this.emptyName = `${this.name}__empty`;
    this.keyName = `${this.name}__key`;
    const texts = textsOf(column);
    this.takesAnyText = takesAnyText(column);
    this.takesEmpty = texts?.includes('') ?? (this.takesAnyText && !mustHaveText(column));
    this.isCheckbox =
      type.input.control === 'checkbox' && !nullable && !(isNew && hasDefault && initial === undefined);
    this.hidesDefault = isNew && hasDefault && initialText(column) === undefined;
    this.isNullIfEmpty = this.takesAnyText && (nullable || this.hidesDefault);
    this.isJson = type.input.json === 'json' && !type.element;
    const longest = type.input.json === 'json' ? LONGEST_JSON : type.long ? Infinity : LONGEST_SHORT;
    this.maxLength = references
      ? LONGEST_KEY
      : texts
        ? Math.max(LONGEST_SHORT, ...texts.map(({ length }) => length))
        : longest;
  }

  /** The value in a submitted form. */
  read(form: Form): Typed {
    const { column, name } = this;
    const sent = form.get(name) ?? '';
    // Browsers leave out a checkbox that is not ticked, so it comes before the choices.
    if (textsOf(column) && !this.isCheckbox) {
      const isNull = form.get(name) === undefined || sent === noChoice(column);
      return { text: isNull ? '' : withoutReturns(sent), isNull };
    }
    const ticked = this.isCheckbox ? String(sent === 'true') : sent;
    if (this.takesAnyText) {
      const isNull = this.isNullIfEmpty && form.get(this.emptyName) === undefined;
      return { text: withoutReturns(sent), isNull };
    }
    const trimmed = withoutReturns(ticked.trim());
    if (column.references) {
      const key = form.get(this.keyName);
      return { text: trimmed, isNull: trimmed === '', isKey: key === ANY_KEY || key === markedKey(trimmed) };
    }
    if (column.type.input.control === 'checkbox') return { text: trimmed, isNull: trimmed === '' };
    const writing = pageWriting();
    const reading = readText(column, trimmed, writing);
    const fault = faultOf(column, reading, writing);
    // Browsers write a T before a time, which people do not.
    const shown = isDateTime(column) ? trimmed.replace(/^(\d{4}-\d\d-\d\d)T/, '$1 ') : trimmed;
    if (fault !== undefined) return { text: shown, isNull: false, fault };
    const { text = trimmed } = reading;
    const isEmptyArray = text === '' && column.type.element && !column.nullable && !this.hidesDefault;
    return isEmptyArray ? { text: '[]', isNull: false } : { text, isNull: text === '' };
  }

  /** A text as the form shows it. */
  private shown(text: string): string {
    return this.isJson ? indentedJson(text) : text;
  }

  /** The value of a stored record; undefined for one that is too long for a form. */
  stored({ fields }: { readonly fields: JsonFields }): Typed | undefined {
    if (fields.has(sizeKey(this.column))) return undefined;
    const text = textOfColumn(fields, this.column);
    // Clearing a field means NULL, unless the stored value was the empty text.
    return { text: this.shown(text ?? ''), isNull: text !== '', isKey: true };
  }

  /** The value of a new record. @param given instead of the registry's default, if any; null for no value */
  initial(given: string | null | undefined): Typed {
    const text = given === undefined ? initialText(this.column) : (given ?? undefined);
    const isChosen = text !== undefined && textsOf(this.column) !== undefined;
    const isNull = !(text === '' && this.takesAnyText) && !isChosen;
    return { text: this.shown(text ?? ''), isNull, isKey: true };
  }

  /** A text that `read` takes for the same value, also in another time zone. */
  private sentAgain(typed: Typed): string {
    const { column } = this;
    if (typed.fault === undefined && isDateTime(column)) return withZone(typed.text);
    return column.type.element ? typed.text : shownTyped(column, typed);
  }

  /** Hidden fields that send this value again. */
  carried(typed: Typed): readonly (readonly [name: string, value: string])[] {
    const { text, isNull, isKey } = typed;
    const isEmptyText = text === '' && !isNull;
    return [
      [this.name, isNull && text === '' ? noChoice(this.column) : this.sentAgain(typed)],
      ...(isEmptyText ? [[this.emptyName, '1'] as const] : []),
      ...(this.column.references && isKey ? [[this.keyName, ANY_KEY] as const] : []),
    ];
  }

  /** Whether the field must have a value. A text that was empty before may stay empty. */
  isRequired(before: Typed | undefined): boolean {
    const { nullable, hasDefault, type } = this.column;
    if (nullable || type.element || this.isCheckbox) return false;
    if (this.isNew) return !hasDefault || !(this.hidesDefault || this.takesEmpty);
    return !this.takesAnyText || (mustHaveText(this.column) && before?.text !== '');
  }

  /** Whether the field is left empty: it means NULL, or the default. */
  isEmpty({ text, isNull }: Typed): boolean {
    return text === '' && (isNull || !this.takesEmpty);
  }

  /** The JSON value of what was typed, or its fault. */
  async json(typed: Typed): Promise<JsonField | { readonly fault: Message | string }> {
    const { column, maxLength } = this;
    const { text, fault } = typed;
    // `boundedForm` may already have truncated it.
    if (text.length > maxLength) return { fault: t('tooLongHere', { max: maxLength }) };
    if (fault !== undefined) return { fault };
    if (this.isEmpty(typed)) return column.nullable ? NULL : { fault: messageOf('required') };
    if (column.type.element && !text.startsWith('[')) return { fault: TOO_MANY_ELEMENTS };
    if (column.references && column.type.parse(text, column).fault !== undefined)
      return { fault: t('chooseOneRecord') };
    return jsonFieldInTurns(column, text);
  }

  /** The hint, or an empty text: the registry's help text, the meaning of an empty field, the time zone. */
  private get hint(): string {
    const { column, isNew } = this;
    const isNow = isPresent(column.initial, column.type);
    const left = !isNew || !column.hasDefault || column.type.input.control === 'checkbox';
    const empty = isNow ? t('emptyMeansNow') : column.initial === undefined ? t('emptyMeansDefault') : '';
    const { input } = column.type.element ?? column.type;
    const zone = input.control === 'datetime-local' ? t('inZone', { zone: timeZone() }) : '';
    return [column.help, arrayHint(column), left ? '' : empty, zone].filter(Boolean).join(' ');
  }

  private parts({ errors, before }: FieldState) {
    const { isInRow } = this;
    const isRequired = this.isRequired(before);
    return { hint: isInRow ? '' : this.hint, errors, isRequired, isLabelHidden: isInRow };
  }

  /** A select. A stored value that is not among the options is added, so that saving does not change it. */
  private select(
    typed: Typed,
    options: readonly (readonly [value: string, text: string])[],
    common: Html,
  ): Html {
    const { column, isNew, hidesDefault } = this;
    const none = noChoice(column);
    const isNone = typed.text === '' && (typed.isNull || none === '');
    const isOpen = column.nullable || isNone || (isNew && (hidesDefault || !column.hasDefault));
    const isKnown = isNone || options.some(([value]) => value === typed.text);
    const all = isKnown ? options : [...options, [typed.text, typed.text] as const];
    return html`<select${common}>
      ${isOpen && html`<option value="${none}">${hidesDefault ? t('theDefault') : column.nullable ? t('noValue') : '–'}</option>`}
      ${all.map(([value, text]) => html`<option value="${value}" ${attributes({ selected: !isNone && value === typed.text })}>${text === '' ? t('emptyText') : text}</option>`)}
    </select>`;
  }

  /** The link to the record that a select has chosen; hidden where there is none. The script keeps it up to date. */
  private openLink({ text }: Typed, options: readonly (readonly [key: string, label: string])[]): Html {
    const model = this.column.references?.name ?? '';
    const label = options.find(([key]) => key === text)?.[1];
    const isShown = label !== undefined && hasAddress(text);
    const state = attributes({
      href: isShown && links.record(model, text),
      'aria-label': isShown && t('openOne', { label }),
      hidden: !isShown,
      'data-open': links.action(model, 'lookup'),
    });
    return html`<a${state}>${t('open')}</a>`;
  }

  /** A search for the related record: suggestions with the script, a separate page without it. */
  private reference(typed: Typed, { before, references }: FieldState, common: Html): Html {
    const { column, name, label } = this;
    const model = column.references?.name ?? '';
    return html`<div class="reference" data-lookup="${links.action(model, 'lookup')}">
      <input${common}
        value="${typed.text}"
        autocomplete="off"
        ${attributes({ 'data-stored': typed.isKey && before?.text === typed.text })}
      />
      <input type="hidden" name="${this.keyName}" value="${typed.isKey && markedKey(typed.text)}" />
      <span class="reference-label"
        >${references?.label !== undefined && html`<a href="${links.record(model, typed.text)}">${references.label}</a>`}</span
      >
      <button
        class="secondary"
        name="_lookup"
        value="${name}"
        formnovalidate
        aria-label="${t('searchIn', { title: label })}"
      >
        ${t('searchMore')}
      </button>
    </div>`;
  }

  /** The control, by the type of the column. */
  private control(typed: Typed, state: FieldState): Html {
    const { column } = this;
    const { references, longText } = state;
    const { widget } = column;
    const isBlock = widget === 'markdown' || widget === 'code';
    const control = isBlock ? 'textarea' : widget ? 'text' : column.type.input.control;
    const own = controlAttributes(this.id, this.name, this.parts(state));
    const common = attributes({ ...own, autofocus: state.hasFocus });
    if (this.isCheckbox)
      return html`<input${common}
        type="checkbox"
        value="true"
        ${attributes({ checked: typed.text === 'true' })}
      />`;
    const yesOrNo = [['true', choiceLabel(column, 'true', t('yes'))], ['false', choiceLabel(column, 'false', t('no'))]] as const; // prettier-ignore
    if (control === 'checkbox') return this.select(typed, yesOrNo, common);
    const texts = textsOf(column);
    const writing = pageWriting();
    const labelOf = (text: string): string => choiceLabel(column, text, shownText(column, text, writing));
    if (texts)
      return this.select(
        typed,
        texts.map((text) => [text, labelOf(text)]),
        common,
      );
    const hasBreaks = LINE_BREAK.test(typed.text);
    if (references?.options) {
      const options = references.options.map(({ id: key, label }) => [key, label] as const);
      return html`${this.select(typed, options, common)} ${!this.isInRow && this.openLink(typed, options)}
        <input type="hidden" name="${this.keyName}" value="${ANY_KEY}" />`;
    }
    if (references && !hasBreaks) return this.reference(typed, state, common);
    const text = shownTyped(column, typed);
    const lines = text.split('\n', MAX_LINES).length;
    if (control === 'textarea' || (control === 'text' && (hasBreaks || typed.text.length > 500))) {
      const isCode = column.type.input.json === 'json';
      const least = this.isInRow ? 2 : isCode ? 3 : 4;
      const kind = isCode ? { class: 'code', spellcheck: 'false' } : widget && INPUT_OF_WIDGET[widget];
      // HTML parsers drop the first line break of a textarea, so one is added.
      return html`<textarea${common} rows="${Math.min(MAX_LINES, Math.max(least, lines + 1))}"${attributes(kind ?? {})}>${'\n'}${longText ?? text}</textarea>`;
    }
    if (control === 'date' || control === 'time' || control === 'datetime-local') {
      // Only a text input takes an offset.
      const value = typed.fault === undefined ? dateTimeValue(column, text) : undefined;
      const step = control === 'date' ? undefined : 1;
      if (value !== undefined)
        return html`<input${common}
          type="${control}"
          value="${value}"
          ${attributes({ step, ...momentBoundsOf(column, value) })}
        />`;
    }
    const isShort = (column.maxLength ?? LONG) < LONG;
    // An input of the type `number` reads numbers in the language of the browser, which may not be that of the page.
    const keys = control === 'number' && {
      inputmode: isWhole(column) ? 'numeric' : 'decimal',
      autocomplete: 'off',
    };
    return html`<input${common}
      type="text"
      value="${longText ?? text}"
      ${attributes({ size: isShort ? column.maxLength : undefined, ...keys, ...(widget && INPUT_OF_WIDGET[widget]) })}
    />`;
  }

  /** What a widget adds to the control: the color, the image, the link to an address, the preview. */
  private addition({ text }: Typed, { isPreviewed }: FieldState): Html | false | undefined {
    const { column, name, label } = this;
    const address = column.widget === 'url' ? webAddress(text) : undefined;
    if (address !== undefined) return outerLink(address, t('open'));
    if (column.widget !== 'markdown') return pictureOf(column, text);
    const region = t('previewOf', { label });
    return html`<button
        class="secondary"
        name="_preview"
        value="${name}"
        formnovalidate
        aria-label="${t('previewOne', { label })}"
      >
        ${t('preview')}
      </button>
      ${
        isPreviewed &&
        html`<div class="preview" role="region" aria-label="${region}" tabindex="-1" autofocus>
          ${renderMarkdown(text)}
          ${text.length > LONGEST_RENDERED && html`<p class="hint">${t('previewEnds', { count: LONGEST_RENDERED })}</p>`}
        </div>`
      }`;
  }

  /** The field with its label, hints and errors. */
  render(typed: Typed, state: FieldState = {}): Html {
    const { label } = this;
    const isEmptyText = (value: Typed | undefined): boolean => value?.text === '' && !value.isNull;
    // A screen reader reads the checkbox without the label of the field above it.
    const box = attributes({
      checked: isEmptyText(typed),
      'aria-label': t('labeled', { label, value: t('emptyMeansText') }),
    });
    const emptyBox =
      this.isNullIfEmpty &&
      [typed, state.before].some(isEmptyText) &&
      html`<label class="check"
        ><input type="checkbox" name="${this.emptyName}" value="1" ${box} /> ${t('emptyMeansText')}</label
      >`;
    return labeledField(
      this.id,
      label,
      html`${this.control(typed, state)} ${this.addition(typed, state)} ${emptyBox}`,
      this.parts(state),
    );
  }

  /** A value that can no longer be saved, to copy. */
  renderCopy(typed: Typed, longText: Html | undefined): Html {
    const { column, id, label } = this;
    const shown = shownTyped(column, typed);
    const state = attributes({ id, rows: shown.split('\n', MAX_LINES).length, readonly: true });
    return labeledField(id, label, html`<textarea${state}>${'\n'}${longText ?? shown}</textarea>`);
  }
}

/** The columns that have a field. The primary key has one only on a new record, and only if clients choose it. */
export function editableColumns(
  { model, output, readonly, settable }: AdminView,
  isNew: boolean,
): readonly Column[] {
  const ownKey = isNew && hasNaturalKey(model);
  const set = isNew ? settable.create : settable.update;
  return output.filter((column) =>
    column === model.primaryKey
      ? ownKey
      : !readonly.has(column) && set.has(column) && (isNew || !isKeyPart(model, column)),
  );
}

/** The fields of a record's form. */
export const fieldsOf = (resource: AdminView, isNew: boolean): readonly FormField[] =>
  editableColumns(resource, isNew).map((column) => new FormField(column, isNew));

/** The values of fields: those for which the function returns one. */
export const valuesOf = (
  fields: readonly FormField[],
  valueOf: (field: FormField) => Typed | undefined,
): TypedValues =>
  new Map(
    fields.flatMap((field) => {
      const value = valueOf(field);
      return value ? [[field.column, value] as const] : [];
    }),
  );

/** Whether two values are equal, apart from the kind of line breaks, which browsers do not keep. */
export function isSame(one: Typed | undefined, other: Typed | undefined): boolean {
  if (!one || !other) return one === other;
  if (one.fault !== undefined || other.fault !== undefined) return false;
  const isOneNull = one.isNull && one.text === '';
  const isOtherNull = other.isNull && other.text === '';
  return isOneNull === isOtherNull && withoutReturns(one.text) === withoutReturns(other.text);
}

/** A short digest of a value, by which a later request can tell whether it has changed. */
export const digestOf = ({ text, isNull, fault }: Typed): string =>
  createHash('sha256')
    .update(isNull && text === '' ? 'null' : `${fault ? 'fault' : 'text'} ${withoutReturns(text)}`)
    .digest('base64url')
    .slice(0, 12);

/** Maximum length of a control field such as `_list` (characters): above the longest query of a list. */
const LONGEST_CONTROL_FIELD = 16_384;
/** Characters per column in control fields that name columns. */
const LONGEST_NAMED = 80;
/** Characters of all control fields, besides two for each column. */
const LONGEST_CONTROL_FIELDS = 65_536;
/** The fields that say which record a row is (`_id` after `order_line.0.`), and how many rows there are (`_rows`). */
const ROW_CONTROL = /^\w+\.(?:\d{1,3}\.)?_(?:id|version|origin|delete|rows)$/;

/**
 * Keeps these fields and truncates long values, to one character more than they accept. JSON is not
 * truncated, so that the user does not lose it.
 * @throws Problem 400 for a control field that is too long, and for too many of them
 */
export function boundedForm(form: Form, fields: readonly FormField[]): Form {
  const byName = new Map(fields.map((field) => [field.name, field]));
  const emptyBoxes = new Set(fields.map(({ emptyName }) => emptyName));
  const keys = new Set(fields.map(({ keyName }) => keyName));
  const longest = Math.max(LONGEST_CONTROL_FIELD, fields.length * LONGEST_NAMED);
  let left = LONGEST_CONTROL_FIELDS + 2 * fields.length * LONGEST_NAMED;
  const entries = form.entries.flatMap(([name, value]) => {
    if (name.startsWith('_') || ROW_CONTROL.test(name)) {
      if (value.length > longest)
        throw new Problem(
          400,
          t('fieldTooLong', { name: name.slice(0, 100), max: longest, got: value.length }),
        );
      // `readChoice` limits the keys of selected records.
      if (name !== '_id') left -= name.length + value.length;
      if (left < 0) throw new Problem(400, t('tooManyControlFields'));
      return [[name, value] as const];
    }
    if (emptyBoxes.has(name)) return [[name, '1'] as const];
    if (keys.has(name)) return [[name, value.slice(0, LONGEST_KEY + 2).toWellFormed()] as const];
    const field = byName.get(name);
    if (!field) return [];
    const { maxLength: max } = field;
    const isTruncated = value.length > max && max < LONGEST_JSON;
    return [[name, isTruncated ? value.slice(0, max + 1).toWellFormed() : value] as const];
  });
  return createForm(entries);
}
