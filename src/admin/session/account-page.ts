// The page of the own account: change the password and the time zone, see and end sessions and tokens.
import { asProblem } from '../../db/connection/database-errors.ts';
import { requiredColumn } from '../../db/schema/model.ts';
import { Problem } from '../../errors.ts';
import { Unauthorized, type Reply } from '../../http/message/message.ts';
import { CallerChanged } from '../../resources/access/access.ts';
import { setOwnPassword } from '../../resources/records/own-password.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirect, redirectDone, withCookies } from '../web/admin-request.ts';
import { readCookie, setCookie } from '../web/cookies.ts';
import { browserName, moment, shellQuote } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { phrase, t } from '../web/language.ts';
import { buttonForm } from '../web/layout.ts';
import { LANGUAGES, ZONES, timeZone } from '../web/presentation.ts';
import { controlAttributes, labeledField, passwordFields, table } from '../web/widgets.ts';
import type { Action } from './action.ts';
import { loginAddress, openSession } from './login.ts';
import {
  confirmCode,
  confirmationField,
  passwordHint,
  refusedPassword,
  typedPassword,
  verifyCaller,
  verifyPassword,
} from './password-confirmation.ts';
import { secondFactorSection } from './second-factor-page.ts';
import type { Sessions } from '../../resources/users/sessions.ts';
import type { Tokens } from '../../resources/users/tokens.ts';

/** @param more the button that ends sessions, or why there is none */
export const sessionSection = (
  title: string,
  list: Awaited<ReturnType<Sessions['list']>>,
  more: Html,
): Html =>
  html`<section>
    <h2>${title}</h2>
    ${
      list.length > 0 &&
      table(
        [t('browser'), t('address'), t('since'), t('lastUsed')],
        list.map(({ agent, address, created, seen, isCurrent }) => [
          html`<span title="${agent}">${browserName(agent)}</span
            >${isCurrent && html` <span class="badge">${t('thisSession')}</span>`}`,
          address,
          moment(created),
          moment(seen),
        ]),
      )
    }
    ${more}
  </section>`;

/** @param action where the buttons that revoke a token send its id */
export const tokenSection = (
  title: string,
  list: Awaited<ReturnType<Tokens['list']>>,
  action: string,
  csrf: string,
  more?: Content,
): Html =>
  html`<section>
    <h2>${title}</h2>
    ${
      list.length === 0
        ? html`<p class="hint">${t('noTokens')}</p>`
        : table(
            [t('token'), t('resources'), t('methods'), t('expires'), t('lastUsed'), t('revoke')],
            list.map(({ id, label, scope, expires, used, isValid }) => [
              html`${label || t('tokenNumber', { id })}${!isValid && html` <span class="badge">${t('notValid')}</span>`}`,
              scope.models?.join(', ') ?? t('all'),
              scope.methods?.join(', ') ?? t('all'),
              expires === null ? t('never') : moment(expires),
              used === null ? t('never') : moment(used),
              buttonForm(
                action,
                csrf,
                phrase('revokeToken', { token: html`<span class="hidden">${label || id}</span>` }),
                'secondary',
                ['_revoke', id],
              ),
            ]),
          )
    }
    ${more}
  </section>`;

/** A secret to copy, on the only page that shows it. */
export const shownOnce = (label: string, secret: string): Html =>
  labeledField(
    'secret',
    label,
    html`<input id="secret" value="${secret}" readonly autocomplete="off" spellcheck="false" />`,
  );

async function ownSessions({ sessions, caller, token, csrf }: AdminContext): Promise<Html> {
  const list = await sessions.list(caller, token);
  const more =
    list.length > 1
      ? buttonForm(links.page('sessions'), csrf, t('endOtherSessions'), 'secondary')
      : html`<p class="hint">${t('noOtherSessions')}</p>`;
  return sessionSection(t('yourSessions'), list, more);
}

async function ownTokens({ tokens, caller, csrf }: AdminContext): Promise<Html | undefined> {
  const add = html`<p><a class="button" href="${links.page('tokens')}">${t('addToken')}</a></p>`;
  return (
    tokens && tokenSection(t('yourTokens'), await tokens.list(caller.id), links.page('tokens'), csrf, add)
  );
}

