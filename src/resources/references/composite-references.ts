// Checks composite foreign keys (of several columns) before a write, and explains writes that they reject.
import type { Database } from '../../db/connection/database.ts';
import { isOfTable, type DatabaseError } from '../../db/connection/database-errors.ts';
import { arrayText } from '../../db/fragment.ts';
import { isAmong, partsOf, type Column, type Model } from '../../db/schema/model.ts';
import { addError, type FieldErrors } from '../../errors.ts';
import type { Change } from '../../query/statements/change.ts';
import {
  compositeReferencesStatement,
  type Check,
  type CompositeReferenceCheck,
} from '../../query/statements/check-statements.ts';
import { storedCombinationsStatement } from '../../query/statements/insert-many.ts';
import type { ServedResource } from '../serve/served-resource.ts';

export const FOREIGN_KEY_VIOLATION = '23503';

type Run = Pick<Database, 'run'>;

/** The foreign key of several columns that an error is about, if the caller may see its columns. */
export function violatedComposite(
  error: DatabaseError,
  { model, output }: ServedResource,
): Column | undefined {
  if (error.code !== FOREIGN_KEY_VIOLATION || !isOfTable(model, error)) return undefined;
  const found = model.foreignKeys.find(({ constraint }) => constraint === error.constraint_name);
  return found && isAmong(found, output) ? found : undefined;
}

/** The error of each column of a foreign key that refers to no record. */
export function absentCompositeErrors(foreignKey: Column): (readonly [key: string, fault: string])[] {
  const keys = partsOf(foreignKey).map(({ key }) => key);
  return keys.map((key) => [key, absentFault(keys)] as const);
}

/** Adds the errors of a foreign key that refers to no record. */
export function addMissing(foreignKey: Column, errors: FieldErrors): void {
  for (const [key, fault] of absentCompositeErrors(foreignKey)) addError(errors, key, fault);
}

/** Whether the changes set a hidden value, other than a password: the answer to a refused write must not depend on it. */
export const setsHidden = (changes: readonly Change[], { output }: ServedResource): boolean =>
  changes.some(({ column }) => !column.isPassword && !output.includes(column));

/** A reference to a record that the caller may not read, or that the service cannot check. The write itself checks it. */
export interface HiddenReference {
  readonly keys: readonly string[];
  /** The error if it is the only one. */
  readonly fault: string;
  /** The foreign key, if the database does not check it: the statement that writes does so last. */
  readonly unenforced: Column | undefined;
}

export const ABSENT = 'there is no such record';

const absentFault = (keys: readonly string[]): string =>
  keys.length === 1 ? ABSENT : `${ABSENT} (${keys.join(', ')})`;

/** @param columns those that the caller may know */
export function asHidden(foreignKey: Column, model: Model, columns = partsOf(foreignKey)): HiddenReference {
  const keys = columns.map(({ key }) => key);
  const unenforced = isUnenforced(foreignKey, model) ? foreignKey : undefined;
  return { keys, fault: absentFault(keys), unenforced };
}

/** The foreign keys that the statement that writes must check. */
export const unenforcedHidden = (
  bodies: readonly { readonly hiddenReferences: readonly HiddenReference[] }[],
): readonly Column[] => {
  const hidden = bodies.flatMap(({ hiddenReferences }) => hiddenReferences);
  return hidden.length === 0 ? [] : [...new Set(hidden.flatMap(({ unenforced: one }) => one ?? []))];
};

/** A body, and what it needs checked of its foreign keys of several columns. */
export interface CompositeReferenceChecks {
  readonly changes: readonly Change[];
  /** Columns with a fault have no value. */
  readonly errors: FieldErrors;
  /** Checks of the statement that writes, for foreign keys of which the database's own error would say too much or too little. */
  readonly checks: Check[];
  readonly hiddenReferences: HiddenReference[];
  /**
   * References that a query can check. Where a constraint enforces them, the query runs only after a rejected write or with other
   * faults, because PostgreSQL names just one. Where none does (see `isUnenforced`), it runs before the write.
   */
  readonly later: CompositeReferenceCheck[];
}

