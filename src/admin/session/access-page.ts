// The page about the access of a user, for admins: what the roles allow, sessions, tokens, and a link to set a password.
import { Problem, notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { User } from '../../query/statements/user-statements.ts';
import { SYSTEM_PREFIX } from '../../resources/definition/system-tables.ts';
import {
  ADMIN,
  ADMIN_AREA,
  accessOf,
  areaAccessOf,
  mayEnter,
  type Access,
  type Caller,
} from '../../resources/access/access.ts';
import type { ResourceView } from '../../resources/access/resource-view.ts';
import { allowedIn, ofReadable, rowsOfView } from '../../resources/access/who-may.ts';
import { LINK_HOURS } from '../../resources/users/password-links.ts';
import type { AdminContext, RecordContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone, redirectFailed } from '../web/admin-request.ts';
import { browserName, moment, shortened } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { eitherOr, listed, phrase, t } from '../web/language.ts';
import { buttonForm, listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import { labeledField, table } from '../web/widgets.ts';
import type { Action } from './action.ts';
import { mayManageAccess } from './password-confirmation.ts';

const VERBS = { read: 'maySee', create: 'mayAdd', update: 'mayChange', delete: 'mayDelete' } as const;
const FURTHER = { export: 'mayExport', import: 'mayImport', history: 'maySeeHistory' } as const;

/** What an access may do with a resource: `see, change Answer and Status (assignee=$me)`. @param whole as admins see the resource */
function inWords(view: ResourceView | undefined, whole: ResourceView | undefined): string {
  const own = view && allowedIn(view);
  if (!view || !own) return '–';
  const all = whole && allowedIn(whole);
  const { model, rights, allows, seenBy } = view;
  const isSystem = model.name.startsWith(SYSTEM_PREFIX);
  const parts = (Object.keys(VERBS) as (keyof typeof VERBS)[]).flatMap((action) => {
    const columns = own[action];
    if (!columns || (isSystem && action !== 'read')) return [];
    const isAll = action === 'delete' || all?.[action]?.every((column) => columns.includes(column));
    const titles = columns.filter((column) => column !== model.primaryKey).map(({ title }) => title);
    const rows = rowsOfView(
      view,
      action === 'update' || action === 'delete' ? ofReadable(view, rights[action]) : rights[action],
    );
    const verb = t(VERBS[action]);
    const text = isAll ? verb : t('mayWithColumns', { verb, columns: listed(titles) });
    return rows ? t('mayInRows', { text, rows: eitherOr(rows) }) : text;
  });
  const further =
    seenBy.surface !== 'admin'
      ? []
      : isSystem
        ? (['export'] as const)
        : (['export', 'import', 'history'] as const);
  const shown = further.filter((action) => allows.has(action)).map((action) => t(FURTHER[action]));
  return [...parts, ...shown].join(', ');
}

function effectSection(context: RecordContext, user: User): Html {
  const { views, resourcesOf, resources, admitted } = context;
  const plain = (access: Access): Access => ({ ...access, me: undefined });
  const [api, whole] = [views(plain(accessOf(user))), views(ADMIN)];
  const area = mayEnter(user, admitted) ? resourcesOf(plain(areaAccessOf(user))) : undefined;
  const wholeArea = resourcesOf(ADMIN_AREA);
  const rows = [...new Set([...resources.keys(), ...api.keys()])].map((name): string[] => [
    resources.get(name)?.title ?? name,
    ...(area ? [inWords(area.get(name), wholeArea.get(name))] : []),
    inWords(api.get(name), whole.get(name)),
  ]);
  const names = [...(user.admin ? ['admin'] : []), ...user.roles];
  return html`<section>
    <h2>${t('roles')}</h2>
    <p>
      ${names.length > 0 ? names.map((name) => html`<span class="badge">${name}</span> `) : t('noRoles')}
      ${!user.active && t('userNotActive')} ${!area && t('userMayNotEnter')}
    </p>
    ${table(
      [t('resource'), ...(area ? [t('adminArea')] : []), t('api')],
      rows.filter((cells) => cells.slice(1).some((cell) => cell !== '–')),
    )}
  </section>`;
}

/** The sessions and tokens of a user, with the buttons of `endAccess`. @param address what answers them @param addToken a link */
export async function accessSections(
  { sessions, tokens, token, csrf }: AdminContext,
  user: Pick<Caller, 'id'>,
  address: string,
  addToken?: Html,
): Promise<Html> {
  const [open, made] = await Promise.all([sessions.list(user, token), tokens?.list(user.id)]);
  const isOwn = open.some(({ isCurrent }) => isCurrent);
  const sessionRows = open.map(({ agent, address, created, seen, isCurrent }) => [
    html`<span title="${agent}">${browserName(agent)}</span>${isCurrent && html` <span class="badge">${t('thisSession')}</span>`}`,
    address,
    moment(created),
    moment(seen),
  ]); // prettier-ignore
  const end = t(isOwn ? 'endAllOtherSessions' : 'endAllSessions');
  const tokenRows = made?.map(({ id, label, scope, expires, used, isValid }) => {
    const hidden = html`<span class="hidden">${label || id}</span>`;
    const revoke = phrase('revokeToken', { token: hidden });
    return [
      html`${label || t('tokenNumber', { id })}${!isValid && html` <span class="badge">${t('notValid')}</span>`}`,
      scope.models?.join(', ') ?? t('all'),
      scope.methods?.join(', ') ?? t('all'),
      expires === null ? t('never') : moment(expires),
      used === null ? t('never') : moment(used),
      buttonForm(address, csrf, revoke, 'secondary', ['_revoke', id]),
    ];
  });
  const tokenTitles = [t('token'), t('resources'), t('methods'), t('expires'), t('lastUsed'), t('revoke')];
  return html`<section>
      <h2>${t('sessions')}</h2>
      ${open.length > 0 && table([t('browser'), t('address'), t('since'), t('lastUsed')], sessionRows)}
      ${
        open.length > (isOwn ? 1 : 0)
          ? buttonForm(address, csrf, end, 'secondary', ['_sessions', 'end'])
          : html`<p class="hint">${t(isOwn ? 'thereAreNoOtherSessions' : 'noSessions')}</p>`
      }
    </section>
    ${
      tokenRows &&
      html`<section>
        <h2>${t('tokens')}</h2>
        ${tokenRows.length > 0 ? table(tokenTitles, tokenRows) : html`<p class="hint">${t('noTokens')}</p>`}
        ${addToken}
      </section>`
    }`;
}

/** Ends the other sessions of a user, or revokes a token, if the form is a button for that. @param page where the browser goes */
export async function endAccess(
  context: AdminContext,
  user: Pick<Caller, 'id' | 'name'>,
  form: Form,
  page: string,
): Promise<Reply | undefined> {
  const { sessions, tokens, token, caller, report } = context;
  const revoked = form.get('_revoke');
  if (revoked !== undefined) {
    if (!(await tokens?.revoke(revoked, user.id))) return redirectFailed(context, page, t('noSuchToken'));
    void report('token.revoked', { token: revoked });
    return redirectDone(context, page, t('tokenRevoked'));
  }
  if (form.get('_sessions') === undefined) return undefined;
  const count = await sessions.endOthers(user, token);
  void report('session.ended', { sessions: count, ...(user.id !== caller.id && { of: user.name }) });
  return redirectDone(context, page, t('sessionsEnded', { count }));
}

/** A secret to copy, on the only page that shows it. */
export const shownOnce = (label: string, secret: string): Html =>
  labeledField(
    'secret',
    label,
    html`<input id="secret" value="${secret}" readonly autocomplete="off" spellcheck="false" />`,
  );

/** Shows the access of a user, ends sessions, revokes tokens, and makes a link to set a password. @throws Problem 404 */
export async function userAccess(context: RecordContext): Promise<Action> {
  if (!mayManageAccess(context)) throw notFound(t('noPage'));
  const { browsing, accounts, resource, request, report } = context;
  const record = await browsing.preview(resource, context.id);
  const { id } = record;
  const user = await accounts.withKey(id);
  if (!user) throw notFound();
  const { name, may, passwords } = resource;
  const label = shortened(record.label, 80);
  const address = links.part(name, id, 'access');
  const isSettable = may.has('change') && passwords.some((column) => column.name === 'password');
  const passwordLinks = user.active && isSettable ? context.passwordLinks : undefined;
  const crumbs = [listCrumb(resource), recordCrumb(resource, record), t('access')];

  return {
    async page() {
      const sections = await accessSections(context, user, address);
      return {
        title: t('accessOf', { label }),
        crumbs,
        address,
        fields: html`<p>${t('aboutLink', { hours: LINK_HOURS })}</p>`,
        button: t('makeLink'),
        around: (form) =>
          html`${effectSection(context, user)} ${sections}
          ${
            passwordLinks &&
            html`<section>
              <h2>${t('linkToSetPassword')}</h2>
              ${form}
            </section>`
          }`,
      };
    },

    async check(form) {
      const ended = await endAccess(context, user, form, address);
      if (!ended && !passwordLinks) throw new Problem(409, t('noLinkForUser'));
      return ended;
    },

    needs: () => ({ password: t('requiredForLink') }),

    run() {
      void report('password.link', { of: user.name });
      const link = links.passwordLink(request.client().origin, passwordLinks?.make(user) ?? '');
      const body = html`<p class="lead">${t('sendLink', { hours: LINK_HOURS })}</p>
        ${shownOnce(t('link'), link)}
        <p><a class="button" href="${address}">${t('back')}</a></p>`;
      return pageReply(context, { title: t('linkFor', { label }), crumbs, kind: 'form', body });
    },
  };
}
