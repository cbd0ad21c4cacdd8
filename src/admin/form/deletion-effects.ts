import { createHash } from 'node:crypto';
import { isDatabaseError } from '../../db/connection/database-errors.ts';
import type { Problem } from '../../errors.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { Selection } from '../../resources/records/selection.ts';
import type { Dependents } from '../../resources/records/dependents.ts';
import { Referred } from '../../resources/records/conflicts.ts';
import {
  confirmationField,
  confirmCaller,
  type ConfirmationRefusal,
} from '../session/password-confirmation.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { links, Parameters } from '../web/admin-links.ts';
import { counted, grouped } from '../web/display-text.ts';
import type { AdminRequest } from '../web/admin-request.ts';

/** What deleting records would do to others. */
export interface Effects {
  readonly view: Content;
  /** Whether some others keep these from being deleted. */
  readonly isForbidden: boolean;
  /** What is to be said before it is done. */
  readonly warning: string;
  /** Stands for what was counted: another one means that something else would happen. */
  readonly digest: string;
}

/** More records than this are not named one by one in a link. */
const MOST_LINKED = 50;
/** A path of filters has no more parts than this, to be on the safe side of what the grammar takes. */
const MOST_PARTS = 5;
/** PostgreSQL ended the statement: it took too long. */
const CANCELED = '57014';