/** A field that chooses one of several options. */
const choiceField = (name: string, label: string, hint: string, options: Content): Html =>
  labeledField(
    `field-${name}`,
    label,
    html`<select${attributes(controlAttributes(`field-${name}`, name, { hint }))}>${options}</select>`,
    { hint },
  );

/** The form that chooses the language and the time zone of this browser. */
function displayForm({ request, csrf, settings }: AdminContext): Html {
  const zones = [...ZONES];
  const all = zones.includes(timeZone()) ? zones : [timeZone(), ...zones];
  const chosen = readCookie(request, 'language');
  const languages = [
    html`<option value="">${t('languageOfBrowser')}</option>`,
    ...[...LANGUAGES.values()].map(
      ({ tag, name }) =>
        html`<option ${attributes({ value: tag, lang: tag, selected: tag === chosen })}>${name}</option>`,
    ),
  ];
  return html`<section>
    <h2>${t('languageAndTimes')}</h2>
    <form method="post" action="${links.page('display')}" class="record">
      <input type="hidden" name="_csrf" value="${csrf}" />
      ${choiceField('language', t('language'), '', languages)}
      ${choiceField(
        'zone',
        t('showTimesIn'),
        t('zoneHint', { zone: settings.timeZone }),
        all.map((zone) => html`<option ${attributes({ selected: zone === timeZone() })}>${zone}</option>`),
      )}
      <div class="buttons"><button class="secondary">${t('change')}</button></div>
    </form>
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

export async function endOtherSessions(context: AdminContext): Promise<Reply> {
  const { caller, report } = context;
  const count = await context.sessions.endOthers(caller, context.token);
  void report('session.ended', { sessions: count });
  return redirectDone(context, links.page('account'), t('otherSessionsEnded', { count }));
}

/** Opens a session with the new password; undefined if that fails and the admin has to log in. */
async function reopenSession(context: AdminContext, password: string): ReturnType<typeof openSession> {
  try {
    // Verifies the new password too: another admin may have replaced it in the meantime.
    const { request, caller } = context;
    const login = await verifyPassword(context, request, caller.name, password);
    if (context.settings.mfa === 'required' && !login.hasSecondFactor) return undefined;
    return await openSession(context, request, login);
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
  const column = requiredColumn(users.model, 'password');
  const rules = { name: caller.name, minPassword: settings.minPassword };
  return {
    async page({ errors }) {
      const sections = [
        secondFactorSection(context),
        await ownSessions(context),
        await ownTokens(context),
        displayForm(context),
      ];
      return {
        title: t('yourAccountOf', { name: caller.name }),
        crumbs: [t('yourAccount')],
        address: links.page('account'),
        fields: html`<input type="hidden" name="username" value="${caller.name}" autocomplete="username" />
          ${passwordFields(['_current', '_password', '_repeat'], errors, { hint: passwordHint(column, rules) })}
          ${confirmationField(context, errors, { code: true })}
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

    check(form) {
      if (!users.readonly.has(column)) return typedPassword(form, column, rules).refusal;
      // The name may begin like an option.
      const separator = caller.name.startsWith('-') ? '-- ' : '';
      const command = `npx vitrine user password ${separator}${shellQuote(caller.name)}`;
      throw new Problem(409, t('passwordsReadonly', { command }));
    },

    async run(form) {
      const { text } = typedPassword(form, column, rules);
      try {
        const { precondition } = await verifyCaller(context, form.get('_current') ?? '');
        const refusal = await confirmCode(context, form);
        if (refusal) return refusal;
        await setOwnPassword(users, operations, { ...caller, precondition }, text);
      } catch (error) {
        if (!(error instanceof Unauthorized || error instanceof CallerChanged))
          return refusedPassword(error, column);
        // The password may have been changed while this form was processed, for instance because it was sent twice.
        const isSessionValid = (await context.sessions.find(context.token)) !== undefined;
        if (!isSessionValid) return redirect(loginAddress(links.page('account'), 'account'));
        return { errors: { _current: [t('notYourPassword')] }, status: 400 };
      }
      return redirectReopened(context, text, links.page('account'));
    },
  };
}
