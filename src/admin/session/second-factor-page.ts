// The pages of the second factor: one's own, the confirmation with a code, and the removal by an admin.
import { notFound, type FieldErrors } from '../../errors.ts';
import { newSecret, otpauthAddress, type SecondFactors } from '../../resources/users/second-factor.ts';
import { ownPath, redirectDone } from '../web/admin-request.ts';
import type { AdminContext, RecordContext } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { html, type Html } from '../web/html.ts';
import { phrase, t } from '../web/language.ts';
import { listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import type { Action } from './action.ts';
import { mayManageAccess } from './password-confirmation.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import type { Form } from '../web/form-data.ts';
import { qrCode } from '../web/qr-code.ts';
import { passwordFields } from '../web/widgets.ts';
import { revocationBox, revokeIfTicked } from './token-revocation.ts';

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
  return html`<p>${t('scanCode')}</p>
    ${qrCode(otpauthAddress(secret, hostname, user), t('qrCode'))}
    <p>${phrase('secretIs', { secret: html`<code>${secret.match(/.{4}/g)?.join(' ')}</code>` })}</p>
    <input type="hidden" name="${SECRET}" value="${secret}" />
    ${passwordFields(['_code'], errors, { codeHint: t('firstCodeHint') })}`;
}

/** Recovery codes, which are shown once. */
export const recoveryCodes = (codes: readonly string[]): Html =>
  html`<p>${t('keepRecoveryCodes')}</p>
    <ul class="codes">
      ${codes.map((code) => html`<li><code>${code}</code></li>`)}
    </ul>`;

/** @throws Problem 404 if the database has no table for second factors */
function factorsOf({ secondFactors }: AdminContext): SecondFactors {
  if (!secondFactors) throw notFound(t('noPage'));
  return secondFactors;
}

/** The section of the account page. */
export const secondFactorSection = ({ caller, secondFactors }: AdminContext): Html | false =>
  secondFactors !== undefined &&
  html`<section>
    <h2>${t('secondFactor')}</h2>
    <p>${t(caller.secondFactor ? 'loginAsksForCode' : 'loginCanAskForCode')}</p>
    <p>
      <a class="button" href="${links.page('second-factor')}"
        >${t(caller.secondFactor ? 'remove' : 'setUp')}</a
      >
    </p>
  </section>`;

/** Sets the own second factor up, or removes it. */
export function ownSecondFactor(context: AdminContext): Action {
  const { caller, sessions, token, request, report } = context;
  const factors = factorsOf(context);
  const title = t('secondFactor');
  const head = { title, crumbs: [{ text: t('yourAccount'), href: links.page('account') }, title] };
  return {
    async page({ errors }, sent) {
      const left = await factors.recoveryCodes(caller.id);
      const page = { ...head, address: links.page('second-factor') };
      if (left === undefined)
        return {
          ...page,
          fields: html`${setUpFields(request, caller.name, errors, sent)}
          ${await revocationBox(context.tokens, caller.id, sent)}`,
          button: t('setUp'),
        };
      const fields = html`<p>${t('recoveryCodesLeft', { count: left })}</p>
        <input type="hidden" name="_remove" value="1" />`;
      return { ...page, fields, button: t('remove'), isDanger: true };
    },

    needs: () => ({ password: t('requiredForLogin'), code: true }),

    async run(form) {
      if (form.get('_remove') !== undefined) {
        await factors.remove(caller.id);
        void report('second-factor.reset', { of: caller.name });
        return redirectDone(context, links.page('account'), t('yourFactorWasRemoved'));
      }
      const codes = await factors.add(caller.id, secretIn(form), form.get('_code') ?? '');
      if (!codes) return { errors: { _code: [t('isWrong')] }, status: 400 };
      await factors.confirm(caller.id, token);
      void report('second-factor.set');
      // They were opened without a code.
      await sessions.endOthers(caller, token);
      await revokeIfTicked(context.tokens, caller.id, form, (facts) => report('token.revoked', facts));
      const body = html`${recoveryCodes(codes)}
        <p><a class="button" href="${links.page('account')}">${t('continue')}</a></p>`;
      return pageReply(context, { ...head, kind: 'form', body });
    },
  };
}

/** Asks for a code, for an action that has no form of its own. */
export const codeConfirmation = (context: AdminContext): Action => ({
  page(_, sent) {
    const next = sent?.get('next') ?? LinkParameters.parse(context.request.query).get('next');
    const fields = html`<p>${t('codeNeeded')}</p>
      <input type="hidden" name="next" value="${ownPath(next)}" />`;
    const title = t('secondFactor');
    return { title, crumbs: [title], address: links.page('confirm'), fields, button: t('continue') };
  },
  needs: () => ({ code: true }),
  run: (form) => redirectDone(context, ownPath(form.get('next')), t('startExportAgain')),
});

/** Removes the second factor of a user. @throws Problem 404 without one */
export async function removeSecondFactor(context: RecordContext): Promise<Action> {
  const { resource, browsing, report } = context;
  const factors = factorsOf(context);
  const { label, id } = await browsing.preview(resource, context.id);
  const isThere = (await factors.recoveryCodes(id)) !== undefined;
  if (!mayManageAccess(context) || !isThere) throw notFound(t('noPage'));
  const record = links.record(resource.name, id);
  return {
    page: () => ({
      title: t('secondFactor'),
      crumbs: [listCrumb(resource), recordCrumb(resource, { id, label }), t('secondFactor')],
      address: links.part(resource.name, id, 'second-factor'),
      fields: html`<p class="lead">${t('removeFactorOf', { label })}</p>`,
      button: t('remove'),
      isDanger: true,
      back: { text: t('backToRecord'), href: record },
    }),

    needs: () => ({ password: t('requiredForLoginOfUser') }),

    async run() {
      await factors.remove(id);
      void report('second-factor.reset', { of: label });
      return redirectDone(context, record, t('factorWasRemoved'));
    },
  };
}
