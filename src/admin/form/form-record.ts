// A record in a form, with what was typed into its fields: the record of the page, or a row of a child table.
import { addError, type FieldErrors } from '../../errors.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { JsonField } from '../../resources/records/json-fields.ts';
import { type LabeledRecord, type StoredRecord } from '../../resources/records/labeled-record.ts';
import {
  digestOf,
  fieldsOf,
  isSame,
  valuesOf,
  type FormField,
  type Typed,
  type TypedValues,
} from '../fields/form-field.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';

/** The fields that a form has for a record. */
interface RecordFields {
  readonly resource: AdminView;
  /** What the names of the fields begin with: `line.0.` in a row, nothing in the record of the page. */
  readonly prefix: string;
  readonly fields: readonly FormField[];
}

/** A record in a form. */
export interface FormRecord extends RecordFields {
  /** The values that the form has: none of a column that it only shows. */
  readonly typed: TypedValues;
  /** The record as it is now; undefined for a new one, and for one that no longer exists. */
  readonly stored: StoredRecord | undefined;
  /** The version and the digests of the values that the form was made with. */
  readonly version: string;
  readonly origin: string;
}

/** The fields of the record of a page. */
export const pageFields = (resource: AdminView, isNew: boolean): RecordFields => ({
  resource,
  prefix: '',
  fields: resource.may.has(isNew ? 'add' : 'change') ? fieldsOf(resource, isNew) : [],
});

/** The digests of the values that a form is made with, for its field `_origin`. */
const originOf = (values: TypedValues): string =>
  [...values].map(([column, value]) => `${column.key}:${digestOf(value)}`).join(' ');

/** The digests of an `_origin`, by key. */
const digestsIn = (origin: string): ReadonlyMap<string, string> =>
  new Map(origin.split(' ').map((entry) => entry.split(':', 2) as [string, string]));

/** Maximum length of one `key:digest` entry in `_origin` (characters). */
const LONGEST_ENTRY = 80;

/** A new record. */
export const newRecord = <T extends RecordFields>(
  of: T,
  valueOf: (field: FormField) => Typed | undefined,
): T & FormRecord => ({
  ...of,
  typed: valuesOf(of.fields, valueOf),
  stored: undefined,
  version: '',
  origin: '',
});

/** A stored record as it is now. */
export function storedRecord<T extends RecordFields>(of: T, stored: StoredRecord): T & FormRecord {
  const typed = valuesOf(of.fields, (field) => field.stored(stored));
  return { ...of, typed, stored, version: stored.version, origin: originOf(typed) };
}

/**
 * A record as a form has it. That of a stored record has no field for a value that is too long, and for one that the caller may not change
 * in this record. Browsers leave out a checkbox that is not ticked, which `_origin` names.
 */
export function sentRecord<T extends RecordFields>(
  of: T,
  stored: StoredRecord | undefined,
  form: Form,
): T & FormRecord {
  const sent = form.get(`${of.prefix}_origin`) ?? '';
  // No page has a longer one.
  const origin = sent.length <= of.fields.length * LONGEST_ENTRY ? sent : '';
  const origins = digestsIn(origin);
  const typed = valuesOf(of.fields, (field) =>
    field.isNew || form.get(field.name) !== undefined || (field.isCheckbox && origins.has(field.column.key))
      ? field.read(form)
      : undefined,
  );
  return { ...of, typed, stored, version: form.get(`${of.prefix}_version`) ?? '', origin };
}

/** The hidden fields of a stored record, by which a later request can tell what has changed. */
export const originFields = ({ prefix, version, origin }: FormRecord): Html =>
  html`<input type="hidden" name="${prefix}_version" value="${version}" />
    <input type="hidden" name="${prefix}_origin" value="${origin}" />`;

/** Whether a stored record has other values in the form than those that the form was made with. */
export const isEdited = ({ typed, origin }: FormRecord): boolean => origin !== originOf(typed);

/** The fields in which something else was typed than the form was made with. */
export function editedFields({ fields, typed, origin }: FormRecord): readonly FormField[] {
  const origins = digestsIn(origin);
  return fields.filter(({ column }) => {
    const value = typed.get(column);
    return value && digestOf(value) !== origins.get(column.key);
  });
}

/** A value that differs from the stored one, and the side that changed it; neither where both did. */
export interface Difference {
  readonly field: FormField;
  readonly mine: Typed;
  /** Undefined for a value that is now too long for a form. */
  readonly theirs: Typed | undefined;
  readonly changedBy: 'mine' | 'theirs' | undefined;
}

/** The values of a form that differ from those of the record as it is now. */
export function differencesOf({ fields, typed, origin }: FormRecord, stored: LabeledRecord): Difference[] {
  const origins = digestsIn(origin);
  return fields.flatMap((field): Difference[] => {
    const [mine, theirs] = [typed.get(field.column), field.stored(stored)];
    if (!mine || isSame(mine, theirs)) return [];
    const before = origins.get(field.column.key);
    const isMine = theirs && before === digestOf(theirs);
    return [
      { field, mine, theirs, changedBy: before === digestOf(mine) ? 'theirs' : isMine ? 'mine' : undefined },
    ];
  });
}

/** The JSON body of a form, and the errors of values that cannot be in it. */
export interface FormBody {
  readonly fields: Map<string, JsonField>;
  readonly errors: FieldErrors;
}

/** The body of a record. It omits unchanged values, because a browser may not return them exactly. */
export async function bodyOf({
  fields,
  typed,
  stored,
}: Pick<FormRecord, 'fields' | 'typed'> & {
  readonly stored?: LabeledRecord | undefined;
}): Promise<FormBody> {
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

/** Whether a record already has the values of its form, as after a form that is sent twice. */
export async function isSaved({ browsing, caller }: ResourceContext, record: FormRecord): Promise<boolean> {
  const { resource, stored } = record;
  const { fields, errors } = await bodyOf(record);
  if (!stored || Object.keys(errors).length > 0) return false;
  return (await browsing.otherValues(resource, stored.id, fields, caller)).size === 0;
}