/** Whether the database does not check the foreign key: it is of a view or foreign table, or refers to one. */
const isUnenforced = ({ parts, constraint, references }: Column, model: Model): boolean =>
  parts ? constraint === undefined : !model.isTable || references?.isTable === false;

/** The checks that the database does not make. */
const unenforced = (
  { later }: Pick<CompositeReferenceChecks, 'later'>,
  model: Model,
): CompositeReferenceCheck[] => later.filter(({ foreignKey }) => isUnenforced(foreignKey, model));

/** Whether the body needs a check before the write, because no constraint would refuse it. */
export const needsCheck = (body: Pick<CompositeReferenceChecks, 'later'>, model: Model): boolean =>
  unenforced(body, model).length > 0;

/**
 * Adds the checks of foreign keys of several columns. The database's own error serves if the caller sees all columns and sends no
 * hidden value. Otherwise a check before the write finds missing records if all values are known.
 */
export function addCompositeChecks(
  { changes, errors, checks, hiddenReferences, later }: CompositeReferenceChecks,
  resource: ServedResource,
  isUpdate: boolean,
  mayRead: (model: Model) => boolean = () => true,
): void {
  const { model, output } = resource;
  const sends = setsHidden(changes, resource);
  for (const foreignKey of model.foreignKeys) {
    const parts = partsOf(foreignKey);
    const sent = parts.flatMap((part) => changes.filter(({ column }) => column === part));
    // Columns with a fault have no value, and keep the body from being written.
    const isFaulty = parts.some(({ key, name }) => Object.hasOwn(errors, key) || Object.hasOwn(errors, name));
    if (sent.length === 0 || isFaulty) continue;
    const { references, isFull } = foreignKey;
    const isReadable = references !== undefined && mayRead(references);
    const isVisible = isAmong(foreignKey, output);
    const check =
      isVisible && isReadable && (!sends || isUnenforced(foreignKey, model))
        ? laterCheck(foreignKey, model, changes, isUpdate, mayRead)
        : undefined;
    if (check) {
      later.push(check);
      continue;
    }
    const values = sent.flatMap(({ value }) => (value === null ? [] : [value]));
    const isPartlyNull =
      values.length < sent.length ||
      (!isUpdate && parts.some((part) => !part.hasDefault && !sent.some(({ column }) => column === part)));
    if (isPartlyNull && !isFull) continue;
    // Records of one body may refer to themselves and to each other.
    const isCheckable = isReadable && references !== model;
    if (isCheckable && values.length === parts.length) {
      const value = arrayText(values);
      const kind = isUpdate && isVisible ? 'keptReference' : 'reference';
      for (const [key, fault] of absentCompositeErrors(foreignKey))
        checks.push({ column: foreignKey, value, kind, fieldName: key, fault });
      continue;
    }
    hiddenReferences.push(asHidden(foreignKey, model, isVisible ? parts : sent.map(({ column }) => column)));
  }
}

/** The value of a column after the write. Undefined if it is the present one, or if the database makes it. */
function valueOf(column: Column, changes: readonly Change[], isUpdate: boolean): string | null | undefined {
  const change = changes.find((one) => one.column === column);
  if (change) return change.value;
  return isUpdate || column.hasDefault || column.generated ? undefined : null;
}

/** The reference checks of a bulk update that no constraint makes, including those for columns that the form does not show. */
export const unenforcedOfMany = (
  body: Pick<CompositeReferenceChecks, 'changes' | 'later' | 'hiddenReferences'>,
  model: Model,
): CompositeReferenceCheck[] => [
  ...unenforced(body, model),
  ...unenforcedHidden([body]).map((foreignKey) => ({
    foreignKey,
    values: partsOf(foreignKey).map((part) => valueOf(part, body.changes, true)),
    ownKey: undefined,
  })),
];

