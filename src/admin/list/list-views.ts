// The views of a list: tabs of the registry and those that people save, each the query of a list's address.
import { textOfColumn } from '../../resources/records/labeled-record.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { columnOfMe } from '../../query/row-rules.ts';
import { notFound, Problem } from '../../errors.ts';
import { MAX_VIEWS, type SavedView } from '../../resources/users/saved-views.ts';
import type { Action } from '../session/action.ts';
import { loadOptional } from '../fields/optional-part.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { redirectDone, redirectFailed } from '../web/admin-request.ts';
import type { Form } from '../web/form-data.ts';
import { attributes, html, type Html } from '../web/html.ts';
import { ListState } from '../web/list-state.ts';
import { saveOnce, submitOnceField } from '../web/submit-once.ts';
import { t } from '../web/language.ts';
import { messageOf, textOf } from '../../messages.ts';
import { checkbox, inputField } from '../web/widgets.ts';

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

/** Whether the caller sees all columns that a list names. */
function isPossible(
  { browsing, resource }: ResourceContext,
  { selection, unknownColumns }: ListState,
): boolean {
  try {
    browsing.plan(resource, selection);
    return unknownColumns.length === 0;
  } catch (error) {
    if (error instanceof Problem) return false;
    throw error;
  }
}

/** The views of the caller and the shared ones. */
const savedOf = ({ savedViews, resource, caller }: ResourceContext): Promise<readonly SavedView[]> =>
  savedViews?.list(resource.name, caller) ?? Promise.resolve([]);

/**
 * The tabs, with one for all records, and a link that saves the list as one; false without both. A view is left out for callers
 * who lack a value of it, and one of others for callers who do not see its columns: its address names them.
 */
export async function viewTabs(context: ResourceContext, state: ListState): Promise<Html | false> {
  const { resource, caller, savedViews } = context;
  const saved = (await loadOptional(context, 'the saved views', savedOf(context))) ?? [];
  const views = [...resource.views.map((view) => ({ ...view, isShared: true, id: undefined })), ...saved];
  const parsed = views.map(({ query, ...view }) => ({
    ...view,
    parameters: LinkParameters.parseOrEmpty(query).list,
  }));
  const named = parsed.flatMap(({ parameters }) => parameters.flatMap(({ value }) => columnOfMe(value)?.name ?? [])); // prettier-ignore
  const me = await valueOfMe(context, named);
  const tabs = parsed.flatMap(({ parameters, ...tab }) => {
    const list = parameters.flatMap(({ name, value }) => {
      const mine = columnOfMe(value);
      const text = mine ? me(mine.name) : value;
      return text === null ? [] : [{ name, value: text }];
    });
    const view = state.of(new LinkParameters(list));
    const isShown = caller.admin || !tab.isShared || isPossible(context, view);
    return list.length === parameters.length && isShown ? [{ ...tab, view }] : [];
  });
  const all = [
    { title: t('allRecords'), view: state.of(new LinkParameters()), id: undefined, isShared: true },
    ...tabs,
  ];
  const current = all.find(({ view }) => view.isSame(state));
  const save = current ? current.id : '';
  const mayChange = savedViews && save !== undefined && (caller.admin || !current?.isShared);
  const list = state.parameters.without('page', 'limit');
  if (tabs.length === 0 && !mayChange) return false;
  return html`<nav class="tabs" aria-label="${t('views')}">
    <ul>
      ${tabs.length > 0 && all.map(({ title, view }) => html`<li><a href="${view.address()}" ${attributes({ 'aria-current': view.isSame(state) && 'page' })}>${title}</a></li>`)}
      ${mayChange && html`<li class="save"><a href="${links.action(resource.name, 'view', save === '' ? list : list.with('_view', save))}">${t(save === '' ? 'saveView' : 'changeView')}</a></li>`}
    </ul>
  </nav>`;
}

const labels = () => ({ title: t('title') });
/** Maximum length of a title (characters). */
const LONGEST_TITLE = 60;

/** Saves the list of the address as a view; with `_view`, renames or deletes that view. @throws Problem 404 */
export function saveView(context: ResourceContext): Action {
  const { resource, caller, request, savedViews } = context;
  if (!savedViews) throw notFound(t('noPage'));
  const asked = LinkParameters.parse(request.query);
  const id = asked.get('_view');
  const state = new ListState(resource, asked);
  const list = { text: resource.title, href: state.address() };
  const button = t(id === undefined ? 'saveView' : 'changeView');
  const titleIn = (form: Form): string => form.get('title')?.trim() ?? '';
  return {
    async page({ errors }, sent) {
      const view = (await savedOf(context)).find((one) => one.id === id);
      if (id !== undefined && (!view || (view.isShared && !caller.admin))) throw notFound(t('noView'));
      const parts = { errors: errors['title'], isRequired: true };
      const value = sent ? titleIn(sent) : view?.title;
      return {
        title: t('labeled', { label: button, value: resource.title }),
        crumbs: [list, button],
        address: links.action(resource.name, 'view', asked),
        fields: html`${inputField('title', t('title'), { value }, parts)}
        ${id === undefined ? html`${submitOnceField(sent)} ${caller.admin && checkbox({ name: 'shared', value: 1 }, t('shareView'))}` : checkbox({ name: 'delete', value: 1 }, t('deleteView'))}`,
        button: t('save'),
        back: list,
        labels: labels(),
      };
    },

    check(form) {
      const { length } = titleIn(form);
      if ((length > 0 && length <= LONGEST_TITLE) || (id !== undefined && form.get('delete') !== undefined))
        return undefined;
      const fault = length === 0 ? textOf(messageOf('required')) : t('titleTooLong', { max: LONGEST_TITLE });
      return { errors: { title: [fault] }, status: 400 };
    },

    async run(form) {
      const title = titleIn(form);
      if (id !== undefined) {
        const isDeleted = form.get('delete') !== undefined;
        if (
          !/^\d{1,18}$/.test(id) ||
          !(await savedViews.change(resource.name, caller, id, isDeleted ? undefined : title))
        )
          throw notFound(t('noView'));
        return redirectDone(context, list.href, isDeleted ? t('viewDeleted') : t('viewIsNow', { title }));
      }
      const query = state.parameters.without('page', 'limit').toString();
      const view = { title, query, isShared: form.get('shared') !== undefined };
      let hasRoom = true;
      await saveOnce(context, form, async (_, { run }) => {
        hasRoom = await savedViews.add(resource.name, caller, view, run);
        return { id: '' };
      });
      return hasRoom
        ? redirectDone(context, list.href, t('viewSaved', { title }))
        : redirectFailed(context, list.href, t('tooManyViews', { max: MAX_VIEWS }));
    },
  };
}
