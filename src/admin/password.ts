import { notFound, Problem, type FieldErrors } from '../errors.ts';
import type { Reply } from '../http/message.ts';
import type { AdminResource } from '../resources/admin.ts';
import { parseMembers } from '../resources/members.ts';
import type { Desk } from './desk.ts';
import type { Form } from './form-data.ts';
import { html } from './html.ts';
import { pageReply } from './layout.ts';
import { links } from './links.ts';
import { redirectWith, type Visit } from './visit.ts';
import { errorSummary, passwordFields } from './widgets.ts';

/** The page that sets a password, which is never shown and never comes back. */
export async function showPassword(
  desk: Desk,
  visit: Visit,
  resource: AdminResource,
  id: string,
  errors: FieldErrors = {},
): Promise<Reply> {
  const [column] = resource.passwords;
  if (!column) throw notFound('There is no such page.');
  const { name, title } = resource;
  const { label } = await desk.browsing.read(resource, id);
  const isFaulty = Object.keys(errors).length > 0;
  const body = html` ${isFaulty && errorSummary(errors, { _password: 'New password', _repeat: 'New password, again' })}
    <form method="post" action="${links.part(name, id, 'password')}" class="record">
      <input type="hidden" name="_csrf" value="${visit.csrf}" />
      <input type="hidden" name="username" value="${label}" autocomplete="username" />
      ${passwordFields(['_password', '_repeat'], errors)}
      <p class="hint">Whoever is logged in with the present password is logged out.</p>
      <div class="buttons">
        <button class="primary">Set the password</button>
        <a class="button" href="${links.record(name, id)}">Cancel</a>
      </div>
    </form>`;
  return pageReply(visit, {
    title: `Password of ${label}`,
    crumbs: [
      { text: title, href: links.list(name) },
      { text: label, href: links.record(name, id) },
      { text: 'Password' },
    ],
    kind: 'form',
    status: isFaulty ? 400 : 200,
    body,
  });
}

export async function setPassword(
  desk: Desk,
  visit: Visit,
  resource: AdminResource,
  id: string,
  form: Form,
): Promise<Reply> {
  const [column] = resource.passwords;
  if (!column) throw notFound('There is no such page.');
  const [password = '', repeat = ''] = [form.get('_password'), form.get('_repeat')];
  if (password === '') return showPassword(desk, visit, resource, id, { _password: ['is required'] });
  if (password !== repeat)
    return showPassword(desk, visit, resource, id, { _repeat: ['differs from the new password'] });
  const members = parseMembers(JSON.stringify({ [column.key]: password }));
  try {
    await desk.operations.update(resource, id, members, visit.caller, undefined);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 400) throw error;
    return showPassword(desk, visit, resource, id, {
      _password: error.errors?.[column.key] ?? [error.message],
    });
  }
  return redirectWith(visit, links.record(resource.name, id), {
    kind: 'done',
    text: 'The password was set.',
  });
}
