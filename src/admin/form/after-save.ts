import { asProblem } from '../../db/connection/database-errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { links } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';
import { redirectWith, type AdminRequest } from '../web/admin-request.ts';

/** What a form has done with its record. */
const OUTCOME_TEXTS = {
  added: 'was added.',
  repeated: 'was added once: the form was sent twice.',
  changed: 'was changed.',
  kept: 'is as it was: nothing was changed.',
} as const;

export type SaveOutcome = keyof typeof OUTCOME_TEXTS;

/** The name of a record that was saved: undefined where it is gone, null where its name cannot be read now. */
async function nameOf(
  { browsing }: AdminContext,
  resource: AdminResource,
  id: string,
): Promise<string | null | undefined> {
  try {
    const [name] = (await browsing.labelsOf(resource, new Set([id]))).values();
    return name;
  } catch (error) {
    // The change is committed. An error would say that it was not made.
    if (!asProblem(error)) throw error;
    return null;
  }
}

/** To where the button that was pressed leads: the list from which the visitor came, the record, or a new one. */
export async function afterSave(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  id: string,
  form: Form,
  deed: SaveOutcome,
): Promise<Reply> {
  const { name, title } = resource;
  const how = form.get('_save');
  const list = form.get('_list');
  const label = await nameOf(context, resource, id);
  if (label === undefined) {
    const done = {
      added: 'was added, and ',
      repeated: 'was added, and ',
      changed: 'was changed, and ',
      kept: '',
    };
    return redirectWith(adminRequest, links.back(name, list), {
      kind: 'failed',
      text: `The record ${done[deed]}is gone by now.`,
    });
  }
  const to =
    how === 'stay' || how === 'new'
      ? links.from(list, links.record(name, id))
      : how === 'another'
        ? links.action(name, 'add')
        : links.back(name, list);
  const called = label === null ? 'the record' : `“${shortened(label, 80)}”`;
  const isThere = how === 'stay' || how === 'new';
  return redirectWith(adminRequest, to, {
    kind: 'done',
    text: `${title}: ${called} ${OUTCOME_TEXTS[deed]}`,
    ...(!isThere && { href: links.record(name, id) }),
  });
}
