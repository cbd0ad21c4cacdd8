// Saves the values of a form: the JSON body of the write, why it was refused, and the message after it.
import { asProblem, isDatabaseError } from '../../db/connection/database-errors.ts';
import type { Column } from '../../db/schema/model.ts';
import { addError, Problem, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { BrokenRule, ruleFaults } from '../../resources/records/explain.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import { byFormField, rulesOf, typedPassword, type Refusal } from '../session/password-confirmation.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { nextInList } from './place-in-list.ts';
import { redirectDone, redirectFailed, shownProblem } from '../web/admin-request.ts';
import { shortened } from '../web/display-text.ts';
import { keyOfField, type Form } from '../web/form-data.ts';
import { t } from '../web/language.ts';
import { isSame, type FormField, type TypedValues } from '../fields/form-field.ts';

/** The JSON body of a form, and the errors of values that cannot be in it. */
export interface FormBody {
  readonly fields: Map<string, JsonField>;
  readonly errors: FieldErrors;
}

/** The body of a form. It omits unchanged values, because a browser may not return them exactly. */
export async function bodyOf(
  fields: readonly FormField[],
  typed: TypedValues,
  stored: LabeledRecord | undefined,
): Promise<FormBody> {
  const body: FormBody = { fields: new Map(), errors: {} };
  for (const field of fields) {
    const { column, name } = field;
    const value = typed.get(column);
    if (!value) continue;
    const before = stored && field.stored(stored);
    // An empty field may show a NULL that a view, or an old row, has in a column that is NOT NULL.
    const isStillEmpty = !column.nullable && value.text === '' && before?.text === '';
    if (isSame(value, before) || isStillEmpty) continue;
    // An empty field of a new record is left out: the database sets the default, or the operation reports the missing field.
    const isLeftOut = field.hidesDefault || !(column.nullable || column.hasDefault);
    if (!stored && field.isEmpty(value) && isLeftOut) continue;
    const json = await field.json(value);
    if ('fault' in json) addError(body.errors, name, json.fault);
    else body.fields.set(column.key, json);
  }
  return body;
}

/** Whether a record already has the values of these fields, as after a form that is sent twice. */
export async function isSaved(
  { browsing, caller }: ResourceContext,
  resource: AdminView,
  fields: readonly FormField[],
  typed: TypedValues,
  stored: LabeledRecord,
): Promise<boolean> {
  const body = await bodyOf(fields, typed, stored);
  if (Object.keys(body.errors).length > 0) return false;
  return body.fields.size === 0 || browsing.hasValues(resource, stored.id, body.fields, caller);
}

/** Adds the password of a new record. An empty one is left out where the column is nullable. */
export function addPassword({ fields, errors }: FormBody, context: ResourceContext, form: Form): void {
  const [column] = context.resource.passwords;
  if (!column) return;
  const { text, refusal } = typedPassword(form, column, rulesOf(context, fields));
  if (text !== '' || refusal?.errors['_repeat'] || !column.nullable) Object.assign(errors, refusal?.errors);
  if (text !== '') fields.set(column.key, { value: text, source: JSON.stringify(text) });
}

/**
 * Why a write was refused, as its form shows it: the errors by field, with one at each column of the database rule that refused it,
 * or a notice about the whole. The notice names the rule.
 * @param columns that the form sets
 * @throws the error itself, if it is not about the values
 */
export function refusalOf(context: ResourceContext, error: unknown, columns: readonly Column[]): Refusal {
  const { resource } = context;
  const problem = shownProblem(context, error);
  if (!problem || ![400, 409, 500, 503].includes(problem.status)) throw error;
  const { errors, message: notice, status } = problem;
  const cause = error instanceof Problem ? error.cause : error;
  const marked = isDatabaseError(cause) ? ruleFaults(cause, { model: resource.model, columns }) : {};
  if (!errors || Object.keys(marked).length > 0) return { errors: marked, notice, status };
  return { errors: byFormField(errors, resource), ...(problem instanceof BrokenRule && { notice }), status };
}

/** The message after a form was saved, by what the form did with its record. */
const OUTCOME_TEXTS = {
  added: 'recordWasAdded',
  repeated: 'recordWasAddedOnce',
  changed: 'recordWasChanged',
  unchanged: 'noChangesToSave',
} as const;

export type SaveOutcome = keyof typeof OUTCOME_TEXTS;

/** The message when the record has been deleted since. */
function deletedText(outcome: SaveOutcome): string {
  if (outcome === 'unchanged') return t('recordHasBeenDeleted');
  return t(outcome === 'changed' ? 'changedThenDeleted' : 'addedThenDeleted');
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

/** Redirects after a save as the pressed button asks: to the list, to the record, to the next one, or to the form of another new one. */
export async function afterSave(
  context: ResourceContext,
  id: string,
  form: Form,
  outcome: SaveOutcome,
): Promise<Reply> {
  const { name, title } = context.resource;
  const button = form.get('_save');
  const list = form.get('_list');
  const nextId = button === 'next' ? form.get('_next') : undefined;
  const [label, next] = await Promise.all([
    labelOf(context, id),
    list !== undefined && nextId !== undefined && nextInList(context, list, keyOfField(nextId)),
  ]);
  if (label === undefined) return redirectFailed(context, links.back(name, list), deletedText(outcome));
  const staysOnRecord = button === 'stay' || button === 'new';
  const shown = staysOnRecord ? id : next && next.id;
  const to = shown
    ? links.inList(name, shown, list)
    : button === 'another'
      ? links.from(list, links.action(name, 'add'))
      : links.back(name, list);
  const record = label === null ? t('someRecord') : t('quoted', { text: shortened(label, 80) });
  const isLast = button === 'next' && !next;
  const done = t(OUTCOME_TEXTS[outcome], { title, record });
  const text = isLast ? t('noNextRecord', { done }) : done;
  return redirectDone(context, to, text, staysOnRecord ? undefined : links.record(name, id));
}
