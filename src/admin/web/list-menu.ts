// The links to all lists: in a menu of the header, and by group beside the pages in wide windows.
import type { AdminView } from '../../resources/access/admin-view.ts';
import { EVENT } from '../../resources/definition/system-tables.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import type { AdminContext } from './admin-context.ts';
import { links } from './admin-links.ts';
import { attributes, html, type Html } from './html.ts';
import { t } from './language.ts';

/** Resources with the heading of their group. */
export interface ResourceGroup {
  readonly title: string;
  readonly resources: readonly AdminView[];
}

/** The resources by group, in the order of the registry, without the history and the events. */
export function groupsOf({ resources, history }: AdminContext): readonly ResourceGroup[] {
  const groups = new Map<string, AdminView[]>();
  for (const resource of resources.values()) {
    if (resource === history || resource.name === EVENT.model) continue;
    groups.set(resource.group, [...(groups.get(resource.group) ?? []), resource]);
  }
  return [...groups].map(([group, members]) => ({
    title: group === '' ? t('groupOfRecords') : group,
    resources: members,
  }));
}

const item = ({ request }: AdminContext, { name, title }: AdminView): Html => {
  const href = links.list(name);
  const isCurrent = withBasePath(request.path).startsWith(href);
  return html`<li><a href="${href}" ${attributes({ 'aria-current': isCurrent && 'true' })}>${title}</a></li>`;
};

/** The menu in the header. */
export const listMenu = (context: AdminContext): Html =>
  html`<nav class="lists" aria-label="${t('lists')}">
    <details class="menu">
      <summary>${t('lists')}</summary>
      <ul>
        ${[...context.resources.values()].map((resource) => item(context, resource))}
      </ul>
    </details>
  </nav>`;

/** The same lists by group. Of this and the menu, the stylesheet shows one. */
export function listGroups(context: AdminContext): Html {
  const { resources, history } = context;
  const system = [history, resources.get(EVENT.model)].filter((one) => one && resources.has(one.name));
  const groups = [...groupsOf(context), { title: t('system'), resources: system }];
  return html`<nav class="side" aria-label="${t('allLists')}">
    ${groups.map(
      ({ title, resources: members }) =>
        members.length > 0 &&
        html`<h2>${title}</h2>
          <ul>
            ${members.map((resource) => resource && item(context, resource))}
          </ul>`,
    )}
  </nav>`;
}
