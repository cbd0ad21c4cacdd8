// Parts that several pages share: field errors, the error summary, fields for passwords and codes, tables.
import type { FieldErrors } from '../../errors.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { Link } from './admin-links.ts';
import { capitalized } from './display-text.ts';
import type { PasswordField } from './form-data.ts';
import { phrase, separated, t } from './language.ts';
import { attributes, html, type Attributes, type Content, type Html } from './html.ts';

const PASSWORDS = {
  _current: { label: 'currentPassword', autocomplete: 'current-password' },
  _password: { label: 'newPassword', autocomplete: 'new-password' },
  _repeat: { label: 'newPasswordAgain', autocomplete: 'new-password' },
  _code: { label: 'secondFactorCode', autocomplete: 'one-time-code' },
} as const satisfies Record<PasswordField, object>;

/** The labels of the fields for passwords and codes, by field name. */
const passwordLabels = (): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(PASSWORDS).map(([name, { label }]) => [name, t(label)]));

/** What a field shows below its control. */
interface FieldParts {
  readonly hint?: Content;
  readonly errors?: readonly string[] | undefined;
  readonly isRequired?: boolean;
  /** Whether only screen readers get the label, because a table has it as a title. */
  readonly isLabelHidden?: boolean;
}

const isFaulty = ({ errors = [] }: FieldParts): boolean => errors.length > 0;

/** The attributes of a control that refer to the parts of its field. */
export function controlAttributes(id: string, name: string, parts: FieldParts): Attributes {
  const described = [parts.hint && `${id}-hint`, isFaulty(parts) && `${id}-error`].filter(Boolean).join(' ');
  return {
    id,
    name,
    // No `required`: the browser would stop at the first empty field, while the service reports all errors at once. Only the
    // browser can reject half a date, which it would send as an empty value, so the form is not `novalidate`. No `maxlength`: it
    // counts UTF-16 units, two for an emoji, and cuts pasted text without a message.
    'aria-required': parts.isRequired && 'true',
    'aria-invalid': isFaulty(parts) && 'true',
    'aria-describedby': described === '' ? undefined : described,
  };
}

/** A field of a form: its label, its control, a hint and errors. */
export const labeledField = (id: string, label: Content, control: Content, parts: FieldParts = {}): Html =>
  html`<div class="${isFaulty(parts) ? 'field faulty' : 'field'}">
    <label for="${id}" ${attributes({ class: parts.isLabelHidden && 'hidden' })}
      >${label}${parts.isRequired && html` <span class="required" title="${t('required')}" aria-hidden="true">*</span>`}</label
    >
    <div class="control">
      ${control} ${parts.hint && html`<p class="hint" id="${id}-hint">${parts.hint}</p>`}
      ${
        isFaulty(parts) &&
        html`<p class="error" id="${id}-error">
          ${parts.errors?.map((message) => html`<span>${sentence(message)}</span> `)}
        </p>`
      }
    </div>
  </div>`;

/** A field with an input. @param control what the input has besides its name and the parts of the field */
export const inputField = (
  name: string,
  label: string,
  control: Attributes,
  parts: FieldParts = {},
): Html => {
  const id = `field-${name}`;
  const input = { ...controlAttributes(id, name, parts), ...control };
  return labeledField(id, label, html`<input${attributes(input)} />`, parts);
};

/** A field that chooses one of several options. */
export const choiceField = (
  name: string,
  label: string,
  options: readonly (readonly [value: string, text: string, lang?: string])[],
  chosen: string,
  hint?: string,
): Html => {
  const id = `field-${name}`;
  const option = ([value, text, lang]: (typeof options)[number]): Html =>
    html`<option${attributes({ value, lang, selected: value === chosen })}>${text}</option>`;
  const select = attributes(controlAttributes(id, name, { hint }));
  return labeledField(id, label, html`<select${select}>${options.map(option)}</select>`, { hint });
};

/** Turns `must be a number` into `Must be a number.` */
export const sentence = (text: string): string => `${capitalized(text)}${/[.!?]$/.test(text) ? '' : '.'}`;

/**
 * All errors of a form with links to their fields; false if there are none. A screen reader reads it when the page loads.
 * @param others the labels of the other fields than those for passwords, in the order of the form; a field without a label gets no link
 */
