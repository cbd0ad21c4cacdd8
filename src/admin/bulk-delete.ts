import { Problem } from '../errors.ts';
import type { Reply } from '../http/message.ts';
import type { AdminResource } from '../resources/admin.ts';
import { chosenRecords, hiddenChoice, includesCaller, listOf, type Choice } from './bulk-choice.ts';
import { effectsOf } from './delete-effects.ts';
import type { Desk } from './desk.ts';
import type { Form } from './form-data.ts';
import { html } from './html.ts';
import { pageReply } from './layout.ts';
import { links } from './links.ts';
import { counted, grouped } from './text.ts';
import { redirectWith, type Visit } from './visit.ts';

async function deletePage(
  desk: Desk,
  visit: Visit,
  resource: AdminResource,
  choice: Choice,
  count: number,
  notice?: string,
): Promise<Reply> {
  const { name, title } = resource;
  const [records, { view, isForbidden, warning }] = await Promise.all([
    chosenRecords(desk, resource, choice, count),
    effectsOf(desk, resource, choice.selection),
  ]);
  const isSelf = await includesCaller(desk, visit, resource, choice);
  const back = listOf(resource, choice);
  const body = html`${notice && html`<p class="error-summary" role="alert">${notice}</p>`} ${records} ${view}
  ${
    isForbidden
      ? html`<p class="lead">
            They cannot be deleted while other records need them. Delete or change those first.
          </p>
          <p><a class="button" href="${back}">Back to the list</a></p>`
      : html`<form method="post" action="${links.action(name, 'bulk')}" class="confirm">
          ${hiddenChoice(visit, choice, 'delete')}
          <input type="hidden" name="_expected" value="${count}" />
          <input type="hidden" name="_confirm" value="1" />
          <p class="lead">${isSelf && 'You are among them, and will be logged out. '}${warning}</p>
          <div class="buttons">
            <button class="danger">Delete ${counted(count, 'record')}</button>
            <a class="button" href="${back}">Keep them</a>
          </div>
        </form>`
  }`;
  return pageReply(visit, {
    title: `Delete ${counted(count, 'record')}?`,
    crumbs: [{ text: title, href: back }, { text: 'Delete' }],
    kind: 'delete',
    status: notice === undefined ? 200 : 409,
    body,
  });
}

/** Deletes chosen records, once somebody was told how many they are and what goes with them. */
export async function bulkDelete(
  desk: Desk,
  visit: Visit,
  resource: AdminResource,
  choice: Choice,
  form: Form,
): Promise<Reply> {
  const { bulk } = desk;
  const { selection } = choice;
  const ask = async (notice?: string): Promise<Reply> => {
    const count = await bulk.count(resource, selection);
    if (count > 0) return deletePage(desk, visit, resource, choice, count, notice);
    return redirectWith(visit, listOf(resource, choice), {
      kind: 'failed',
      text: 'There is nothing to delete.',
    });
  };
  if (form.get('_confirm') === undefined) return ask();
  const expected = Number(form.get('_expected'));
  try {
    await bulk.remove(resource, selection, visit.caller, expected);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 409) throw error;
    const count = await bulk.count(resource, selection);
    return ask(
      count === expected
        ? error.message
        : `It was ${counted(expected, 'record')} when you were asked, and is ${grouped(count)} now. Nothing was deleted.`,
    );
  }
  const list = links.list(resource.name, choice.state.without('page'));
  return redirectWith(visit, list, { kind: 'done', text: `${counted(expected, 'record')} deleted.` });
}