/** The check of a foreign key that a body sets; undefined if the values are not known or it would reveal them. */
function laterCheck(
  foreignKey: Column,
  model: Model,
  changes: readonly Change[],
  isUpdate: boolean,
  mayRead: (model: Model) => boolean,
): CompositeReferenceCheck | undefined {
  const values = partsOf(foreignKey).map((part) => valueOf(part, changes, isUpdate));
  // The answer depends on the present values, so the caller must be able to read them.
  if (values.includes(undefined) && !(isUpdate && mayRead(model))) return undefined;
  const key = isUpdate ? [] : partsOf(model.primaryKey).map((part) => valueOf(part, changes, false));
  const ownKey = key.flatMap((value) => value ?? []);
  const isOwn = foreignKey.references === model && key.length > 0 && ownKey.length === key.length;
  return { foreignKey, values, ownKey: isOwn ? ownKey : undefined, mayKeep: isUpdate && mayRead(model) };
}

/**
 * Finds the foreign keys of several columns that refer to no record.
 * @param id the record that would be changed, if any
 */
export async function findMissing(
  model: Model,
  id: string | undefined,
  later: readonly CompositeReferenceCheck[],
  database: Run,
): Promise<Column[]> {
  const checks = later.filter(({ values }) => id !== undefined || !values.includes(undefined));
  if (checks.length === 0) return [];
  const results = await database.run(compositeReferencesStatement(model, id, checks), 'write');
  return checks.filter((_, index) => !results[index]).map(({ foreignKey }) => foreignKey);
}

/** Adds the errors of all that `findMissing` finds. */
export async function addAllMissing(
  model: Model,
  id: string | undefined,
  later: readonly CompositeReferenceCheck[],
  errors: FieldErrors,
  database: Run,
): Promise<void> {
  for (const foreignKey of await findMissing(model, id, later, database)) addMissing(foreignKey, errors);
}

/** The check of one of several new records. */
interface PlacedCheck extends CompositeReferenceCheck {
  /** The position of the record. */
  readonly index: number;
}

/** A foreign key of a new record that refers to no record. */
export interface PlacedMissing {
  readonly index: number;
  readonly foreignKey: Column;
}

/**
 * Finds the foreign keys of several new records that refer to no record. The records may refer to each other.
 * @param records the positions of the records, and the references to check
 */
export async function findMissingOfMany(
  records: readonly { readonly index: number; readonly later: readonly CompositeReferenceCheck[] }[],
  ownKeys: ReadonlySet<string>,
  database: Run,
): Promise<PlacedMissing[]> {
  const byForeignKey = new Map<Column, PlacedCheck[]>();
  for (const { index, later } of records)
    for (const check of later) {
      const known = byForeignKey.get(check.foreignKey);
      if (known) known.push({ ...check, index });
      else byForeignKey.set(check.foreignKey, [{ ...check, index }]);
    }
  const missing: PlacedMissing[] = [];
  for (const [foreignKey, checks] of byForeignKey) {
    const target = foreignKey.references;
    if (!target) continue;
    const complete: { index: number; values: readonly string[] }[] = [];
    for (const { index, values, ownKey } of checks) {
      const texts = values.flatMap((value) => value ?? []);
      if (texts.length < values.length) {
        if (foreignKey.isFull && texts.length > 0) missing.push({ index, foreignKey });
      } else if (ownKey === undefined || !ownKeys.has(JSON.stringify(texts)))
        complete.push({ index, values: texts });
    }
    if (complete.length === 0) continue;
    const rows = complete.map(({ values }) => values);
    const keys = partsOf(target.primaryKey);
    const statement = storedCombinationsStatement(target, keys, rows, { valueTypes: partsOf(foreignKey) });
    const found = await database.run(statement, 'write');
    for (const { index } of complete.filter((_, at) => found[at] !== true))
      missing.push({ index, foreignKey });
  }
  return missing;
}