export function errorSummary(
  errors: FieldErrors,
  others: Readonly<Record<string, string>> = {},
): Html | false {
  const labels = { ...others, ...passwordLabels() };
  const order = Object.keys(labels);
  const position = ([field]: readonly [string, unknown]): number =>
    order.includes(field) ? order.indexOf(field) : order.length;
  const entries = Object.entries(errors).sort((one, other) => position(one) - position(other));
  const item = ([field, messages]: [string, string[]]): Html => {
    const label = Object.hasOwn(labels, field) ? labels[field] : undefined;
    const named = label === undefined ? field : html`<a href="#field-${field}">${label}</a>`;
    return html`<li>${phrase('labeled', { label: named, value: separated(messages) })}</li>`;
  };
  return (
    entries.length > 0 &&
    html`<div class="error-summary" role="alert" tabindex="-1" id="errors">
      <h2>${t('fieldsHaveErrors', { count: entries.length })}</h2>
      <ul>
        ${entries.map(item)}
      </ul>
    </div>`
  );
}

/**
 * Fields for passwords and codes. They are always empty when a page loads.
 * @param options whether the fields are required, and hints for the new password and the code
 */
export const passwordFields = (
  names: readonly PasswordField[],
  errors: FieldErrors,
  {
    isRequired = true,
    hint: newHint = '',
    codeHint = t('codeHint'),
  }: { readonly isRequired?: boolean; readonly hint?: string; readonly codeHint?: string } = {},
): Html =>
  html`${names.map((name) => {
    const { label, autocomplete } = PASSWORDS[name];
    // A code is shown as it is typed.
    const control =
      name === '_code'
        ? { type: 'text', autocomplete, inputmode: 'numeric' }
        : { type: 'password', autocomplete };
    const hint = { _password: newHint, _code: codeHint, _current: '', _repeat: '' }[name];
    return inputField(name, t(label), control, { hint, errors: errors[name], isRequired });
  })}`;

/**
 * A table whose first cells are the headings of their rows. In narrow windows each cell shows the title of its column.
 * @param options which columns are right-aligned as numbers, and classes of the table and of its rows
 */
export function table(
  titles: readonly string[],
  rows: readonly (readonly Content[])[],
  options: {
    readonly numeric?: readonly boolean[];
    readonly labelledBy?: string;
    readonly className?: string;
    readonly rowClass?: string;
  } = {},
): Html {
  const { numeric = [], labelledBy, className = 'records', rowClass } = options;
  const classes = titles.map((_, at) => numeric[at] === true && 'number');
  const cell = (content: Content, at: number): Html => {
    const row = { class: classes[at], 'data-label': titles[at] };
    return at === 0
      ? html`<th${attributes({ scope: 'row', ...row })}>${content}</th>`
      : html`<td${attributes(row)}>${content}</td>`;
  };
  return html`<table${attributes({ class: className, 'aria-labelledby': labelledBy })}>
    <thead>
      <tr>
        ${titles.map((title, at) => html`<th${attributes({ scope: 'col', class: classes[at] })}>${title}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (cells) =>
          html`<tr${attributes({ class: rowClass })}>
            ${cells.map(cell)}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** A checkbox with its label after it. */
export const checkbox = (given: Attributes, label: Content): Html =>
  html`<label class="check"><input${attributes({ type: 'checkbox', ...given })} /> ${label}</label>`;

/** The options of a select. */
export const options = (all: readonly (readonly [value: string, text: string])[], chosen?: string): Html =>
  html`${all.map(([value, text]) => html`<option${attributes({ value, selected: value === chosen })}>${text}</option>`)}`;

/** The messages of one field; undefined for a field without errors. */
export const messagesOf = (errors: FieldErrors, name: string): readonly string[] | undefined =>
  Object.hasOwn(errors, name) ? errors[name] : undefined;

/** A link that takes something away, such as a filter. */
export const removeLink = (href: string, label: string): Html =>
  html`<a href="${href}" class="remove" aria-label="${label}">×</a>`;

/** A list item for a parameter of the address, with its errors. */
export const chip = (content: Content, messages: readonly string[] | undefined, remove: Html | false): Html =>
  html`<li class="${messages ? 'chip faulty' : 'chip'}">
    <span>${content}${messages && html` <span class="error">${separated(messages)}</span>`}</span> ${remove}
  </li>`;

/** A link to a record, and the title of its resource. */
export interface RecordLink extends Link {
  readonly of: string;
}

/** A list of records, each with the title of its resource. */
export const recordLinks = (records: readonly RecordLink[]): Html =>
  html`<ul class="choices">
    ${records.map(
      ({ text, href, of }) => html`<li><a href="${href}">${text}</a> <span class="key">${of}</span></li>`,
    )}
  </ul>`;

/** A table row for a resource: its link, a number of its records, and a link that adds one. */
export const resourceRow = ({ title, may }: AdminView, link: Content, count: string, add: string): Html =>
  html`<tr>
    <th scope="row">${link}</th>
    <td class="number">${count}</td>
    <td>${may.has('add') && html`<a href="${add}" aria-label="${t('addTo', { title })}">${t('add')}</a>`}</td>
  </tr>`;
