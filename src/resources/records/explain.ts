// Explains the errors of the database in writes, for the API, the admin area, imports and bulk changes: what was attempted decides.
import { EVERY_ROW } from '../../query/source.ts';
import type { Database } from '../../db/connection/database.ts';
import {
  DatabaseFault,
  duplicateColumns,
  isDatabaseError,
  isInFunction,
  isOfTable,
  isRaised,
  isRuleError,
  refusal,
  type DatabaseError,
} from '../../db/connection/database-errors.ts';
import { quotedName, quotedTable } from '../../db/fragment.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import { foreignKeysOf, partsOf, ruleKey, type Column, type Model } from '../../db/schema/model.ts';
import { sequenceReason } from '../../db/schema/sequences.ts';
import { addError, MAX_REPORTED, Problem, type FieldErrors } from '../../errors.ts';
import { REQUEST_KEY } from '../definition/system-tables.ts';
import { messageOf, type Message, textOf } from '../../messages.ts';
import {
  existingKeysStatement,
  duplicatesStatement,
  isForbidden,
  isRolledBack,
} from '../../query/statements/check-statements.ts';
import {
  defaultsStatement,
  ownConstraintStatement,
  referrersStatement,
  trialOfDefaults,
} from '../../query/statements/conflict-statements.ts';
import type { Change, WritePlan } from '../../query/statements/write-plan.ts';
import { absentReference, FOREIGN_KEY_VIOLATION, namesOf } from './reference-checks.ts';
import type { ResourceView } from '../access/resource-view.ts';

export const UNIQUE_VIOLATION = '23505';
/** SQLSTATE of a number that does not fit its type. */
const OUT_OF_RANGE = '22003';
/** SQLSTATE of a value that is too large, such as for an index. */
const TOO_LARGE = '54000';
/** SQLSTATE of what PostgreSQL does not support, and of a statement that a rule has rewritten into one without RETURNING. */
const NOT_SUPPORTED = '0A000';
/** The second code is that of RESTRICT since PostgreSQL 18. */
const STILL_REFERENCED: ReadonlySet<string> = new Set([FOREIGN_KEY_VIOLATION, '23001']);
/** SQLSTATEs of refused values and rows. */
const REFUSED = /^(22|23|44)/;
/** The statements by which PostgreSQL deletes and changes the records that refer to a deleted one. */
const CASCADE = /(DELETE FROM|UPDATE) ONLY "/;

type Run = Pick<Database, 'run'>;

/** What was sent for a record. */
type Sent = readonly Change[];

/** A model whose records may refer to a deleted one, and the columns that the answer must not show. */
type Referring = Pick<ResourceView, 'model' | 'excluded'>;

/** A write that the database may refuse. */
export interface Attempt {
  readonly resource: Pick<
    ResourceView,
    'model' | 'recording' | 'owner' | 'output' | 'constraints' | 'databaseErrors' | 'visibility' | 'seenBy'
  >;
  readonly kind: WritePlan['kind'];
  /** Whether errors name the fields of a record, those of an array by their positions, or what is set in a selection. */
  readonly scope: 'record' | 'array' | 'selection';
  /** Empty for a deletion. */
  readonly records: readonly Sent[];
  /** The record that is deleted. */
  readonly id?: string;
  /** For a deletion: the models that the answer may name. */
  readonly referring?: () => readonly Referring[];
  /** For an array: inserts the first records without a lasting effect. It always throws: `isRolledBack` if it succeeds. */
  readonly tryFirst?: (count: number) => Promise<unknown>;
  readonly yieldIfDue?: YieldIfDue;
}

/** The error of a field, as data. */
interface Violation extends Message {
  readonly path: readonly (string | number)[];
}

/** Why a write is refused, as data. */
interface Explanation extends Message {
  readonly status: number;
  readonly violations?: readonly Violation[] | undefined;
}

/** The name of a field in errors: `2.title` is the title of the third record. */
export const nameOf = (...path: Violation['path']): string => path.join('.');

