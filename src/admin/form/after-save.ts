// The redirect and the message after a form was saved.
import { asProblem, isDatabaseError } from '../../db/connection/database-errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { links } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';
import { redirectDone, redirectFailed } from '../web/admin-request.ts';

/** The message after a form was saved, by what the form did with its record. */
const OUTCOME_TEXTS = {
  added: (record: string) => `${record} was added.`,
  repeated: (record: string) => `${record} was added once. The form was sent twice.`,
  changed: (record: string) => `${record} was changed.`,
  unchanged: (record: string) => `no changes to save in ${record}.`,
} as const;

export type SaveOutcome = keyof typeof OUTCOME_TEXTS;

/** The message when the record has been deleted since. */
function deletedText(outcome: SaveOutcome): string {
  if (outcome === 'unchanged') return 'The record has been deleted.';
  return `The record was ${outcome === 'changed' ? 'changed' : 'added'}, but has been deleted since.`;
}

/** The label of a saved record; undefined where the record no longer exists, null where the label cannot be read. */
async function labelOf(
  { browsing, resource }: ResourceContext,
  id: string,
): Promise<string | null | undefined> {
  try {
    const [label] = (await browsing.labelsOf(resource, new Set([id]))).values();
    return label;
  } catch (error) {
    // The change is committed. An error page would suggest that it was not.
    if (!asProblem(error) && !isDatabaseError(error)) throw error;
    return null;
  }
}

/** Redirects after a save as the pressed button asks: to the list, to the record, or to the form of another new record, which keeps the list. */
export async function afterSave(
  context: ResourceContext,
  id: string,
  form: Form,
  outcome: SaveOutcome,
): Promise<Reply> {
  const { name, title } = context.resource;
  const button = form.get('_save');
  const list = form.get('_list');
  const label = await labelOf(context, id);
  if (label === undefined) return redirectFailed(context, links.back(name, list), deletedText(outcome));
  const staysOnRecord = button === 'stay' || button === 'new';
  const to = staysOnRecord
    ? links.from(list, links.record(name, id))
    : button === 'another'
      ? links.from(list, links.action(name, 'add'))
      : links.back(name, list);
  const record = label === null ? 'the record' : `“${shortened(label, 80)}”`;
  const text = `${title}: ${OUTCOME_TEXTS[outcome](record)}`;
  return redirectDone(context, to, text, staysOnRecord ? undefined : links.record(name, id));
}
