// The page of the own account: change the password and the time zone, see and end sessions and tokens.
import { asProblem } from '../../db/connection/database-errors.ts';
import { requiredColumn } from '../../db/schema/model.ts';
import { Problem } from '../../errors.ts';
import { Unauthorized, type Reply } from '../../http/message/message.ts';
import { setOwnPassword } from '../../resources/records/own-password.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirect, redirectDone, withCookies } from '../web/admin-request.ts';
import { readCookie, setCookie } from '../web/cookies.ts';
import { shellQuote } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { LANGUAGES, ZONES, timeZone } from '../web/presentation.ts';
import { choiceField } from '../web/widgets.ts';
import { accessSections, endAccess } from './access-page.ts';
import { actionForm, type Action } from './action.ts';
import { sessionCaller } from './assert-session.ts';
import { loginAddress } from './login-page.ts';
import { openSession } from './login.ts';
import { newPasswordFields, refusedPassword, typedPassword, verifyCaller } from './password-confirmation.ts';
import { secondFactorSection } from './second-factor-page.ts';
import { revocationBox, revokeIfTicked } from './token-revocation.ts';

/** The form that chooses the language and the time zone of this browser. */
function displayForm(context: AdminContext): Html {
  const zone = timeZone();
  const zones = ZONES.has(zone) ? [...ZONES] : [zone, ...ZONES];
  const languages = [...LANGUAGES.values()].map(({ tag, name }) => [tag, name, tag] as const);
  const language = readCookie(context.request, 'language') ?? '';
  const hint = t('zoneHint', { zone: context.settings.timeZone });
  const fields = html`${choiceField('language', t('language'), [['', t('languageOfBrowser')], ...languages], language)}
    ${choiceField('zone', t('showTimesIn'), zones.map((one) => [one, one]), zone, hint)}`; // prettier-ignore
  return html`<section>
    <h2>${t('languageAndTimes')}</h2>
    ${actionForm(context, { address: links.page('display'), fields, button: t('change') })}
  </section>`;
}

/** The seconds for which a browser keeps the language and the time zone. */
const DISPLAY_AGE = 365 * 86_400;

/** Keeps the language and the time zone in cookies, because they are those of the person at the browser, and of its place. */
export function chooseDisplay(context: AdminContext, form: Form): Reply {
  const { request, settings } = context;
  const [zone, language] = [form.get('zone') ?? settings.timeZone, form.get('language') ?? ''];
  if (!ZONES.has(zone) && zone !== settings.timeZone) throw new Problem(400, t('chooseZone'));
  if (language !== '' && !LANGUAGES.has(language)) throw new Problem(400, t('chooseLanguage'));
  const cookie = (name: 'zone' | 'language', value: string, isUsual: boolean): string =>
    setCookie(request, name, isUsual ? '' : value, isUsual ? 0 : DISPLAY_AGE);
  return withCookies(redirectDone(context, links.page('account'), t('displayChanged')), [
    cookie('zone', zone, zone === settings.timeZone),
    cookie('language', language, language === ''),
  ]);
}

/** Opens a session with the new password; undefined if that fails and the admin has to log in. */
async function reopenSession(context: AdminContext, password: string): ReturnType<typeof openSession> {
  try {
    // Verifies the new password too: another admin may have replaced it in the meantime.
    const login = await verifyCaller(context, password);
    if (context.settings.mfa === 'required' && !login.hasSecondFactor) return undefined;
    return await openSession(context, context.request, login);
  } catch (error) {
    // The password has been changed, so a failed login must not look like a failed change.
    if (!(error instanceof Unauthorized) && !asProblem(error)) throw error;
    return undefined;
  }
}

/** Redirects to the page in a new session; to the login if no session can be opened. */
export async function redirectReopened(
  context: AdminContext,
  password: string,
  page: string,
): Promise<Reply> {
  const opened = await reopenSession(context, password);
  if (!opened) return redirect(loginAddress(page, 'changed'));
  const { token, cookie } = opened;
  return withCookies(redirectDone({ ...context, token }, page, t('passwordChanged')), [cookie]);
}

/** Shows the own account, and changes the own password after checking the current one. */
export function ownAccount(context: AdminContext): Action {
  const { caller, users, operations, settings } = context;
  const account = links.page('account');
  const column = requiredColumn(users.model, 'password');
  const rules = { name: caller.name, minPassword: settings.minPassword };
  return {
    async page({ errors }, sent) {
      const addToken = html`<p><a class="button" href="${links.page('tokens')}">${t('addToken')}</a></p>`;
      const sections = [
        secondFactorSection(context),
        await accessSections(context, caller, account, addToken),
        displayForm(context),
      ];
      return {
        title: t('yourAccountOf', { name: caller.name }),
        crumbs: [t('yourAccount')],
        address: account,
        fields: html`${newPasswordFields(column, rules, errors, caller.name, true)}
          ${await revocationBox(context.tokens, caller.id, sent)}
          <p class="hint">${t('passwordEndsSessions')}</p>`,
        button: t('changePassword'),
        around: (form) =>
          html`<section>
              <h2>${t('changeYourPassword')}</h2>
              ${form}
            </section>
            ${sections}`,
      };
    },

    async check(form) {
      const ended = await endAccess(context, caller, form, account);
      if (ended) return ended;
      if (!users.readonly.has(column)) return typedPassword(form, column, rules).refusal;
      // The name may begin like an option.
      const separator = caller.name.startsWith('-') ? '-- ' : '';
      const command = `npx vitrine user password ${separator}${shellQuote(caller.name)}`;
      throw new Problem(409, t('passwordsReadonly', { command }));
    },

    needs: () => ({ password: true, code: true }),

    async run(form) {
      const { text } = typedPassword(form, column, rules);
      try {
        await setOwnPassword(users, operations, sessionCaller(context), text);
      } catch (error) {
        return refusedPassword(error, column);
      }
      await revokeIfTicked(context.tokens, caller.id, form, (facts) =>
        context.report('token.revoked', facts),
      );
      return redirectReopened(context, text, account);
    },
  };
}
