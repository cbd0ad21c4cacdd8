// The pages of the second factor: one's own, the confirmation with a code, and the removal by an admin.
import { notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { factsOf } from '../../resources/users/events.ts';
import type { SecondFactors } from '../../resources/users/second-factor.ts';
import { redirectDone } from '../web/admin-request.ts';
import type { AdminContext, RecordContext } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { counted } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { pageReply, type Crumb } from '../web/layout.ts';
import { errorSummary, PASSWORD_LABELS, passwordFields } from '../web/widgets.ts';
import { isUserModel } from './lock-out.ts';
import { ownPath } from './login.ts';
import {
  confirmationField,
  confirmCaller,
  confirmCode,
  type ConfirmationRefusal,
} from './password-confirmation.ts';
import { recoveryCodes, secretIn, setUpFields } from './set-up-fields.ts';

const TITLE = 'Second factor';
/** Not a constant: the address depends on BASE_PATH. */
const own = (): readonly Crumb[] => [{ text: 'Your account', href: links.account }, { text: TITLE }];
const NO_REFUSAL: ConfirmationRefusal = { errors: {}, status: 200 };

/** @throws Problem 404 if the database has no table for second factors */
function factorsOf({ secondFactors }: AdminContext): SecondFactors {
  if (!secondFactors) throw notFound('There is no such page.');
  return secondFactors;
}

function page(
  context: AdminContext,
  crumbs: readonly Crumb[],
  body: Content,
  { errors, status, headers }: ConfirmationRefusal,
): Reply {
  const shown = html`${errorSummary(errors, PASSWORD_LABELS)} ${body}`;
  return pageReply(context, { title: TITLE, crumbs, kind: 'form', status, body: shown }, headers);
}

const formOf = ({ csrf }: AdminContext, action: string, fields: Content, button: Content): Html =>
  html`<form method="post" action="${action}" class="record">
    <input type="hidden" name="_csrf" value="${csrf}" />
    ${fields}
    <div class="buttons">${button}</div>
  </form>`;

/** The section of the account page. */
export const secondFactorSection = ({ caller, secondFactors }: AdminContext): Html | false =>
  secondFactors !== undefined &&
  html`<section>
    <h2>${TITLE}</h2>
    <p>
      ${caller.secondFactor ? 'Your login asks for a code of your authenticator app.' : 'Your login can also ask for a code of an authenticator app.'}
      With a second factor, the API does not accept your password: make a token for each program.
    </p>
    <p><a class="button" href="${links.secondFactor}">${caller.secondFactor ? 'Remove' : 'Set up'}</a></p>
  </section>`;

/** The page that sets the second factor up, or removes it. */
export async function showSecondFactor(
  context: AdminContext,
  refusal = NO_REFUSAL,
  sent?: Form,
): Promise<Reply> {
  const { caller, request } = context;
  const { errors } = refusal;
  const left = await factorsOf(context).recoveryCodes(caller.id);
  const hint = 'Required to change how you log in.';
  const [fields, button] =
    left === undefined
      ? [
          html`${setUpFields(request, caller.name, errors, sent)}
          ${confirmationField(context, errors, hint, true, false)}`,
          html`<button class="primary">Set up</button>`,
        ]
      : [
          html`<p>
              ${counted(left, 'recovery code')} left. For new ones, or another app, remove the second factor
              and set it up again.
            </p>
            <input type="hidden" name="_remove" value="1" />
            ${confirmationField(context, errors, hint)}`,
          html`<button class="danger">Remove</button>`,
        ];
  return page(context, own(), formOf(context, links.secondFactor, fields, button), refusal);
}

/** Sets the second factor up, or removes it. */
export async function changeSecondFactor(context: AdminContext, form: Form): Promise<Reply> {
  const { caller, sessions, token, request, recordEvent } = context;
  const factors = factorsOf(context);
  const refusal = await confirmCaller(context, form);
  if (refusal) return showSecondFactor(context, refusal, form);
  if (form.get('_remove') !== undefined) {
    await factors.remove(caller.id);
    void recordEvent('second-factor.reset', factsOf(request, caller, { of: caller.name }));
    return redirectDone(context, links.account, 'Your second factor was removed.');
  }
  const codes = await factors.add(caller.id, secretIn(form), form.get('_code') ?? '');
  if (!codes) return showSecondFactor(context, { errors: { _code: ['is wrong'] }, status: 400 }, form);
  await factors.confirm(caller.id, token);
  void recordEvent('second-factor.set', factsOf(request, caller));
  // They were opened without a code.
  await sessions.endOthers(caller, token);
  const next = html`<p><a class="button" href="${links.account}">Continue</a></p>`;
  return page(context, own(), html`${recoveryCodes(codes)} ${next}`, NO_REFUSAL);
}

/** Asks for a code, for an action that has no form of its own. */
export function showConfirmation(context: AdminContext, refusal = NO_REFUSAL, sent?: Form): Reply {
  const next = sent?.get('next') ?? LinkParameters.parse(context.request.query).get('next');
  const fields = html`<p>This needs a code of your second factor, which then holds for 15 minutes.</p>
    <input type="hidden" name="next" value="${ownPath(next)}" />
    ${passwordFields(['_code'], refusal.errors)}`;
  const button = html`<button class="primary">Continue</button>`;
  return page(context, [{ text: TITLE }], formOf(context, links.confirm, fields, button), refusal);
}

export async function confirm(context: AdminContext, form: Form): Promise<Reply> {
  const refusal = await confirmCode(context, form);
  if (refusal) return showConfirmation(context, refusal, form);
  return redirectDone(context, ownPath(form.get('next')), 'The code was right. Now start the export again.');
}

/** The page with which admins remove the second factor of a user. @throws Problem 404 without one */
export async function showRemoval(context: RecordContext, refusal = NO_REFUSAL): Promise<Reply> {
  const { resource, browsing, caller } = context;
  const { label, id } = await browsing.preview(resource, context.id);
  const isThere = (await factorsOf(context).recoveryCodes(id)) !== undefined;
  if (!caller.admin || !isUserModel(context) || !isThere) throw notFound('There is no such page.');
  const record = links.record(resource.name, id);
  const fields = html`<p class="lead">
      Remove the second factor of ${label}? Then the password is enough to log in.
    </p>
    ${confirmationField(context, refusal.errors, 'Required to change how a user logs in.')}`;
  const buttons = html`<button class="danger">Remove</button> <a class="button" href="${record}">Cancel</a>`;
  const crumbs = [
    { text: resource.title, href: links.list(resource.name) },
    { text: label, href: record },
    { text: TITLE },
  ];
  const action = links.part(resource.name, id, 'second-factor');
  return page(context, crumbs, formOf(context, action, fields, buttons), refusal);
}

export async function removeSecondFactor(context: RecordContext, form: Form): Promise<Reply> {
  const refusal = await confirmCaller(context, form);
  // Also refuses those who may not.
  const shown = await showRemoval(context, refusal);
  if (refusal) return shown;
  const { resource, browsing, request, caller, recordEvent } = context;
  const { id, label } = await browsing.preview(resource, context.id);
  await factorsOf(context).remove(id);
  void recordEvent('second-factor.reset', factsOf(request, caller, { of: label }));
  return redirectDone(context, links.record(resource.name, id), 'The second factor was removed.');
}