/** What an `in` takes: commas between, quotes as in CSV. */
const inList = (ids: readonly string[]): string =>
  ids.map((id) => (/[",]/.test(id) || id === '' ? `"${id.replaceAll('"', '""')}"` : id)).join(',');

/** Whether the admin area shows every step of the way from these dependents. */
function isShown({ resources }: AdminContext, { resource, path }: Dependents): boolean {
  let at = resource;
  return path.every((column) => {
    const from = at;
    at = column.references && resources.get(column.references.name);
    return from?.output.includes(column);
  });
}

/** The filters that find the dependents of these records, where the grammar has any. */
function filtersFor({ path }: Dependents, { ids, query, search }: Selection): Parameter[] | undefined {
  const way = path.map(({ name }) => name).join('__');
  if (ids) {
    const [only] = ids;
    if (ids.length > MOST_LINKED || only === undefined) return undefined;
    return [ids.length === 1 ? { name: way, value: only } : { name: `${way}__in`, value: inList(ids) }];
  }
  const { filters } = Parameters.parse(query);
  if (search !== '') return undefined;
  if (filters.length === 0) return [{ name: `-${way}__is`, value: 'null' }];
  const longest = Math.max(...filters.map(({ name }) => name.split('__').length));
  if (path.length + longest > MOST_PARTS) return undefined;
  return filters.map(({ name, value }) => ({
    name: name.startsWith('-') ? `-${way}__${name.slice(1)}` : `${way}__${name}`,
    value,
  }));
}

function item(context: AdminContext, dependents: Dependents, of: Selection): Html {
  const { resource, path, count, isCapped, depth } = dependents;
  const amount = isCapped ? `more than ${grouped(count)} records` : counted(count, 'record');
  if (!resource)
    return html`<li>
      ${amount} that the admin area does not show${depth === Infinity && ', further away'}
    </li>`;
  const what = html`${amount} of ${resource.title}`;
  if (depth === Infinity) return html`<li>${what}, further away</li>`;
  if (path.length === 0 || !isShown(context, dependents)) return html`<li>${what}</li>`;
  const way = path.map(({ title }) => title).join(' › ');
  const filters = filtersFor(dependents, of);
  const link = filters && links.list(resource.name, new Parameters(filters));
  return html`<li>${link === undefined ? what : html`<a href="${link}">${what}</a>`}, by “${way}”</li>`;
}

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
 * Says what else a deletion would touch: what forbids it, what goes as well, and what stays without its reference.
 * @param count how many records would be deleted
 * @param isRefused whether the database has refused it for records of a table that is not in the registry
 */
export async function effectsOf(
  context: AdminContext,
  resource: AdminResource,
  of: Selection,
  count: number,
  isRefused = false,
): Promise<Effects> {
  const [it, themselves, they] =
    count === 1 ? ['it', 'this record', 'It'] : ['them', 'these records', 'They'];
  const unknown = html`<li>Records of a table that is not shown here refer to ${it}.</li>`;
  const keeping = `What keeps ${themselves} from being deleted`;
  let all: Dependents[];
  try {
    all = await context.bulk.dependents(resource, of);
  } catch (error) {
    if (!isDatabaseError(error) || error.code !== CANCELED) throw error;
    const view = html`${isRefused && group(keeping, [unknown], 'forbidding')}
      <p class="effects">
        What refers to ${themselves} could not be counted in time. It may go with ${it}, lose its reference,
        or keep ${it} from being deleted.
      </p>`;
    const warning = `${they} will be gone for good, and so will what goes with ${it}.`;
    return { view, isForbidden: isRefused, warning, digest: 'uncounted' };
  }
  const those = (effect: Dependents['effect']): Html[] =>
    all.filter((one) => one.effect === effect).map((one) => item(context, one, of));
  const found = those('restrict');
  const restricting = isRefused && found.length === 0 ? [unknown] : found;
  const going = those('cascade');
  const isAlone = all.length === 0 && restricting.length === 0;
  const view = html`${group(keeping, restricting, 'forbidding')} ${group(`What is deleted with ${it}`, going)}
  ${group(`What stays, and no longer refers to ${it}`, those('setNull'))}
  ${isAlone && html`<p class="effects">No record that is known here refers to ${themselves}.</p>`}`;
  const rest = going.length > 0 ? `, and so will what is deleted with ${it}` : '';
  const warning = `${they} will be gone for good${rest}.`;
  const told = all.map((one) => [one.resource?.name, one.column?.key, one.effect, one.depth, one.count]);
  const digest = createHash('sha256').update(JSON.stringify(told)).digest('base64url').slice(0, 16);
  return { view, isForbidden: restricting.length > 0, warning, digest };
}

/** Why the database has refused a deletion, by what people call the resources. */
export function deletionRefusal({ resources }: AdminContext, problem: Problem): string {
  const names = problem instanceof Referred ? problem.models : [];
  const titles = names.flatMap((name) => resources.get(name)?.title ?? []);
  return titles.length > 0
    ? `Records of ${titles.join(', ')} need what would be deleted. Nothing was deleted.`
    : problem.message;
}

/**
 * Why these records cannot be deleted by this admin: one of them, or of what goes with them, is the admin's own user. So the
 * last admin cannot go.
 */
export async function ownDeletion(
  { bulk, settings }: AdminContext,
  { caller }: AdminRequest,
  resource: AdminResource,
  of: Selection,
): Promise<string | undefined> {
  const { userModel } = settings;
  if (!(await bulk.deletes(resource, of, userModel, caller.id))) return undefined;
  return resource.name === userModel
    ? 'You cannot delete yourself: let another admin do this.'
    : 'You would be deleted as well: let another admin do this.';
}

/** Whether a deletion may remove an admin, which a stolen session must not do. */
export const removesAdmin = (
  { bulk, settings }: AdminContext,
  resource: AdminResource,
  of: Selection,
): Promise<boolean> => bulk.deletesAdmin(resource, of, settings.userModel);

/** The field for the admin's own password, in the form that deletes an admin. */
export const deletionField = (refusal: ConfirmationRefusal | undefined): Html =>
  confirmationField(refusal?.errors ?? {}, 'Needed to delete an admin.', true);

/** Verifies the admin's own password where the deletion needs it; undefined where it may go on. */
export const confirmDeletion = async (
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  of: Selection,
  form: Form,
): Promise<ConfirmationRefusal | undefined> =>
  (await removesAdmin(context, resource, of)) ? confirmCaller(context, adminRequest, form) : undefined;
