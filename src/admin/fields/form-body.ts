import type { Column } from '../../db/schema/model.ts';
import { asProblem } from '../../db/connection/database-errors.ts';
import { addError, type FieldErrors } from '../../errors.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { Writing } from '../../resources/records/checked-body.ts';
import type { RecordEntry } from '../../resources/records/record-entry.ts';
import { jsonFieldOf, type JsonField } from '../../resources/records/json-fields.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { lengthFault } from './form-bounds.ts';
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

/** The JSON body that a form stands for, and what is wrong with texts that cannot stand in one. */
export interface FormBody {
  readonly members: Map<string, JsonField>;
  readonly errors: FieldErrors;
}

/** What was typed for a column of a stored record, as a member of a body or what is wrong with it. */
export function typedMember(column: Column, { text, isNull }: Typed): JsonField | { readonly fault: string } {
  const fault = lengthFault(column, text);
  if (fault !== undefined) return { fault };
  if (text === '' && (isNull || !takesEmpty(column)))
    return column.nullable ? NULL : { fault: 'is required' };
  if (column.references && column.type.parse(text, column).fault !== undefined)
    return { fault: 'choose one of the records: no single one is meant by this' };
  return jsonFieldOf(column, text);
}

/** Puts what was typed for one column into a body. */
function addMember(body: FormBody, column: Column, typed: Typed, isNew: boolean): void {
  // What is left empty on a new record is a default that was not shown, or a fault that the operation names.
  const isEmpty = typed.text === '' && (typed.isNull || !takesEmpty(column));
  if (isNew && isEmpty && (hidesDefault(column) || !(column.nullable || column.hasDefault))) return;
  const member = typedMember(column, typed);
  if ('fault' in member) addError(body.errors, column.key, member.fault);
  else body.members.set(column.key, member);
}

/** The body of a form. What was not touched is not in it, so that nothing of it is lost on the way through a browser. */
export function bodyOf(typed: TypedValues, stored: RecordEntry | undefined): FormBody {
  const body: FormBody = { members: new Map(), errors: {} };
  const present = stored && storedValues(stored, [...typed.keys()]);
  for (const [column, value] of typed) {
    if (present && isSame(value, present.get(column))) continue;
    addMember(body, column, value, stored === undefined);
  }
  return body;
}

/**
 * Adds the password of a new record, typed twice.
 * @param faultOf says what is wrong with a password
 */
export function addPassword(
  body: FormBody,
  { passwords }: AdminResource,
  form: Form,
  faultOf: (column: Column, password: string) => string | undefined,
): void {
  const [column] = passwords;
  if (!column) return;
  const text = form.get('_password') ?? '';
  const isRepeated = text === (form.get('_repeat') ?? '');
  if (!isRepeated) addError(body.errors, '_repeat', 'differs from the new password');
  const fault = text === '' || !isRepeated ? undefined : faultOf(column, text);
  if (fault !== undefined) addError(body.errors, '_password', fault);
  if (text !== '') body.members.set(column.key, { value: text, source: JSON.stringify(text) });
  else if (isRepeated && !column.nullable) addError(body.errors, '_password', 'is required');
}

/** What a write did, or what keeps it from being done: by field, or as a whole. */
export type Outcome<T> =
  | { readonly done: T }
  | {
      readonly done?: undefined;
      readonly errors: FieldErrors;
      readonly notice?: string;
      readonly status: number;
    };

/** What is wrong with a password belongs to the field where it was typed. */
function byField(errors: FieldErrors, { passwords }: AdminResource): FieldErrors {
  const keys = new Set(passwords.map(({ key }) => key));
  return Object.fromEntries(
    Object.entries(errors).map(([key, messages]) => [keys.has(key) ? '_password' : key, messages]),
  );
}

/** Runs a write, unless its form is faulty already: then all is told that is wrong with the rest. */
export async function attempt<T>(
  { members, errors }: FormBody,
  resource: AdminResource,
  { operations, writing }: { readonly operations: Operations; readonly writing: Writing },
  write: () => Promise<T>,
): Promise<Outcome<T>> {
  try {
    if (Object.keys(errors).length > 0) {
      const others = await operations.faults(resource, members, writing);
      return { errors: { ...byField(others, resource), ...errors }, status: 400 };
    }
    return { done: await write() };
  } catch (error) {
    const problem = asProblem(error);
    if (!problem || ![400, 409, 503].includes(problem.status)) throw error;
    const { errors: faults, message: notice, status } = problem;
    return faults ? { errors: byField(faults, resource), status } : { errors: {}, notice, status };
  }
}
