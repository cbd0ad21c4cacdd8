import type { FieldErrors } from '../../errors.ts';
import { html, type Html } from './html.ts';

const PASSWORDS = {
  _current: { label: 'Your current password', autocomplete: 'current-password' },
  _password: { label: 'New password', autocomplete: 'new-password' },
  _repeat: { label: 'New password, again', autocomplete: 'new-password' },
};

/** What the fields for passwords are named on their pages. */
export const PASSWORD_LABELS = Object.fromEntries(
  Object.entries(PASSWORDS).map(([name, { label }]) => [name, label]),
);

/** The messages of one field; its control refers to them by `aria-describedby`. */
export const fieldErrors = (id: string, messages: readonly string[] | undefined): Html | false =>
  messages !== undefined &&
  messages.length > 0 &&
  html`<p class="error" id="${id}-error">
    ${messages.map((message) => html`<span>${sentence(message)}</span> `)}
  </p>`;

/** `must be a number` as a sentence of its own. */
export const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

/**
 * All errors of a form with links to their fields, read out when the page comes.
 * @param labels what each field is called; fields without one have no control to go to
 */
export function errorSummary(errors: FieldErrors, labels: Readonly<Record<string, string>>): Html {
  // In the order in which the fields stand in the form.
  const order = Object.keys(labels);
  const at = ([field]: readonly [string, unknown]): number =>
    order.includes(field) ? order.indexOf(field) : order.length;
  const entries = Object.entries(errors).sort((one, other) => at(one) - at(other));
  const item = ([field, messages]: [string, string[]]): Html => {
    const label = Object.hasOwn(labels, field) ? labels[field] : undefined;
    const text = messages.join('; ');
    return label === undefined
      ? html`<li>${field}: ${text}</li>`
      : html`<li><a href="#field-${field}">${label}</a>: ${text}</li>`;
  };
  return html`<div class="error-summary" role="alert" tabindex="-1" id="errors">
    <h2>
      ${entries.length === 1 ? 'One field needs another look' : `${entries.length} fields need another look`}
    </h2>
    <ul>
      ${entries.map(item)}
    </ul>
  </div>`;
}

/**
 * Fields for typing passwords, which never come with a value.
 * @param options whether the form cannot do without, and a hint for the new password
 */
export const passwordFields = (
  names: readonly (keyof typeof PASSWORDS)[],
  errors: FieldErrors,
  { isRequired = true, hint: newHint = '' }: { readonly isRequired?: boolean; readonly hint?: string } = {},
): Html =>
  html`${names.map((name) => {
    const { label, autocomplete } = PASSWORDS[name];
    const hint = name === '_password' ? newHint : '';
    const id = `field-${name}`;
    const described = [hint && `${id}-hint`, errors[name] && `${id}-error`].filter(Boolean).join(' ');
    return html`<div class="field">
      <label for="${id}"
        >${label} ${isRequired && html`<span class="required" aria-hidden="true">*</span>`}</label
      >
      <input
        id="${id}"
        name="${name}"
        type="password"
        autocomplete="${autocomplete}"
        ${isRequired && html`aria-required="true"`}${errors[name] && html` aria-invalid="true"`}${described && html` aria-describedby="${described}"`}
      />
      ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`} ${fieldErrors(id, errors[name])}
    </div>`;
  })}`;
