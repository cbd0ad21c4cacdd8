// The page that makes a token of the API for the own user, and the buttons that revoke one.
import { addError, notFound, Problem, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { messageOf } from '../../messages.ts';
import { checkText } from '../../db/types/json-values.ts';
import { accessOf, ADMIN } from '../../resources/access/access.ts';
import { allowedIn } from '../../resources/access/who-may.ts';
import { METHODS } from '../../resources/definition/resource.ts';
import { factsOf } from '../../resources/users/events.ts';
import { DEFAULT_DAYS, expiryAfter, MAX_LABEL, MAX_TOKENS, readScope } from '../../resources/users/tokens.ts';
import { addOnce, submitOnceField } from '../web/submit-once.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone, redirectFailed } from '../web/admin-request.ts';
import type { Form } from '../web/form-data.ts';
import { attributes, html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { errorSummary, fieldErrors, PASSWORD_LABELS } from '../web/widgets.ts';
import { shownOnce } from './account-sections.ts';
import { confirmationField, confirmCaller, type ConfirmationRefusal } from './password-confirmation.ts';

const LABELS = { label: 'Label', resources: 'Resources', methods: 'Methods', ...PASSWORD_LABELS };
const DAYS: readonly number[] = [30, DEFAULT_DAYS, 365];
const crumbs = (): { text: string; href?: string }[] => [
  { text: 'Your account', href: links.account },
  { text: 'Add a token' },
];

/** The names of the resources with which the caller may do something in the API. */
const resourceNames = ({ views, caller }: AdminContext): string[] =>
  [...views(accessOf(caller))].flatMap(([name, view]) => (allowedIn(view) ? [name] : []));

const checkboxes = (name: 'resources' | 'methods', values: readonly string[], sent: Form | undefined): Html =>
  html`<div class="field" id="field-${name}" role="group" aria-labelledby="${name}-label" aria-describedby="${name}-hint">
    <span class="label" id="${name}-label">${LABELS[name]}</span>
    <div class="control">
      ${values.map((value) => html`<label class="check"><input type="checkbox" name="${name}" value="${value}" ${attributes({ checked: sent?.all(name).includes(value) })} /> ${value}</label>`)}
    </div>
    <p class="hint" id="${name}-hint">None selected: all ${name}.</p>
  </div>`; // prettier-ignore

/** @param sent the form, when it is shown again */
export function showNewToken(
  context: AdminContext,
  { errors, status, headers }: ConfirmationRefusal = { errors: {}, status: 200 },
  sent?: Form,
): Reply {
  if (!context.tokens) throw notFound('There is no such page.');
  const days = sent?.get('expires') ?? String(DEFAULT_DAYS);
  const option = (value: string, text: string): Html =>
    html`<option value="${value}" ${attributes({ selected: value === days })}>${text}</option>`;
  const body = html`${errorSummary(errors, LABELS)}
    <p>A program sends a token instead of your user name and password. It may do what you may, and no more than is selected here.</p>
    <form method="post" action="${links.tokens}" class="record">
      <input type="hidden" name="_csrf" value="${context.csrf}" />
      ${submitOnceField(sent)}
      <div class="field">
        <label for="field-label">Label</label>
        <input id="field-label" name="label" value="${sent?.get('label')}" maxlength="${MAX_LABEL}" aria-describedby="label-hint" />
        <p class="hint" id="label-hint">What the token is for.</p>
        ${fieldErrors('field-label', errors['label'])}
      </div>
      ${checkboxes('resources', resourceNames(context), sent)} ${checkboxes('methods', METHODS, sent)}
      <div class="field">
        <label for="field-expires">Expires</label>
        <div class="control"><select id="field-expires" name="expires">
          ${DAYS.map((count) => option(String(count), `after ${count} days`))} ${option('never', 'never')}
        </select></div>
      </div>
      ${confirmationField(context, errors, 'Required to make a token.', true)}
      <div class="buttons">
        <button class="primary">Add token</button> <a class="button" href="${links.account}">Cancel</a>
      </div>
    </form>`; // prettier-ignore
  return pageReply(context, { title: 'Add a token', crumbs: crumbs(), kind: 'form', status, body }, headers);
}

async function makeToken(context: AdminContext, form: Form): Promise<Reply> {
  const { tokens, caller, views, request, recordEvent } = context;
  const errors: FieldErrors = {};
  const named = (name: string): readonly string[] | undefined =>
    form.all(name).length > 0 ? form.all(name) : undefined;
  const scope = readScope(named('resources'), named('methods'), (name) => views(ADMIN).has(name), errors);
  const label = checkText(form.get('label') ?? '', { maxLength: MAX_LABEL });
  if (label.fault !== undefined) addError(errors, 'label', label.fault);
  const refusal = await confirmCaller(context, form);
  if (refusal || Object.keys(errors).length > 0) {
    const all = { ...errors, ...refusal?.errors };
    return showNewToken(context, { status: 400, ...refusal, errors: all }, form);
  }
  const days = DAYS.find((count) => String(count) === form.get('expires'));
  const expires = form.get('expires') === 'never' ? null : expiryAfter(days);
  let token: string | undefined;
  await addOnce(context, form, async (_, transaction) => {
    const made = await tokens?.add(caller.id, { label: label.value ?? '', scope, expires }, transaction?.run);
    if (!made) throw new Problem(409, messageOf('tooManyTokens', { max: MAX_TOKENS }));
    token = made.token;
    void recordEvent('token.made', factsOf(request, caller, { token: made.id }));
    return made;
  });
  const body = html`${
      token === undefined
        ? html`<p class="lead">
            This form was sent twice. The token was made the first time, and it cannot be shown again: revoke
            it, and add another.
          </p>`
        : html`<p class="lead">Copy the token now: it cannot be shown again.</p>
            ${shownOnce('Token', token)}`
    }
    <p><a class="button" href="${links.account}">Back to your account</a></p>`;
  return pageReply(context, { title: 'Your new token', crumbs: crumbs(), kind: 'form', body });
}

/** Makes a token, or revokes one of the caller. */
export async function changeTokens(context: AdminContext, form: Form): Promise<Reply> {
  const { tokens, caller } = context;
  if (!tokens) throw notFound('There is no such page.');
  const id = form.get('_revoke');
  return id === undefined ? makeToken(context, form) : revoke(context, id, caller.id, links.account);
}

/** Revokes a token of a user, and redirects to the page. */
export async function revoke(
  context: AdminContext,
  id: string,
  userId: string,
  page: string,
): Promise<Reply> {
  const { tokens, request, caller, recordEvent } = context;
  const isRevoked = await tokens?.revoke(id, userId);
  if (isRevoked) void recordEvent('token.revoked', factsOf(request, caller, { token: id }));
  return isRevoked
    ? redirectDone(context, page, 'The token was revoked.')
    : redirectFailed(context, page, 'There is no such token. It may have been revoked before.');
}
