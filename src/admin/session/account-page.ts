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
import { setCookie } from '../web/cookies.ts';
import { browserName, moment, shellQuote } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { buttonForm } from '../web/layout.ts';
import { ZONES, timeZone } from '../web/time-zone.ts';
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
        ['Browser', 'Address', 'Since', 'Last used'],
        list.map(({ agent, address, created, seen, isCurrent }) => [
          html`<span title="${agent}">${browserName(agent)}</span
            >${isCurrent && html` <span class="badge">this session</span>`}`,
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
        ? html`<p class="hint">There are no tokens.</p>`
        : table(
            ['Token', 'Resources', 'Methods', 'Expires', 'Last used', 'Revoke'],
            list.map(({ id, label, scope, expires, used, isValid }) => [
              html`${label || `Token ${id}`}${!isValid && html` <span class="badge">not valid</span>`}`,
              scope.models?.join(', ') ?? 'all',
              scope.methods?.join(', ') ?? 'all',
              expires === null ? 'never' : moment(expires),
              used === null ? 'never' : moment(used),
              buttonForm(action, csrf, html`Revoke <span class="hidden">${label || id}</span>`, 'secondary', [
                '_revoke',
                id,
              ]),
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
      ? buttonForm(links.page('sessions'), csrf, 'End other sessions', 'secondary')
      : html`<p class="hint">You have no other sessions.</p>`;
  return sessionSection('Your sessions', list, more);
}

async function ownTokens({ tokens, caller, csrf }: AdminContext): Promise<Html | undefined> {
  const add = html`<p><a class="button" href="${links.page('tokens')}">Add a token</a></p>`;
  return tokens && tokenSection('Your tokens', await tokens.list(caller.id), links.page('tokens'), csrf, add);
}

/** The form that chooses the time zone of this browser. */
function timeZoneForm({ csrf, settings }: AdminContext): Html {
  const zones = [...ZONES];
  const all = zones.includes(timeZone()) ? zones : [timeZone(), ...zones];
  const parts = { hint: `For the admin area in this browser. The usual zone is ${settings.timeZone}.` };
  const choice = html`<select${attributes(controlAttributes('field-zone', 'zone', parts))}>
    ${all.map((zone) => html`<option ${attributes({ selected: zone === timeZone() })}>${zone}</option>`)}
  </select>`;
  return html`<section>
    <h2>Time zone</h2>
    <form method="post" action="${links.page('zone')}" class="record">
      <input type="hidden" name="_csrf" value="${csrf}" />
      ${labeledField('field-zone', 'Show times in', choice, parts)}
      <div class="buttons"><button class="secondary">Change time zone</button></div>
    </form>
  </section>`;
}

/** The seconds for which a browser keeps the time zone. */
const ZONE_AGE = 365 * 86_400;

/** Keeps a time zone in a cookie, because it is that of the place where the browser is. */
export function chooseTimeZone(context: AdminContext, form: Form): Reply {
  const zone = form.get('zone') ?? '';
  if (!ZONES.has(zone) && zone !== context.settings.timeZone)
    throw new Problem(400, 'Choose one of the time zones.');
  const cookie = setCookie(context.request, 'zone', zone, zone === context.settings.timeZone ? 0 : ZONE_AGE);
  return withCookies(redirectDone(context, links.page('account'), `Times are shown in ${zone}.`), [cookie]);
}

export async function endOtherSessions(context: AdminContext): Promise<Reply> {
  const { caller, report } = context;
  const count = await context.sessions.endOthers(caller, context.token);
  void report('session.ended', { sessions: count });
  const text = count === 1 ? 'One other session was ended.' : `${count} other sessions were ended.`;
  return redirectDone(context, links.page('account'), text);
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
  return withCookies(redirectDone({ ...context, token }, page, 'Your password was changed.'), [cookie]);
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
        timeZoneForm(context),
      ];
      return {
        title: `Your account, ${caller.name}`,
        crumbs: ['Your account'],
        address: links.page('account'),
        fields: html`<input type="hidden" name="username" value="${caller.name}" autocomplete="username" />
          ${passwordFields(['_current', '_password', '_repeat'], errors, { hint: passwordHint(column, rules) })}
          ${confirmationField(context, errors, { code: true })}
          <p class="hint">Changing your password ends all your other sessions.</p>`,
        button: 'Change password',
        around: (form) =>
          html`<section>
              <h2>Change your password</h2>
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
      throw new Problem(409, `Passwords are read-only in the admin area. Ask an operator to run: ${command}`);
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
        return { errors: { _current: ['is not your password'] }, status: 400 };
      }
      return redirectReopened(context, text, links.page('account'));
    },
  };
}
