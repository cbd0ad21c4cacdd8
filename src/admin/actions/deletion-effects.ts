// The effects of a deletion on other records, as its page shows them.
import { createHash } from 'node:crypto';
import { isAmong } from '../../db/schema/model.ts';
import { isDatabaseError, QUERY_CANCELED } from '../../db/connection/database-errors.ts';
import { listItem } from '../../query/parse/filter-values.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { Selection } from '../../query/selection.ts';
import type { Dependents } from '../../resources/records/dependents.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { links, LinkParameters } from '../web/admin-links.ts';
import { countedRecords } from '../web/display-text.ts';
import { phrase, t } from '../web/language.ts';

/** The effects of a deletion on other records. */
export interface Effects {
  readonly view: Content;
  /** Whether other records prevent the deletion. */
  readonly isForbidden: boolean;
  /** The warning above the button. */
  readonly warning: string;
  /** A digest of the effects. A different one means that the deletion would affect something else. */
  readonly digest: string;
}

/** Maximum ids in a link's filter. */
const MAX_LINKED = 50;
/** Maximum parts of a filter's path: a query follows at most four foreign keys. */
const MAX_PATH_PARTS = 5;

/** The value of an `in` filter: separated by commas, quoted as in CSV. */
const inList = (ids: readonly string[]): string => ids.map(listItem).join(',');

/** Whether the admin area shows every foreign key on the path from these dependents. */
function isShown({ resources }: AdminContext, { resource, path }: Dependents): boolean {
  let at = resource;
  return path.every((column) => {
    const from = at;
    at = column.references && resources.get(column.references.name);
    return from !== undefined && isAmong(column, from.output);
  });
}

/** The filters that find the dependents of a selection; undefined where no filter can express them. */
function filtersFor({ path }: Dependents, { ids, query, search }: Selection): Parameter[] | undefined {
  const prefix = path.map(({ name }) => name).join('__');
  if (ids) {
    const [only] = ids;
    if (ids.length > MAX_LINKED || only === undefined) return undefined;
    return [ids.length === 1 ? { name: prefix, value: only } : { name: `${prefix}__in`, value: inList(ids) }];
  }
  const { filters } = LinkParameters.parse(query);
  if (search !== '') return undefined;
  if (filters.length === 0) return [{ name: `-${prefix}__is`, value: 'null' }];
  const longest = Math.max(...filters.map(({ name }) => name.split('__').length));
  if (path.length + longest > MAX_PATH_PARTS) return undefined;
  return filters.map(({ name, value }) => ({
    name: name.startsWith('-') ? `-${prefix}__${name.slice(1)}` : `${prefix}__${name}`,
    value,
  }));
}

function item(context: AdminContext, dependents: Dependents, selection: Selection): Html {
  const { resource, path, count, isCapped, depth } = dependents;
  const records = countedRecords({ count, precision: isCapped ? 'exceeded' : 'exact' });
  const what = resource
    ? t('dependentsOf', { records, title: resource.title })
    : t('dependentsNotShown', { records });
  if (depth === Infinity) return html`<li>${t('indirectly', { what })}</li>`;
  if (!resource) return html`<li>${what}</li>`;
  if (path.length === 0 || !isShown(context, dependents)) return html`<li>${what}</li>`;
  const titles = path.map(({ title }) => title).join(' › ');
  const filters = filtersFor(dependents, selection);
  const link = filters && links.list(resource.name, new LinkParameters(filters));
  const linked = link === undefined ? what : html`<a href="${link}">${what}</a>`;
  return html`<li>${phrase('dependentsBy', { what: linked, titles })}</li>`;
}

/** Whether a trigger may delete or change these dependents first, so that they do not prevent the deletion. */
const canBeFreedByTrigger = ({ resource }: ResourceContext, { path }: Dependents): boolean =>
  [resource.model, ...path.flatMap(({ references }) => references ?? [])].some(
    (model) => model.hasDeleteTriggers,
  );

function group(title: string, items: readonly Html[], className?: string): Html | false {
  if (items.length === 0) return false;
  const list = html`<h2>${title}</h2>
    <ul>
      ${items}
    </ul>`;
  return className === undefined
    ? html`<section class="effects">${list}</section>`
    : html`<section class="effects ${className}">${list}</section>`;
}

/**
 * Lists the records that a deletion would affect: those that prevent it, are deleted with it, or lose their reference.
 * @param count the number of records to delete, to choose singular or plural
 * @param isRefused whether the database has refused the deletion because of a table outside the registry
 */
export async function effectsOf(
  context: ResourceContext,
  selection: Selection,
  count = 1,
  isRefused = false,
): Promise<Effects> {
  const unknown = html`<li>${t('unknownDependents', { count })}</li>`;
  const cannotDelete = t('cannotDelete', { count });
  let all: Dependents[];
  try {
    all = await context.bulk.dependents(context.resource, selection);
  } catch (error) {
    if (!isDatabaseError(error) || error.code !== QUERY_CANCELED) throw error;
    const view = html`${isRefused && group(cannotDelete, [unknown], 'forbidding')}
      <p class="effects">${t('dependentsNotCounted', { count })}</p>`;
    const warning = t('willBeDeletedWithAll', { count });
    return { view, isForbidden: isRefused, warning, digest: 'uncounted' };
  }
  const items = (some: readonly Dependents[]): Html[] => some.map((one) => item(context, one, selection));
  const itemsOf = (effect: Dependents['effect']): Html[] => items(all.filter((one) => one.effect === effect));
  const dependents = all.filter(({ effect }) => effect === 'restrict');
  const freed = isRefused ? [] : dependents.filter((one) => canBeFreedByTrigger(context, one));
  const found = items(dependents.filter((one) => !freed.includes(one)));
  const restricting = isRefused && found.length === 0 ? [unknown] : found;
  const cascading = itemsOf('cascade');
  const isAlone = all.length === 0 && restricting.length === 0;
  const view = html`${group(cannotDelete, restricting, 'forbidding')}
  ${group(t('triggerFirst', { count }), items(freed))} ${group(t('deletedWith', { count }), cascading)}
  ${group(t('noLongerLinked', { count }), itemsOf('setNull'))}
  ${isAlone && html`<p class="effects">${t('noDependents', { count })}</p>`}`;
  const warning = t(cascading.length > 0 ? 'willBeDeletedWithOthers' : 'willBeDeleted', { count });
  const effects = all.map((one) => [one.resource?.name, one.column?.key, one.effect, one.depth, one.count]);
  const digest = createHash('sha256').update(JSON.stringify(effects)).digest('base64url').slice(0, 16);
  return { view, isForbidden: restricting.length > 0, warning, digest };
}
