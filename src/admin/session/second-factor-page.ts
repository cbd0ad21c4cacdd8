// The pages of the second factor: one's own, the confirmation with a code, and the removal by an admin.
import { notFound, type FieldErrors } from '../../errors.ts';
import { newSecret, otpauthAddress, type SecondFactors } from '../../resources/users/second-factor.ts';
import { ownPath, redirectDone } from '../web/admin-request.ts';
import type { AdminContext, RecordContext } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { counted } from '../web/display-text.ts';
import { html, type Html } from '../web/html.ts';
import { listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import type { Action } from './action.ts';
import { isUserModel } from './password-confirmation.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import type { Form } from '../web/form-data.ts';
import { qrCode } from '../web/qr-code.ts';
import { passwordFields } from '../web/widgets.ts';

/** The field of the secret, which is stored once a code has confirmed it. */
const SECRET = '_secret';

/** The secret that a form sets up; a new one without a form. */
export function secretIn(form?: Form): string {
  const sent = form?.get(SECRET) ?? '';
  return /^[A-Z2-7]{32}$/.test(sent) ? sent : newSecret();
}

/** The secret to scan or to type, and the field for the first code. @param sent shown again with the same secret */
export function setUpFields(request: ApiRequest, user: string, errors: FieldErrors, sent?: Form): Html {
  const secret = secretIn(sent);
  const { origin } = request.client();
  const hostname = URL.canParse(origin) ? new URL(origin).hostname : 'localhost';
  return html`<p>
      Scan this code with an authenticator app, or type the secret there. Then enter the code that the app
      shows.
    </p>
    ${qrCode(otpauthAddress(secret, hostname, user), 'QR code with the secret')}
    <p>Secret: <code>${secret.match(/.{4}/g)?.join(' ')}</code></p>
    <input type="hidden" name="${SECRET}" value="${secret}" />
    ${passwordFields(['_code'], errors, { codeHint: 'The 6 digits that the app shows now.' })}`;
}

/** Recovery codes, which are shown once. */
export const recoveryCodes = (codes: readonly string[]): Html =>
  html`<p>
      Keep these recovery codes in a safe place. Each of them replaces one code of the app, for instance if
      you lose it. They are not shown again.
    </p>
    <ul class="codes">
      ${codes.map((code) => html`<li><code>${code}</code></li>`)}
    </ul>`;

const TITLE = 'Second factor';
const HINT = 'Required to change how you log in.';

/** @throws Problem 404 if the database has no table for second factors */
function factorsOf({ secondFactors }: AdminContext): SecondFactors {
  if (!secondFactors) throw notFound('There is no such page.');
  return secondFactors;
}

/** The section of the account page. */
export const secondFactorSection = ({ caller, secondFactors }: AdminContext): Html | false =>
  secondFactors !== undefined &&
  html`<section>
    <h2>${TITLE}</h2>
    <p>
      ${caller.secondFactor ? 'Your login asks for a code of your authenticator app.' : 'Your login can also ask for a code of an authenticator app.'}
      With a second factor, the API does not accept your password: make a token for each program.
    </p>
    <p>
      <a class="button" href="${links.page('second-factor')}">${caller.secondFactor ? 'Remove' : 'Set up'}</a>
    </p>
  </section>`;

/** Sets the own second factor up, or removes it. */
export function ownSecondFactor(context: AdminContext): Action {
  const { caller, sessions, token, request, report } = context;
  const factors = factorsOf(context);
  const head = { title: TITLE, crumbs: [{ text: 'Your account', href: links.page('account') }, TITLE] };
  return {
    async page({ errors }, sent) {
      const left = await factors.recoveryCodes(caller.id);
      const page = { ...head, address: links.page('second-factor') };
      if (left === undefined)
        return { ...page, fields: setUpFields(request, caller.name, errors, sent), button: 'Set up' };
      const fields = html`<p>
          ${counted(left, 'recovery code')} left. For new ones, or another app, remove the second factor and
          set it up again.
        </p>
        <input type="hidden" name="_remove" value="1" />`;
      return { ...page, fields, button: 'Remove', isDanger: true };
    },

    needs: () => ({ password: HINT, code: true }),

    async run(form) {
      if (form.get('_remove') !== undefined) {
        await factors.remove(caller.id);
        void report('second-factor.reset', { of: caller.name });
        return redirectDone(context, links.page('account'), 'Your second factor was removed.');
      }
      const codes = await factors.add(caller.id, secretIn(form), form.get('_code') ?? '');
      if (!codes) return { errors: { _code: ['is wrong'] }, status: 400 };
      await factors.confirm(caller.id, token);
      void report('second-factor.set');
      // They were opened without a code.
      await sessions.endOthers(caller, token);
      const body = html`${recoveryCodes(codes)}
        <p><a class="button" href="${links.page('account')}">Continue</a></p>`;
      return pageReply(context, { ...head, kind: 'form', body });
    },
  };
}

/** Asks for a code, for an action that has no form of its own. */
export const codeConfirmation = (context: AdminContext): Action => ({
  page(_, sent) {
    const next = sent?.get('next') ?? LinkParameters.parse(context.request.query).get('next');
    const fields = html`<p>This needs a code of your second factor, which then holds for 15 minutes.</p>
      <input type="hidden" name="next" value="${ownPath(next)}" />`;
    return { title: TITLE, crumbs: [TITLE], address: links.page('confirm'), fields, button: 'Continue' };
  },
  needs: () => ({ code: true }),
  run: (form) => redirectDone(context, ownPath(form.get('next')), 'Now start the export again.'),
});

/** Removes the second factor of a user. @throws Problem 404 without one */
export async function removeSecondFactor(context: RecordContext): Promise<Action> {
  const { resource, browsing, caller, report } = context;
  const factors = factorsOf(context);
  const { label, id } = await browsing.preview(resource, context.id);
  const isThere = (await factors.recoveryCodes(id)) !== undefined;
  if (!caller.admin || !isUserModel(context) || !isThere) throw notFound('There is no such page.');
  const record = links.record(resource.name, id);
  return {
    page: () => ({
      title: TITLE,
      crumbs: [listCrumb(resource), recordCrumb(resource, { id, label }), TITLE],
      address: links.part(resource.name, id, 'second-factor'),
      fields: html`<p class="lead">
        Remove the second factor of ${label}? Then the password is enough to log in.
      </p>`,
      button: 'Remove',
      isDanger: true,
      back: { text: 'Back to the record', href: record },
    }),

    needs: () => ({ password: 'Required to change how a user logs in.' }),

    async run() {
      await factors.remove(id);
      void report('second-factor.reset', { of: label });
      return redirectDone(context, record, 'The second factor was removed.');
    },
  };
}