function problemOf({ status, violations, ...message }: Explanation): Problem {
  if (!violations) return new Problem(status, message);
  const errors: FieldErrors = {};
  for (const { path, ...fault } of violations) addError(errors, nameOf(...path), fault);
  return new Problem(status, message, { errors });
}

/** A problem whose message says which rule was broken. */
export class BrokenRule extends Problem {}

/** A trigger canceled the write without an error. What the trigger itself has written may stay. */
export class SuppressedWrite extends Problem {}

/** The problem for a write that a trigger canceled without an error. */
export const suppressed = (): SuppressedWrite => new SuppressedWrite(409, messageOf('notAllowed'));

/** A deletion that the database rejects because other records refer to the record. */
export class StillReferenced extends Problem {
  /** The models of those records; empty where the registry does not know their table. */
  readonly models: readonly string[];

  constructor(message: Message, models: readonly string[]) {
    super(409, message);
    this.models = models;
  }
}

/**
 * Explains why the database refused a write.
 * @param database runs the queries that find the reason: if the write was a part of a transaction, the error has ended it
 * @returns the problem to answer with, whose cause is the error; a DatabaseFault for what is no fault of the request; any other error
 * unchanged
 */
export async function explain(cause: unknown, attempt: Attempt, database: Run): Promise<unknown> {
  if (!isDatabaseError(cause)) return cause;
  if (isRolledBack(cause)) return suppressed();
  if (isForbidden(cause)) return new Problem(403, messageOf('outsideOfRules'));
  if (cause.code === UNIQUE_VIOLATION && cause.table_name === REQUEST_KEY.model)
    return new Problem(409, messageOf('keyInUse'));
  const error = await locateError(cause, attempt, database);
  if (!isDatabaseError(error)) return error;
  // A rule (CREATE RULE) has rewritten the statement into one without RETURNING.
  if (error.code === NOT_SUPPORTED && !isInFunction(error)) return suppressed();
  if (attempt.kind === 'delete' && isStillReferenced(error)) return stillReferenced(error, attempt, database);
  const explanation = await explanationOf(error, attempt, database);
  const isOfUnknownRecord = explanation ? isUnnamed(error, explanation) : isOfOneRecord(error);
  const found =
    attempt.scope === 'array' && isOfUnknownRecord ? await refusedRecord(error, attempt) : undefined;
  if (!found) return answerTo(error, attempt, explanation);
  const records = attempt.records.slice(found.position, found.position + 1);
  const own = await explain(found.error, { ...attempt, scope: 'record', records }, database);
  return own instanceof Problem && own.cause !== undefined ? atPosition(own, found.position) : own;
}

/** The problem of a record as that of an array. */
function atPosition({ status, message, errors = {}, cause }: Problem, position: number): Problem {
  const named = Object.entries(errors).map(([key, faults]) => [nameOf(position, key), faults] as const);
  const places: FieldErrors = named.length > 0 ? Object.fromEntries(named) : { [position]: [message] };
  return Object.assign(new Problem(status, message, { errors: places }), { cause });
}

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

/** What `locateError` needs to know of an attempt. */
interface Located extends Pick<Attempt, 'kind' | 'records'> {
  readonly resource: Pick<ResourceView, 'model' | 'recording'>;
}

