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
import { counted, shortened } from '../web/display-text.ts';
import { html, type Html } from '../web/html.ts';
import { buttonForm, listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import { table } from '../web/widgets.ts';
import type { Action } from './action.ts';
import { sessionSection, shownOnce, tokenSection } from './account-page.ts';
import { mayManageAccess } from './password-confirmation.ts';
import { revoke } from './token-page.ts';

const VERBS = { read: 'see', create: 'add', update: 'change', delete: 'delete' } as const;

const listed = (titles: readonly string[]): string =>
  titles.length < 2 ? titles.join() : `${titles.slice(0, -1).join(', ')} and ${titles.at(-1)}`;

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
    return `${VERBS[action]}${isAll ? '' : ` ${listed(titles)}`}${rows ? ` (${rows.join(' or ')})` : ''}`;
  });
  const further =
    seenBy.surface !== 'admin'
      ? []
      : isSystem
        ? (['export'] as const)
        : (['export', 'import', 'history'] as const);
  return [...parts, ...further.filter((action) => allows.has(action))].join(', ');
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
    <h2>Roles</h2>
    <p>
      ${names.length > 0 ? names.map((name) => html`<span class="badge">${name}</span> `) : 'No roles.'}
      ${!user.active && 'The user is not active, so none of this has an effect.'}
      ${!area && 'The user may not enter the admin area.'}
    </p>
    ${table(
      ['Resource', ...(area ? ['Admin area'] : []), 'API'],
      rows.filter((cells) => cells.slice(1).some((cell) => cell !== '–')),
    )}
  </section>`;
}

/** Shows the access of a user, ends sessions, revokes tokens, and makes a link to set a password. @throws Problem 404 */
export async function userAccess(context: RecordContext): Promise<Action> {
  if (!mayManageAccess(context)) throw notFound('There is no such page.');
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
  const crumbs = [listCrumb(resource), recordCrumb(resource, record), 'Access'];

  return {
    async page() {
      const [open, made] = await Promise.all([sessions.list(user, token), tokens?.list(user.id)]);
      const other = open.some(({ isCurrent }) => isCurrent) ? 'other ' : '';
      const endSessions =
        open.length > (other === '' ? 0 : 1)
          ? buttonForm(address, csrf, `End all ${other}sessions`, 'secondary', ['_sessions', 'end'])
          : html`<p class="hint">There are no ${other}sessions.</p>`;
      return {
        title: `Access of ${label}`,
        crumbs,
        address,
        fields: html`<p>
          With the link, the user sets a password without knowing the current one. It works once, within
          ${LINK_HOURS} hours.
        </p>`,
        button: 'Make a link',
        around: (form) =>
          html`${effectSection(context, user)} ${sessionSection('Sessions', open, endSessions)}
          ${made && tokenSection('Tokens', made, address, csrf)}
          ${
            passwordLinks &&
            html`<section>
              <h2>Link to set a password</h2>
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
        return redirectDone(context, address, `${counted(count, 'session')} ended.`);
      }
      if (!passwordLinks) throw new Problem(409, 'There can be no link for this user.');
      return undefined;
    },

    needs: () => ({ password: 'Required to make a link.' }),

    run() {
      void report('password.link', { of: user.name });
      const link = links.passwordLink(request.client().origin, passwordLinks?.make(user) ?? '');
      const body = html`<p class="lead">
          Send this link to the user. It works once, within ${LINK_HOURS} hours, and is shown only now.
        </p>
        ${shownOnce('Link', link)}
        <p><a class="button" href="${address}">Back</a></p>`;
      return pageReply(context, { title: `Link for ${label}`, crumbs, kind: 'form', body });
    },
  };
}
