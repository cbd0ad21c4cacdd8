// The page that sets the password of a record, usually of a user.
import { Problem, notFound } from '../../errors.ts';
import { parseJsonFields } from '../../resources/records/json-fields.ts';
import type { Action } from './action.ts';
import {
  isAdminRecord,
  isOwnUser,
  isUserModel,
  newPasswordFields,
  refusedPassword,
  rulesOf,
  showsUsers,
  typedPassword,
} from './password-confirmation.ts';
import { sessionCaller } from './assert-session.ts';
import { redirectReopened } from './account-page.ts';
import type { RecordContext } from '../web/admin-context.ts';
import { html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { listCrumb, recordCrumb } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone } from '../web/admin-request.ts';
import { revocationBox, revokeIfTicked } from './token-revocation.ts';

/** Sets the password of a record. The page never contains a stored or a typed password. @throws Problem 404 */
export async function setPassword(context: RecordContext): Promise<Action> {
  const { resource, id, tokens } = context;
  const [column] = resource.passwords;
  if (!column) throw notFound(t('noPage'));
  const { name } = resource;
  const record = links.record(name, id);
  const stored = await context.browsing.preview(resource, id);
  const { label } = stored;
  const isAdmins = isAdminRecord(context, stored);
  const rules = rulesOf(context, stored.fields);
  // A further password column ends no session.
  const isLogin = isUserModel(context) && column.name === 'password';
  const isOwn = isLogin && isOwnUser(context, stored.id);
  return {
    page: async ({ errors }, sent) => ({
      title: t('passwordOf', { label }),
      crumbs: [listCrumb(resource), recordCrumb(resource, stored), t('password')],
      address: links.part(name, id, 'password'),
      fields: html`${newPasswordFields(column, rules, errors, isAdmins ? context.caller.name : label, isAdmins)}
        ${isLogin && (await revocationBox(tokens, id, sent))}
        <p class="hint">${t(isOwn ? 'passwordEndsSessions' : 'passwordEndsSessionsOfUser')}</p>`,
      button: t('setPassword'),
      back: { text: t('backToRecord'), href: record },
    }),

    check: (form) => typedPassword(form, column, rules).refusal,

    needs: () => ({ password: isAdmins, code: showsUsers(context) }),

    async run(form) {
      const { text } = typedPassword(form, column, rules);
      const fields = parseJsonFields(JSON.stringify({ [column.key]: text }));
      try {
        // The version check fails if the user has become an admin since, so the confirmation cannot be bypassed.
        const versions = isAdmins ? undefined : [stored.version];
        await context.operations.update(resource, id, fields, sessionCaller(context), versions);
      } catch (error) {
        if (error instanceof Problem && error.status === 412)
          return { errors: { _password: [t('passwordOvertaken')] }, status: 409 };
        return refusedPassword(error, column);
      }
      if (isLogin) await revokeIfTicked(tokens, id, form, (facts) => context.report('token.revoked', facts));
      return isOwn
        ? redirectReopened(context, text, record)
        : redirectDone(context, record, t('passwordWasSet'));
    },
  };
}
