// The page about the access of a user, for admins: what the roles allow, sessions, tokens, and a link to set a password.
import { notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { User } from '../../query/statements/user-statements.ts';
import { SYSTEM_PREFIX } from '../../resources/definition/system-tables.ts';
import {
  accessOf,
  ADMIN,
  ADMIN_AREA,
  areaAccessOf,
  mayEnter,
  type Access,
} from '../../resources/access/access.ts';
import type { ResourceView } from '../../resources/access/resource-view.ts';
import { allowedIn, ofReadable, rowsOfView } from '../../resources/access/who-may.ts';
import { factsOf } from '../../resources/users/events.ts';
import { LINK_HOURS } from '../../resources/users/password-links.ts';
import type { RecordContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone } from '../web/admin-request.ts';
import { counted, shortened } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { buttonForm, pageReply, type AdminPage } from '../web/layout.ts';
import { errorSummary, PASSWORD_LABELS, table } from '../web/widgets.ts';
import { sessionSection, shownOnce, tokenSection } from './account-sections.ts';
import { mayManageAccess } from './lock-out.ts';
import { confirmationField, confirmCaller, type ConfirmationRefusal } from './password-confirmation.ts';
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

/** The user, and what all pages about one have. @throws Problem 404 */
async function userOf(context: RecordContext) {
  if (!mayManageAccess(context)) throw notFound('There is no such page.');
  const { browsing, accounts, resource } = context;
  const { id, label } = await browsing.preview(resource, context.id);
  const user = await accounts.withKey(id);
  if (!user) throw notFound();
  const { name, title, may, passwords } = resource;
  const isSettable = may.has('change') && passwords.some((column) => column.name === 'password');
  const crumbs = [
    { text: title, href: links.list(name) },
    { text: shortened(label, 40), href: links.record(name, id) },
    { text: 'Access' },
  ];
  const page: Pick<AdminPage, 'crumbs' | 'kind'> = { crumbs, kind: 'form' };
  return {
    user,
    label: shortened(label, 80),
    page,
    address: links.part(name, id, 'access'),
    passwordLinks: user.active && isSettable ? context.passwordLinks : undefined,
  };
}

export async function showAccess(
  context: RecordContext,
  { errors, status, headers }: ConfirmationRefusal = { errors: {}, status: 200 },
): Promise<Reply> {
  const { sessions, tokens, csrf, token } = context;
  const { user, label, page, address, passwordLinks } = await userOf(context);
  const [open, made] = await Promise.all([sessions.list(user, token), tokens?.list(user.id)]);
  const isOwn = open.some(({ isCurrent }) => isCurrent);
  const endSessions =
    open.length > (isOwn ? 1 : 0)
      ? buttonForm(address, csrf, `End all ${isOwn ? 'other ' : ''}sessions`, 'secondary', [
          '_sessions',
          'end',
        ])
      : html`<p class="hint">There are no ${isOwn && 'other '}sessions.</p>`;
  const link =
    passwordLinks &&
    html`<section>
      <h2>Link to set a password</h2>
      <form method="post" action="${address}" class="record">
        <input type="hidden" name="_csrf" value="${csrf}" />
        <p>With the link, the user sets a password without knowing the current one. It works once, within ${LINK_HOURS} hours.</p>
        ${confirmationField(context, errors, 'Required to make a link.', true)}
        <div class="buttons"><button class="primary">Make a link</button></div>
      </form>
    </section>`; // prettier-ignore
  const body = html`${errorSummary(errors, PASSWORD_LABELS)} ${effectSection(context, user)}
  ${sessionSection('Sessions', open, endSessions)} ${made && tokenSection('Tokens', made, address, csrf)}
  ${link}`;
  return pageReply(context, { ...page, title: `Access of ${label}`, status, body }, headers);
}

export async function changeAccess(context: RecordContext, form: Form): Promise<Reply> {
  const { sessions, token, request, caller, recordEvent } = context;
  const { user, label, page, address, passwordLinks } = await userOf(context);
  const revoked = form.get('_revoke');
  if (revoked !== undefined) return revoke(context, revoked, user.id, address);
  if (form.get('_sessions') !== undefined) {
    const count = await sessions.endOthers(user, token);
    void recordEvent('session.ended', factsOf(request, caller, { sessions: count, of: user.name }));
    return redirectDone(context, address, `${counted(count, 'session')} ended.`);
  }
  if (!passwordLinks) throw new Problem(409, 'There can be no link for this user.');
  const refusal = await confirmCaller(context, form);
  if (refusal) return showAccess(context, refusal);
  void recordEvent('password.link', factsOf(request, caller, { of: user.name }));
  const body = html`<p class="lead">
      Send this link to the user. It works once, within ${LINK_HOURS} hours, and is shown only now.
    </p>
    ${shownOnce('Link', links.passwordLink(request.client().origin, passwordLinks.make(user)))}
    <p><a class="button" href="${address}">Back</a></p>`;
  return pageReply(context, { ...page, title: `Link for ${label}`, body });
}
