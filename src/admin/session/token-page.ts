// The page that makes a token of the API for the own user, and the buttons that revoke one.
import { Problem, addError, notFound, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { messageOf } from '../../messages.ts';
import { checkText } from '../../db/types/json-values.ts';
import { ADMIN, accessOf } from '../../resources/access/access.ts';
import { allowedIn } from '../../resources/access/who-may.ts';
import { METHODS } from '../../resources/definition/resource.ts';
import { DEFAULT_DAYS, MAX_LABEL, MAX_TOKENS, expiryAfter, readScope } from '../../resources/users/tokens.ts';
import { saveOnce, submitOnceField } from '../web/submit-once.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone, redirectFailed } from '../web/admin-request.ts';
import type { Form } from '../web/form-data.ts';
import { attributes, html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { controlAttributes, labeledField } from '../web/widgets.ts';
import { shownOnce } from './account-page.ts';
import type { Action } from './action.ts';

const LABELS = { label: 'Label', resources: 'Resources', methods: 'Methods' };
const DAYS: readonly number[] = [30, DEFAULT_DAYS, 365];

const checkboxes = (name: 'resources' | 'methods', values: readonly string[], sent: Form | undefined): Html =>
  html`<div class="field" id="field-${name}" role="group" aria-labelledby="${name}-label" aria-describedby="${name}-hint">
    <span class="label" id="${name}-label">${LABELS[name]}</span>
    <div class="control">
      ${values.map((value) => html`<label class="check"><input type="checkbox" name="${name}" value="${value}" ${attributes({ checked: sent?.all(name).includes(value) })} /> ${value}</label>`)}
    </div>
    <p class="hint" id="${name}-hint">None selected: all ${name}.</p>
  </div>`; // prettier-ignore

function tokenFields({ views, caller }: AdminContext, errors: FieldErrors, sent: Form | undefined): Html {
  // The caller may do something with these in the API.
  const named = [...views(accessOf(caller))].flatMap(([name, view]) => (allowedIn(view) ? [name] : []));
  const days = sent?.get('expires') ?? String(DEFAULT_DAYS);
  const option = (value: string, text: string): Html =>
    html`<option value="${value}" ${attributes({ selected: value === days })}>${text}</option>`;
  const label = { hint: 'What the token is for.', errors: errors['label'] };
  const input = {
    ...controlAttributes('field-label', 'label', label),
    value: sent?.get('label'),
    maxlength: MAX_LABEL,
  };
  const expires = html`<select id="field-expires" name="expires">
    ${DAYS.map((count) => option(String(count), `after ${count} days`))} ${option('never', 'never')}
  </select>`;
  return html`${submitOnceField(sent)} ${labeledField('field-label', LABELS.label, html`<input${attributes(input)} />`, label)}
    ${checkboxes('resources', named, sent)} ${checkboxes('methods', METHODS, sent)}
    ${labeledField('field-expires', 'Expires', expires)}`; // prettier-ignore
}

/** Makes a token, or revokes one of the caller. @throws Problem 404 if the database has no table for tokens */
export function ownTokens(context: AdminContext): Action {
  const { tokens, caller, views, report } = context;
  if (!tokens) throw notFound('There is no such page.');
  const back = { text: 'Your account', href: links.page('account') };
  const crumbs = [back, 'Add a token'];
  const read = (form: Form) => {
    const errors: FieldErrors = {};
    const named = (name: string): readonly string[] | undefined =>
      form.all(name).length > 0 ? form.all(name) : undefined;
    const scope = readScope(named('resources'), named('methods'), (name) => views(ADMIN).has(name), errors);
    const label = checkText(form.get('label') ?? '', { maxLength: MAX_LABEL });
    if (label.fault !== undefined) addError(errors, 'label', label.fault);
    const given = form.get('expires');
    const days = DAYS.find((count) => String(count) === given);
    if (days === undefined && given !== 'never') addError(errors, 'expires', 'is not one of the choices');
    const expires = given === 'never' ? null : expiryAfter(days);
    return { errors, facts: { label: label.value ?? '', scope, expires } };
  };
  return {
    page: ({ errors }, sent) => ({
      title: 'Add a token',
      crumbs,
      address: links.page('tokens'),
      fields: tokenFields(context, errors, sent),
      button: 'Add token',
      back,
      labels: LABELS,
      around: (form) =>
        html`<p>A program sends a token instead of your user name and password. It may do what you may, and no more than is selected here.</p>
          ${form}`, // prettier-ignore
    }),

    check(form) {
      const id = form.get('_revoke');
      if (id !== undefined) return revoke(context, id, caller.id, links.page('account'));
      const { errors } = read(form);
      return Object.keys(errors).length > 0 ? { errors, status: 400 } : undefined;
    },

    needs: () => ({ password: 'Required to make a token.' }),

    async run(form) {
      let token: string | undefined;
      await saveOnce(context, form, async (_, transaction) => {
        const made = await tokens.add(caller.id, read(form).facts, transaction.run);
        if (!made) throw new Problem(409, messageOf('tooManyTokens', { max: MAX_TOKENS }));
        token = made.token;
        void report('token.made', { token: made.id });
        return made;
      });
      const body = html`${
          token === undefined
            ? html`<p class="lead">
                This form was sent twice. The token was made the first time, and it cannot be shown again:
                revoke it, and add another.
              </p>`
            : html`<p class="lead">Copy the token now: it cannot be shown again.</p>
                ${shownOnce('Token', token)}`
        }
        <p><a class="button" href="${links.page('account')}">Back to your account</a></p>`;
      return pageReply(context, { title: 'Your new token', crumbs, kind: 'form', body });
    },
  };
}

/** Revokes a token of a user, and redirects to the page. */
export async function revoke(
  context: AdminContext,
  id: string,
  userId: string,
  page: string,
): Promise<Reply> {
  const { tokens, report } = context;
  const isRevoked = await tokens?.revoke(id, userId);
  if (isRevoked) void report('token.revoked', { token: id });
  return isRevoked
    ? redirectDone(context, page, 'The token was revoked.')
    : redirectFailed(context, page, 'There is no such token. It may have been revoked before.');
}
