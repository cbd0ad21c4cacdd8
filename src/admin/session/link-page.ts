// The page where a person with a link sets a password. It needs no session, and is for users who may not enter the admin area, too.
import { requiredColumn } from '../../db/schema/model.ts';
import { assertOrigin } from '../../http/auth/request-origin.ts';
import { authorOf, Unauthorized, type ApiRequest, type Reply } from '../../http/message/message.ts';
import { areaAccessOf, CallerChanged, mayEnter } from '../../resources/access/access.ts';
import { setOwnPassword } from '../../resources/records/own-password.ts';
import { factsOf } from '../../resources/users/events.ts';
import { LINK_HOURS } from '../../resources/users/password-links.ts';
import type { LoginServices, ServicesFor } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { redirect } from '../web/admin-request.ts';
import { ANONYMOUS_LIMIT, readForm } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { phrase, t } from '../web/language.ts';
import { pageReply } from '../web/layout.ts';
import { errorSummary } from '../web/widgets.ts';
import { loginAddress, loginForm } from './login-page.ts';
import { revocationBox, revokeIfTicked } from './token-revocation.ts';
import { newPasswordFields, refusedPassword, typedPassword, type Refusal } from './password-confirmation.ts';

/** No request names the address of this page. With `no-referrer`, forms would not name their origin either. */
const HEADERS = { 'Referrer-Policy': 'strict-origin' };

const page = (title: string, body: Html, status = 200): Reply =>
  pageReply(undefined, { title, kind: 'login', body, status }, HEADERS);

const badLink = (): Reply =>
  page(
    t('linkDoesNotWork'),
    html`<p class="lead">${t('whyLinkDoesNotWork', { hours: LINK_HOURS })}</p>
      <p>${t('askForLink')}</p>`,
    404,
  );

/** Answers a request for the page: shows the form, or sets the password. @throws Problem 403, 413, 415, 429, 503 */
export async function answerPasswordLink(
  services: LoginServices,
  servicesFor: ServicesFor,
  request: ApiRequest,
): Promise<Reply> {
  const { settings, authentication, admitted, recordEvent, tokens } = services;
  const form = request.method === 'POST' ? await readForm(request, ANONYMOUS_LIMIT) : undefined;
  if (form) assertOrigin(request.headers, settings);
  const link = (form ?? LinkParameters.parseOrEmpty(request.query)).get('link') ?? '';
  try {
    const { caller, precondition } = await authentication.readLink(link, request.client().network);
    const { users, operations } = servicesFor(request, areaAccessOf(caller));
    const column = requiredColumn(users.model, 'password');
    const rules = { name: caller.name, minPassword: settings.minPassword };
    const show = async ({ errors, status }: Pick<Refusal, 'errors' | 'status'>): Promise<Reply> => {
      const fields = html`${errorSummary(errors)}
        <p>${phrase('forUser', { name: html`<b>${caller.name}</b>` })}</p>
        <input type="hidden" name="link" value="${link}" />
        ${newPasswordFields(column, rules, errors, caller.name)}
        ${await revocationBox(tokens, caller.id, form)}`;
      const parts = { title: t('setYourPassword'), fields, button: t('setPassword'), status };
      return loginForm('set-password', parts, HEADERS);
    };
    if (!form) return await show({ errors: {}, status: 200 });
    request.recognize(caller);
    const { text, refusal } = typedPassword(form, column, rules);
    if (refusal) return await show(refusal);
    try {
      const own = { ...users, readonly: new Set<never>() };
      await setOwnPassword(own, operations, { ...authorOf(caller, request), precondition }, text);
      void recordEvent('password.set', factsOf(request, caller, { by: 'link' }));
      await revokeIfTicked(tokens, caller.id, form, (facts) =>
        recordEvent('token.revoked', factsOf(request, caller, facts)),
      );
    } catch (error) {
      return await show(refusedPassword(error, column));
    }
    if (mayEnter(caller, admitted)) return redirect(loginAddress(links.dashboard, 'set'));
    return page(t('yourPasswordWasSet'), html`<p class="lead">${t('useItNow')}</p>`);
  } catch (error) {
    // The link may have been used since it was read.
    if (error instanceof Unauthorized || error instanceof CallerChanged) return badLink();
    throw error;
  }
}
