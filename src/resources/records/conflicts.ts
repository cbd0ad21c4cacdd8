// Explains writes that the database rejects because of other records or of its rules.
import type { Database } from '../../db/connection/database.ts';
import { quotedName, quotedTable } from '../../db/fragment.ts';
import { ruleKey, type Column, type Model } from '../../db/schema/model.ts';
import { sequenceReason } from '../../db/schema/sequences.ts';
import {
  DatabaseFault,
  duplicateColumns,
  isDatabaseError,
  isOfTable,
  isInFunction,
  isRaised,
  isRuleError,
  refusal,
  type DatabaseError,
} from '../../db/connection/database-errors.ts';
import { addError, Problem, type FieldErrors } from '../../errors.ts';
import { ownConstraintStatement } from '../../query/statements/conflict-statements.ts';
import type { Change } from '../../query/statements/change.ts';
import { FOREIGN_KEY_VIOLATION, missingReference } from '../references/reference-checks.ts';
import type { ServedResource } from '../serve/served-resource.ts';
import { historyFault, NOT_SUPPORTED, suppressed } from './write-result.ts';

export const UNIQUE_VIOLATION = '23505';
/** SQLSTATE of a number that does not fit its type. */
const OUT_OF_RANGE = '22003';

type Run = Pick<Database, 'run'>;

const changed = (error: DatabaseError, values: Partial<DatabaseError>): DatabaseError =>
  Object.assign(Object.create(error) as DatabaseError, values);

/** Turns the error of a partition, which names the partition and its own constraint, into one of its table. */
async function ofWholeTable(error: DatabaseError, model: Model, database: Run): Promise<DatabaseError> {
  const { schema_name: schema, table_name, constraint_name: name } = error;
  if (schema === undefined || table_name === undefined || name === undefined) return error;
  const own = await database.run(ownConstraintStatement(model, { schema, table: table_name, name }), 'write');
  if (own === undefined) return error;
  const table = model.table.split('.').at(-1) ?? table_name;
  return changed(error, { schema_name: model.schema ?? schema, table_name: table, constraint_name: own });
}

/** A write that the database has refused: the resource, and what was sent for each of its records. */
export interface Refused {
  readonly resource: Pick<ServedResource, 'model' | 'recording'>;
  /** Empty for a deletion. */
  readonly records: readonly { readonly changes: readonly Change[] }[];
  readonly isNew: boolean;
}

/** All values that a write sends. */
export const valuesIn = (records: Refused['records']): (string | null)[] =>
  records.flatMap(({ changes }) => changes.map(({ value }) => value));

/** The fault if a sequence is the reason for an error, and not what was sent. */
async function sequenceFault(
  error: DatabaseError,
  { resource: { model }, records, isNew }: Refused,
  database: Run,
): Promise<DatabaseFault | undefined> {
  const { code, schema_name: schema, table_name: table = '' } = error;
  const isTooLarge = code === OUT_OF_RANGE && isNew && !isInFunction(error);
  if (isRaised(error) || !(isTooLarge || code === UNIQUE_VIOLATION)) return undefined;
  const isOwn = !isInFunction(error) && (!model.isTable || isOfTable(model, error) || isTooLarge);
  // A view may have another name for it.
  const isKnown = (field: string): boolean =>
    isOwn && (model.isTable || [model.primaryKey, ...model.columns].some((column) => column.field === field));
  const isSent = (field: string): boolean =>
    records.every(({ changes }) => changes.some(({ column }) => column.field === field));
  const isMade = (field: string): boolean | undefined =>
    isKnown(field) ? isNew && !isSent(field) : undefined;
  const named = isTooLarge ? quotedTable(model.table) : `${quotedName(schema ?? '')}.${quotedName(table)}`;
  const constraint = isTooLarge ? undefined : error.constraint_name;
  try {
    const reason = await sequenceReason((one) => database.run(one, 'write'), named, constraint, isMade);
    return reason === undefined ? undefined : new DatabaseFault(error, reason);
  } catch (failure) {
    // Another engine may lack what the query reads.
    if (!isDatabaseError(failure)) throw failure;
    return undefined;
  }
}

/**
 * Adds to a database error what PostgreSQL leaves out: the table of a partition, and the columns of a check or exclusion constraint.
 * @returns another error if the history or a sequence is the reason; any other error unchanged
 */
export async function locateError(error: unknown, refused: Refused, database: Run): Promise<unknown> {
  const { model } = refused.resource;
  if (!isDatabaseError(error)) return error;
  const located =
    !model.isTable || isOfTable(model, error) ? error : await ofWholeTable(error, model, database);
  const fault = (await sequenceFault(located, refused, database)) ?? historyFault(error, refused.resource);
  if (fault) return fault;
  const fields = violatedFields(located, model);
  return fields.length === 0 ? located : changed(located, { column_name: fields.join(', ') });
}

