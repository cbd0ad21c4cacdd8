// Turns the values of a form into the JSON body of a write, and runs the write.
import type { Column } from '../../db/schema/model.ts';
import { TOO_MANY_ELEMENTS } from '../../db/types/array-types.ts';
import { BrokenRule, ruleFaults } from '../../resources/records/explain.ts';
import { addError, Problem, type FieldErrors } from '../../errors.ts';
import { isDatabaseError } from '../../db/connection/database-errors.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import { jsonFieldInTurns, type JsonField } from '../../resources/records/json-fields.ts';
import { byFormField, rulesOf, typedPassword } from '../session/password-confirmation.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { shownProblem } from '../web/admin-request.ts';
import { isDateTime, zoneFault } from '../web/time-zone.ts';
import { tooLongFault } from './form-bounds.ts';
import type { Form } from '../web/form-data.ts';
import {
  hidesDefault,
  isSame,
  NULL,
  storedValues,
  takesEmpty,
  type Typed,
  type TypedValues,
} from './form-values.ts';
import type { Message } from '../../messages.ts';

/** The JSON body of a form, and the errors of values that cannot be in it. */
export interface FormBody {
  readonly fields: Map<string, JsonField>;
  readonly errors: FieldErrors;
}

/** The JSON value of a typed value on a stored record, or its fault. */
export async function typedField(
  column: Column,
  { text, isNull }: Typed,
): Promise<JsonField | { readonly fault: Message | string }> {
  const fault = tooLongFault(column, text) ?? (isDateTime(column) ? zoneFault(text) : undefined);
  if (fault !== undefined) return { fault };
  if (text === '' && (isNull || !takesEmpty(column)))
    return column.nullable ? NULL : { fault: 'is required' };
  if (column.type.element && !text.startsWith('[')) return { fault: TOO_MANY_ELEMENTS };
  if (column.references && column.type.parse(text, column).fault !== undefined)
    return { fault: 'does not match exactly one record: choose one of the records' };
  return jsonFieldInTurns(column, text);
}

/** Adds the value of one column to the body. */
async function addField(body: FormBody, column: Column, typed: Typed, isNew: boolean): Promise<void> {
  // An empty field of a new record is left out: the database sets the default, or the operation reports the missing field.
  const isEmpty = typed.text === '' && (typed.isNull || !takesEmpty(column));
  if (isNew && isEmpty && (hidesDefault(column) || !(column.nullable || column.hasDefault))) return;
  const field = await typedField(column, typed);
  if ('fault' in field) addError(body.errors, column.key, field.fault);
  else body.fields.set(column.key, field);
}

/** Whether an empty field shows a NULL that a view, or an old row, has in a column that is NOT NULL. */
const isStillEmpty = ({ nullable }: Column, typed: Typed, before: Typed | undefined): boolean =>
  !nullable && typed.text === '' && before?.text === '';

/** The body of a form. It omits unchanged values, because a browser may not return them exactly. */
export async function bodyOf(typed: TypedValues, stored: LabeledRecord | undefined): Promise<FormBody> {
  const body: FormBody = { fields: new Map(), errors: {} };
  const current = stored && storedValues(stored, [...typed.keys()]);
  for (const [column, value] of typed) {
    const before = current?.get(column);
    if (isSame(value, before) || isStillEmpty(column, value, before)) continue;
    await addField(body, column, value, stored === undefined);
  }
  return body;
}

/** Adds the password of a new record. An empty one is left out where the column is nullable. */
export function addPassword({ fields, errors }: FormBody, context: ResourceContext, form: Form): void {
  const [column] = context.resource.passwords;
  if (!column) return;
  const { text, errors: found } = typedPassword(form, column, rulesOf(context, fields));
  if (text !== '' || found['_repeat'] || !column.nullable) Object.assign(errors, found);
  if (text !== '') fields.set(column.key, { value: text, source: JSON.stringify(text) });
}

/** The result of a write: its value, or the errors by field, or a notice about the whole. */
export type Outcome<T> =
  | { readonly done: T }
  | {
      readonly done?: undefined;
      readonly errors: FieldErrors;
      readonly notice?: string;
      readonly status: number;
    };

/** An error at each column of the database rule that refused a write. The notice on the page names the rule. */
export function ruleErrors(error: unknown, { model, output, readonly }: AdminView): FieldErrors {
  const cause = error instanceof Problem ? error.cause : error;
  if (!isDatabaseError(cause)) return {};
  return ruleFaults(cause, { model, columns: output.filter((column) => !readonly.has(column)) });
}

/**
 * Runs a write. If the form already has errors, only validates the rest, so that all errors are reported at once.
 * @param id of the record that the form changes; undefined for a new one
 */
export async function trySave<T>(
  context: ResourceContext,
  id: string | undefined,
  { fields, errors }: FormBody,
  write: () => Promise<T>,
): Promise<Outcome<T>> {
  const { operations, caller, resource } = context;
  try {
    if (Object.keys(errors).length > 0) {
      const otherErrors = await operations.faults(resource, fields, { id, caller });
      return { errors: { ...byFormField(otherErrors, resource), ...errors }, status: 400 };
    }
    return { done: await write() };
  } catch (error) {
    const problem = shownProblem(context, error);
    if (!problem || ![400, 409, 500, 503].includes(problem.status)) throw error;
    const { errors: faults, message: notice, status } = problem;
    const marked = ruleErrors(error, resource);
    if (!faults || Object.keys(marked).length > 0) return { errors: marked, notice, status };
    const about = problem instanceof BrokenRule ? { notice } : {};
    return { errors: byFormField(faults, resource), ...about, status };
  }
}
