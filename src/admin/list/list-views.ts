// The views of a list: tabs that the registry defines by the query of a list's address.
import { textOfColumn } from '../../resources/records/labeled-record.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { columnOfMe } from '../../query/row-rules.ts';
import { loadOptional } from '../fields/optional-part.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { LinkParameters } from '../web/admin-links.ts';
import { attributes, html, type Html } from '../web/html.ts';
import type { ListState } from '../web/list-state.ts';

/** What `$me` and `$me.column` are for the caller; the function returns null where the record has no such value. */
async function valueOfMe(
  context: ResourceContext,
  columns: readonly string[],
): Promise<(column: string | undefined) => string | null> {
  const { caller, settings, resources, browsing } = context;
  const users: AdminView | undefined = resources.get(settings.userModel);
  const record =
    users && columns.length > 0
      ? await loadOptional(context, 'the views with $me', browsing.preview(users, caller.id))
      : undefined;
  return (name) => {
    if (name === undefined) return caller.id;
    const column = users?.find([name])?.column;
    return column && record ? textOfColumn(record.fields, column) : null;
  };
}

/** The tabs, and one for all records; false without views. A view of which the caller lacks a value is left out. */
export async function viewTabs(context: ResourceContext, state: ListState): Promise<Html | false> {
  const { views } = context.resource;
  if (views.length === 0) return false;
  const parsed = views.map(({ title, query }) => ({ title, parameters: LinkParameters.parse(query).list }));
  const named = parsed.flatMap(({ parameters }) => parameters.flatMap(({ value }) => columnOfMe(value)?.name ?? [])); // prettier-ignore
  const me = await valueOfMe(context, named);
  const tabs = parsed.flatMap(({ title, parameters }) => {
    const list = parameters.flatMap(({ name, value }) => {
      const mine = columnOfMe(value);
      const text = mine ? me(mine.name) : value;
      return text === null ? [] : [{ name, value: text }];
    });
    return list.length < parameters.length ? [] : [{ title, view: state.of(new LinkParameters(list)) }];
  });
  const all = [{ title: 'All', view: state.of(new LinkParameters()) }, ...tabs];
  return html`<nav class="tabs" aria-label="Views">
    <ul>
      ${all.map(({ title, view }) => html`<li><a href="${view.address()}" ${attributes({ 'aria-current': view.isSame(state) && 'page' })}>${title}</a></li>`)}
    </ul>
  </nav>`;
}