/** The columns in the database that the violated rule uses, as far as they are known. */
function violatedFields(error: DatabaseError, model: Model): readonly string[] {
  const { constraint_name, column_name, table_name: table, 'data type_name': domain } = error;
  const named = column_name === undefined ? [] : [column_name];
  if (isRaised(error)) {
    // A trigger names the table with its schema, by its name alone, or not at all.
    const { schema_name = model.schema ?? '' } = error;
    return table === undefined || isOfTable(model, changed(error, { schema_name })) ? named : [];
  }
  if (isInFunction(error)) return [];
  const type = domain === undefined ? undefined : { schema: error.schema_name ?? '', name: domain };
  const fields = model.rules.get(ruleKey(constraint_name, type)) ?? [];
  // The error does not say which of several columns has the value that the domain refuses.
  if (domain !== undefined) return fields.length === 1 ? fields : [];
  // A missing value has a column, and from PostgreSQL 18 on also a constraint.
  return isOfTable(model, error) ? (model.rules.get(constraint_name ?? '') ?? named) : [];
}

/** The errors of a duplicate: for the columns that the client sent. */
function duplicateErrors(
  columns: readonly Column[],
  { owner }: Pick<ServedResource, 'owner'>,
  changes: readonly Change[],
): FieldErrors {
  const errors: FieldErrors = {};
  for (const column of new Set(columns))
    if (column !== owner && changes.some((change) => change.column === column))
      addError(errors, column.key, 'another record has this value');
  return errors;
}

export const conflict = (errors: FieldErrors): Problem =>
  new Problem(
    409,
    'A record with the same value already exists.',
    Object.keys(errors).length > 0 ? { errors } : {},
  );

/** The error of a new record, to which no other record can refer yet. */
export const explainNew = (error: DatabaseError): unknown =>
  error.code === FOREIGN_KEY_VIOLATION && !isInFunction(error)
    ? new Problem(409, 'A record that this one refers to does not exist.')
    : error;

/** Whether a trigger wrote the rejected row to another table. Never for a view, whose trigger writes the record itself. */
export const isFromTrigger = (error: DatabaseError, model: Model): boolean =>
  model.isTable && isInFunction(error) && !isOfTable(model, error);

/**
 * Explains why the database rejected the write of one record.
 * @returns a problem, or the error itself where there is no better explanation
 */
export function conflictProblem(
  error: DatabaseError,
  resource: ServedResource,
  { records, isNew }: Refused,
): unknown {
  const { model } = resource;
  const changes = records.flatMap((record) => record.changes);
  if (error.code === UNIQUE_VIOLATION && !isFromTrigger(error, model))
    return conflict(duplicateErrors(duplicateColumns(model, error), resource, changes));
  return missingReference(error, resource, changes) ?? (isNew ? explainNew(error) : error);
}

/** A problem whose message says which rule was broken. */
export class BrokenRule extends Problem {}

/**
 * An error for each of the given columns that the violated rule uses.
 * @param text what the resource says about the rule
 */
export function ruleFaults(
  error: DatabaseError,
  { model, columns, text }: { model: Model; columns: readonly Column[]; text?: string | undefined },
): FieldErrors {
  const fields = violatedFields(error, model);
  const fault =
    text ??
    (fields.length === 1
      ? 'a rule of the database does not allow this value'
      : 'a rule of the database does not allow these values together');
  const named = columns.filter(({ field }) => fields.includes(field));
  return Object.fromEntries(named.map(({ key }) => [key, [fault]]));
}

/** PostgreSQL's message. The name of the constraint follows unless it is a word of the message, as PostgreSQL's own messages have it. */
function withConstraint({ message, constraint_name: name = '' }: DatabaseError): string {
  const isSaid =
    name === '' || message.split(/[^\p{L}\p{N}_$]+/u).includes(name) || message.includes(`"${name}"`);
  return [message, ...(isSaid ? [] : [`(${name})`])].filter((part) => part !== '').join(' ');
}

/**
 * The answer to a write that the database has refused, with what the resource says about a rule: the text of its `constraints`, or
 * PostgreSQL's message where `databaseErrors` is `shown`.
 * @param explained the problem for the error, or the error itself
 * @param values all that the write sends
 * @returns a problem whose cause is the error, or what is no fault of the request
 */
export function explainRule(
  error: DatabaseError,
  {
    constraints,
    databaseErrors,
    model,
    output,
  }: Pick<ServedResource, 'constraints' | 'databaseErrors' | 'model' | 'output'>,
  explained: unknown,
  values: readonly (string | null)[],
): unknown {
  const isUnsupported = error.code === NOT_SUPPORTED && isInFunction(error);
  const problem =
    explained instanceof Problem ? explained : isUnsupported ? suppressed() : refusal(error, values, model);
  if (!problem) return new DatabaseFault(error);
  // The log warns of what passes.
  if (problem.status >= 500) return error;
  problem.cause = error;
  const { status, message, errors } = problem;
  const text = constraints.get(error.constraint_name ?? '');
  const isShown = databaseErrors === 'shown';
  const shown = (detail: string): Problem => {
    const named = errors ?? (isShown ? ruleFaults(error, { model, columns: output, text }) : {});
    const made = new BrokenRule(status, detail, Object.keys(named).length > 0 ? { errors: named } : {});
    made.cause = error;
    return made;
  };
  if (text !== undefined) return shown(text);
  // The message about a missing value contains the name of its column.
  const isNameHidden = error.code === '23502' && !output.some(({ field }) => field === error.column_name);
  if (!isShown || isNameHidden || explained instanceof Problem || !isRuleError(error)) return problem;
  const said = withConstraint(error);
  return shown(said === '' ? message : `${message.replace(/\.$/, '')}: ${said}`);
}