/** The fault if a sequence is the reason for an error, and not what was sent. */
async function sequenceFault(
  error: DatabaseError,
  { resource: { model }, records, kind }: Located,
  database: Run,
): Promise<DatabaseFault | undefined> {
  const { code, schema_name: schema, table_name: table = '' } = error;
  const isNew = kind === 'insert';
  const isTooLarge = code === OUT_OF_RANGE && isNew && !isInFunction(error);
  if (isRaised(error) || !(isTooLarge || code === UNIQUE_VIOLATION)) return undefined;
  const isOwn = !isInFunction(error) && (!model.isTable || isOfTable(model, error) || isTooLarge);
  // A view may have another name for it.
  const isKnown = (field: string): boolean =>
    isOwn && (model.isTable || [model.primaryKey, ...model.columns].some((column) => column.field === field));
  const isSent = (field: string): boolean =>
    records.every((changes) => changes.some(({ column }) => column.field === field));
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

/** The errors of a default: of values, and of functions. */
const OF_DEFAULTS = /^(2[12]|42|54|P0)/;

/** The fault if a default is the reason for the error of an INSERT, which fails with the same error for any record. */
async function defaultFault(
  error: DatabaseError,
  { resource: { model }, records, kind }: Located,
  database: Run,
): Promise<DatabaseFault | undefined> {
  if (kind !== 'insert' || !model.isTable || !(isRaised(error) || OF_DEFAULTS.test(error.code)))
    return undefined;
  const sent = model.columns.filter((column) => records.every((one) => isSent(column, [one])));
  const fields = sent.map(({ field }) => field);
  try {
    const defaults = await database.run(defaultsStatement(quotedTable(model.table), fields), 'write');
    if (defaults.length > 0) await database.run(trialOfDefaults(defaults), 'write');
    return undefined;
  } catch (failure) {
    if (!isDatabaseError(failure)) throw failure;
    return failure.code === error.code && !isRolledBack(failure) ? new DatabaseFault(error) : undefined;
  }
}

/**
 * The fault if an error comes from the history table. The client did not cause it. The exception is a key that is too long for the
 * index of the table.
 */
function historyFault(
  error: DatabaseError,
  { recording }: Located['resource'],
): Problem | DatabaseFault | undefined {
  if (!recording || !isOfTable(recording.history, error)) return undefined;
  if (error.code === TOO_LARGE) return problemOf({ status: 400, code: 'historyKeyTooLong' });
  return new DatabaseFault(error, `the history cannot be written: ${error.message}`);
}

/**
 * Adds to a database error what PostgreSQL leaves out: the table of a partition, and the columns of a check or exclusion constraint.
 * @returns another error if the history or a sequence is the reason; any other error unchanged
 */
export async function locateError(error: unknown, attempt: Located, database: Run): Promise<unknown> {
  const { model } = attempt.resource;
  if (!isDatabaseError(error)) return error;
  const located =
    !model.isTable || isOfTable(model, error) ? error : await ofWholeTable(error, model, database);
  const fault =
    (await sequenceFault(located, attempt, database)) ??
    historyFault(error, attempt.resource) ??
    (await defaultFault(error, attempt, database));
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

/** Whether a trigger wrote the rejected row to another table. Never for a view, whose trigger writes the record itself. */
const isFromTrigger = (error: DatabaseError, model: Model): boolean =>
  model.isTable && isInFunction(error) && !isOfTable(model, error);

const isSent = (column: Column, records: readonly Sent[]): boolean =>
  records.some((changes) => changes.some((change) => change.column === column));

/** Explains a duplicate, or a foreign key that refers to nothing; undefined for any other error. */
async function explanationOf(
  error: DatabaseError,
  attempt: Attempt,
  database: Run,
): Promise<Explanation | undefined> {
  const { kind, resource } = attempt;
  if (kind === 'delete') return undefined;
  if (error.code === UNIQUE_VIOLATION && !isFromTrigger(error, resource.model))
    return duplicate(error, attempt, database);
  if (error.code !== FOREIGN_KEY_VIOLATION) return undefined;
  const missing = await missingReference(error, attempt, database);
  if (missing) return missing;
  // No other record can refer to a new one yet.
  return kind === 'insert' && !isInFunction(error) ? { status: 409, code: 'absentReference' } : undefined;
}

/** What is wrong with each of some columns, in which no two records are the same. It names only columns that the caller knows. */
function duplicateMessage(
  columns: readonly Column[],
  { scope, records, resource }: Pick<Attempt, 'scope' | 'records' | 'resource'>,
) {
  const isSelection = scope === 'selection';
  const known = columns.filter((column) => resource.output.includes(column) || isSent(column, records));
  if (known.length < 2) return { code: isSelection ? 'valueMustBeUnique' : 'valueTaken' } as const;
  const params = { fields: namesOf(known, resource) };
  return { code: isSelection ? 'valuesMustBeUnique' : 'valuesTaken', params } as const;
}

async function duplicate(error: DatabaseError, attempt: Attempt, database: Run): Promise<Explanation> {
  const { scope, records, resource } = attempt;
  const isSelection = scope === 'selection';
  const columns = [...new Set(duplicateColumns(resource.model, error))];
  const violations =
    scope === 'array'
      ? await duplicatesInArray(attempt, database)
      : columns
          .filter((column) => column !== resource.owner && isSent(column, records))
          .map(({ key }): Violation => ({ path: [key], ...duplicateMessage(columns, attempt) }));
  return {
    status: 409,
    code: isSelection ? 'duplicateOfSelection' : 'duplicate',
    violations: violations.length > 0 ? violations : undefined,
  };
}

/** The values of a record in some columns; undefined where it lacks one, as NULL is never a duplicate. */
function valuesOf(changes: Sent, columns: readonly Column[]): string[] | undefined {
  const values = columns.map((column) => changes.find((change) => change.column === column)?.value ?? null);
  return values.every((value) => value !== null) ? values : undefined;
}

/** Adds the errors of a record that is not written: those of its values that another record than `id` has in unique columns. */
export async function addDuplicates(
  attempt: Pick<Attempt, 'resource' | 'records'>,
  id: string | undefined,
  errors: FieldErrors,
  database: Run,
): Promise<void> {
  const { records, resource } = attempt;
  for (const columns of resource.model.wholeUniques) {
    const values = valuesOf(records[0] ?? [], columns);
    if (!values || resource.model.lateUniques.has(columns)) continue;
    const [isTaken] = await database.run(duplicatesStatement(resource.model, columns, [values], id), 'write');
    const message = duplicateMessage(columns, { ...attempt, scope: 'record' });
    for (const { key } of isTaken ? columns : []) addError(errors, key, message);
  }
}

/** The errors of records that have the values of a stored record, or of one before them, in unique columns. */
async function duplicatesInArray(attempt: Attempt, database: Run): Promise<Violation[]> {
  const { records, resource, yieldIfDue } = attempt;
  const { model, owner } = resource;
  const violations: Violation[] = [];
  let count = 0;
  for (const columns of model.wholeUniques) {
    const sent: { readonly index: number; readonly values: readonly string[] }[] = [];
    for (const [index, changes] of records.entries()) {
      const pause = yieldIfDue?.();
      if (pause) await pause;
      const values = valuesOf(changes, columns);
      if (values) sent.push({ index, values });
    }
    if (sent.length === 0) continue;
    const rows = sent.map(({ values }) => values);
    const found = await database.run(duplicatesStatement(model, columns, rows), 'write');
    const message = duplicateMessage(columns, attempt);
    for (const { index } of sent.filter((_, at) => found[at])) {
      if ((count += 1) > MAX_REPORTED) break;
      for (const column of columns)
        if (column !== owner) violations.push({ path: [index, column.key], ...message });
    }
  }
  return violations;
}

/**
 * Explains the violation of a foreign key that is in the registry; undefined for any other error. The writing statement has checked
 * the references: the database has made a part of it since, or the record was deleted.
 */
async function missingReference(
  error: DatabaseError,
  { scope, records, resource }: Attempt,
  database: Run,
): Promise<Explanation | undefined> {
  const { constraint_name: name } = error;
  const { model, owner, output } = resource;
  const found =
    name !== undefined && isOfTable(model, error) && !isInFunction(error)
      ? foreignKeysOf(model).find(({ constraint }) => constraint === name)
      : undefined;
  if (!found || found === owner) return undefined;
  const isKnown = (part: Column): boolean => output.includes(part) || isSent(part, records);
  const { parts, message } = absentReference(found, isKnown, resource);
  if (scope === 'array') {
    const places = await missingInArray(found, records, model, database);
    const paths = places.flatMap((index) => parts.map(({ key }) => [index, key]));
    if (paths.length > 0)
      return { status: 400, code: 'invalidBody', violations: paths.map((path) => ({ path, ...message })) };
    return { status: 400, code: 'absentReferences', params: { fields: namesOf(parts, resource) } };
  }
  const named = scope === 'selection' ? parts.filter((part) => isSent(part, records)) : parts;
  const violations = named.map(({ key }): Violation => ({ path: [key], ...message }));
  return { status: 400, code: 'invalidBody', violations };
}

/** The positions of the records whose foreign key refers to no record now. Those of an array may refer to each other. */
async function missingInArray(
  foreignKey: Column,
  records: readonly Sent[],
  model: Model,
  database: Run,
): Promise<number[]> {
  if (foreignKey.references === model) return [];
  const sent = records.flatMap((changes, index) => {
    const values = valuesOf(changes, partsOf(foreignKey));
    return values ? [{ index, values }] : [];
  });
  if (sent.length === 0) return [];
  const wanted = { foreignKey, keys: sent.map(({ values }) => values) };
  const [existing = []] = await database.run(existingKeysStatement([wanted], EVERY_ROW), 'write');
  return sent.flatMap(({ index }, at) => (existing[at] ? [] : [index])).slice(0, MAX_REPORTED);
}

/** Whether the values of one record are the reason, and not another record. */
const isOfOneRecord = (error: DatabaseError): boolean =>
  (REFUSED.test(error.code) || isRuleError(error)) &&
  (isRaised(error) || (error.code !== UNIQUE_VIOLATION && error.code !== FOREIGN_KEY_VIOLATION));

/** Whether it is a duplicate that no column names, such as one in a unique index on an expression or with a condition. */
const isUnnamed = ({ code }: DatabaseError, { violations }: Explanation): boolean =>
  code === UNIQUE_VIOLATION && violations === undefined;

/** Milliseconds after which the search for a refused record ends. */
const MAX_SEARCH = 3_000;

/**
 * The first record that the database refuses after those before it. PostgreSQL does not say which it was, so the search halves the
 * range and tries all records up to its middle.
 */
async function refusedRecord(
  error: DatabaseError,
  { records, tryFirst }: Attempt,
): Promise<{ position: number; error: DatabaseError } | undefined> {
  const end = performance.now() + MAX_SEARCH;
  let found = { position: records.length - 1, error };
  let accepted = 0;
  while (accepted < found.position) {
    const middle = Math.ceil((accepted + found.position) / 2);
    const outcome = await tryFirst?.(middle).catch((one: unknown) => one);
    if (!isDatabaseError(outcome) || performance.now() > end) return undefined;
    if (isRolledBack(outcome)) accepted = middle;
    else if (outcome.code === error.code) found = { position: middle - 1, error: outcome };
    else return undefined;
  }
  if (found.error !== error || records.length === 1) return found;
  // An AFTER trigger or a deferred constraint may have refused any of them, and does not run in a trial.
  const outcome = await tryFirst?.(records.length).catch((one: unknown) => one);
  return isDatabaseError(outcome) && outcome.code === error.code ? found : undefined;
}

/**
 * Whether records refer to a deleted record, or to one that the deletion cascades to. A trigger may violate other foreign keys. One
 * that raises the error itself names the table of the records that refer.
 */
function isStillReferenced(error: DatabaseError): boolean {
  const { code, table_name: table, where } = error;
  if (!STILL_REFERENCED.has(code)) return false;
  if (isRaised(error)) return table !== undefined;
  return where === undefined || where.split('\n').every((line) => CASCADE.test(line));
}

/** The foreign keys that are output: the error must not show that a record has a certain value in a hidden column. */
const shownForeignKeys = ({ model, excluded }: Referring): Column[] =>
  foreignKeysOf(model).filter((key) => !partsOf(key).some((part) => excluded.has(part)));

/** Names the models whose records refer to a deleted one, limited to those that may be named. */
async function stillReferenced(
  error: DatabaseError,
  { resource: { model, visibility }, id, referring }: Attempt,
  database: Run,
): Promise<StillReferenced> {
  const models = referring?.() ?? [];
  // A record that stops a cascade refers only indirectly. PostgreSQL names its table, but the caller may not see the record.
  const named = models
    .filter((one) => !visibility.rows(one.model))
    .filter((one) => isOfTable(one.model, error))
    .filter((one) => shownForeignKeys(one).length === foreignKeysOf(one.model).length)
    .map((one) => one.model.name);
  if (id === undefined) return new StillReferenced({ code: 'selectionReferenced' }, named);
  const foreignKeys = models.flatMap((one) =>
    shownForeignKeys(one)
      .filter(({ references, onDelete }) => references === model && onDelete === 'restrict')
      .map((column) => ({ model: one.model, column })),
  );
  const refers =
    foreignKeys.length > 0
      ? await database.run(referrersStatement(foreignKeys, id, visibility), 'write')
      : [];
  const found = foreignKeys.filter((_, index) => refers[index]).map((key) => key.model.name);
  const names = [...new Set(found.length > 0 ? found : named)];
  return new StillReferenced(
    names.length > 0
      ? { code: 'referencedBy', params: { models: names.join(', ') } }
      : { code: 'referenced' },
    names,
  );
}

/**
 * An error for each of the given columns that the violated rule uses.
 * @param text what the resource says about the rule
 */
export function ruleFaults(
  error: DatabaseError,
  { model, columns, text }: { model: Model; columns: readonly Column[]; text?: string | undefined },
): FieldErrors {
  const fields = violatedFields(error, model);
  const fault = text ?? textOf({ code: fields.length === 1 ? 'ruleOfValue' : 'ruleOfValues' });
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
 * The answer to a refused write, with what the resource says about a rule: the text of its `constraints`, or PostgreSQL's message
 * where `databaseErrors` is `shown`.
 */
function answerTo(
  error: DatabaseError,
  { resource, scope, records }: Attempt,
  explanation: Explanation | undefined,
): unknown {
  const { constraints, databaseErrors, model, output } = resource;
  const values = records.flatMap((changes) => changes.map(({ value }) => value));
  const isUnsupported = error.code === NOT_SUPPORTED;
  const problem = explanation
    ? problemOf(explanation)
    : isUnsupported
      ? suppressed()
      : refusal(error, values, model);
  if (!problem) return new DatabaseFault(error);
  // The log warns of what passes.
  if (problem.status >= 500) return error;
  problem.cause = error;
  const { status, message, errors } = problem;
  const text = constraints.get(error.constraint_name ?? '');
  const isShown = databaseErrors === 'shown';
  const shown = (detail: string): Problem => {
    // In an array it is not known which record broke the rule, so its fields alone would name none.
    const ofRule = isShown && scope !== 'array' ? ruleFaults(error, { model, columns: output, text }) : {};
    const named = errors ?? ofRule;
    const made = new BrokenRule(status, detail, Object.keys(named).length > 0 ? { errors: named } : {});
    made.cause = error;
    return made;
  };
  if (text !== undefined) return shown(text);
  const said = (what: string): Problem =>
    shown(what === '' ? message : `${message.replace(/\.$/, '')}: ${what}`);
  if (explanation && isUnnamed(error, explanation) && resource.seenBy.surface === 'admin') {
    const columns = duplicateColumns(model, error).filter((column) => output.includes(column));
    return said(`${namesOf(columns, resource)} (${error.constraint_name ?? ''})`.trim());
  }
  // The message about a missing value contains the name of its column.
  const isNameHidden = error.code === '23502' && !output.some(({ field }) => field === error.column_name);
  if (!isShown || isNameHidden || explanation || !isRuleError(error)) return problem;
  return said(withConstraint(error));
}
