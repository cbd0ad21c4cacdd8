// The page about the access of a user, for admins: what the roles allow, sessions, tokens, and a link to set a password.
import { Problem, notFound } from '../../errors.ts';
import type { User } from '../../query/statements/user-statements.ts';
import { SYSTEM_PREFIX } from '../../resources/definition/system-tables.ts';
import {
  ADMIN,
  ADMIN_AREA,
  accessOf,
  areaAccessOf,
  mayEnter,
  type Access,
} from '../../resources/access/access.ts';
import type { ResourceView } from '../../resources/access/resource-view.ts';
import { allowedIn, ofReadable, rowsOfView } from '../../resources/access/who-may.ts';
import { LINK_HOURS } from '../../resources/users/password-links.ts';
import type { RecordContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone } from '../web/admin-request.ts';
import { shortened } from '../web/display-text.ts';
import { html, type Html } from '../web/html.ts';
import { eitherOr, listed, t } from '../web/language.ts';
import { buttonForm, listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import { table } from '../web/widgets.ts';
import type { Action } from './action.ts';
import { sessionSection, shownOnce, tokenSection } from './account-page.ts';
import { mayManageAccess } from './password-confirmation.ts';
import { revoke } from './token-page.ts';

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

/** Shows the access of a user, ends sessions, revokes tokens, and makes a link to set a password. @throws Problem 404 */
export async function userAccess(context: RecordContext): Promise<Action> {
  if (!mayManageAccess(context)) throw notFound(t('noPage'));
  const { browsing, accounts, resource, sessions, tokens, csrf, token, request, report } = context;
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
      const [open, made] = await Promise.all([sessions.list(user, token), tokens?.list(user.id)]);
      const isOwn = open.some(({ isCurrent }) => isCurrent);
      const end = t(isOwn ? 'endAllOtherSessions' : 'endAllSessions');
      const endSessions =
        open.length > (isOwn ? 1 : 0)
          ? buttonForm(address, csrf, end, 'secondary', ['_sessions', 'end'])
          : html`<p class="hint">${t(isOwn ? 'thereAreNoOtherSessions' : 'noSessions')}</p>`;
      return {
        title: t('accessOf', { label }),
        crumbs,
        address,
        fields: html`<p>${t('aboutLink', { hours: LINK_HOURS })}</p>`,
        button: t('makeLink'),
        around: (form) =>
          html`${effectSection(context, user)} ${sessionSection(t('sessions'), open, endSessions)}
          ${made && tokenSection(t('tokens'), made, address, csrf)}
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
      const revoked = form.get('_revoke');
      if (revoked !== undefined) return revoke(context, revoked, user.id, address);
      if (form.get('_sessions') !== undefined) {
        const count = await sessions.endOthers(user, token);
        void report('session.ended', { sessions: count, of: user.name });
        return redirectDone(context, address, t('sessionsEnded', { count }));
      }
      if (!passwordLinks) throw new Problem(409, t('noLinkForUser'));
      return undefined;
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
