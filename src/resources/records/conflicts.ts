// What the database refuses because of other records.
import type { Database } from '../../db/connection/database.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { duplicated, isOfTable, type DatabaseError } from '../../db/connection/database-errors.ts';
import { addError, badBody, Problem, type FieldErrors } from '../../errors.ts';
import { duplicatesStatement } from '../../query/statements/duplicate-statement.ts';
import type { Change } from '../../query/statements/change.ts';
import { referrersStatement } from '../../query/statements/write-statements.ts';
import type { ServedResource, ServedResources } from '../serve/served-resource.ts';
import { parseBooleans } from './write-result.ts';

/** Unique violation. */
export const DUPLICATE = '23505';
/** Foreign key violation. */
const MISSING = '23503';

/** A write, as far as other records can refuse it. */
export interface Attempt {
  readonly resource: ServedResource;
  /** Undefined for a new record. */
  readonly id: string | undefined;
  readonly changes: readonly Change[];
  /** See `CheckedBody`. */
  readonly hiddenReferences: readonly string[];
}

type Run = Pick<Database, 'run'>;

/** Names the columns that have a duplicate, as far as the client sent them and may see them. */
function namedErrors(columns: readonly Column[], { resource, changes }: Attempt): FieldErrors {
  const { output, owner } = resource;
  const errors: FieldErrors = {};
  for (const column of new Set(columns))
    if (column !== owner && output.includes(column) && changes.some((change) => change.column === column))
      addError(errors, column.key, 'another record has this value');
  return errors;
}

/** The columns of visible unique indexes in which another record has the values that were sent. */
async function visibleDuplicates({ resource, id, changes }: Attempt, database: Run): Promise<Column[]> {
  const { model, output, owner } = resource;
  const combinations = [...model.uniques.values()].flatMap((columns) => {
    const sent = columns.flatMap((column) => changes.filter((change) => change.column === column));
    const isVisible = columns.every((column) => output.includes(column) || column === owner);
    return columns.length > 0 && sent.length === columns.length && isVisible ? [sent] : [];
  });
  if (combinations.length === 0) return [];
  const [row] = await database.run(duplicatesStatement(model, id, combinations), 'write');
  const found = parseBooleans(row?.[0]);
  return combinations.flatMap((sent, index) => (found[index] ? sent.map(({ column }) => column) : []));
}

const conflict = (errors: FieldErrors): Problem =>
  new Problem(409, 'There is such a record already.', Object.keys(errors).length > 0 ? { errors } : {});

/** What is wrong with references to records that the caller may not read: of several, not which one. */
function missing(keys: readonly string[]): Problem {
  const fault =
    keys.length === 1 ? 'there is no such record' : `at least one of ${keys.join(', ')} refers to no record`;
  return badBody(Object.fromEntries(keys.map((key) => [key, [fault]])));
}

/**
 * Explains why the database refused a write. A refused write leaves no trace, so an answer that depended on hidden values would
 * let clients try value after value. When hidden values were sent, the answer depends on them only in being a refusal.
 * @returns a problem, or the error itself where this file has no better words for it
 */
export async function conflictProblem(
  error: DatabaseError,
  attempt: Attempt,
  database: Run,
): Promise<unknown> {
  const { resource, changes, hiddenReferences } = attempt;
  const { model, output } = resource;
  const sendsHidden = changes.some(({ column }) => !column.isPassword && !output.includes(column));
  if (error.code === DUPLICATE) {
    if (!sendsHidden) return conflict(namedErrors(duplicated(model, error), attempt));
    // Which of two duplicates PostgreSQL names depends on the order of its indexes, so the visible ones are looked up.
    const errors = namedErrors(await visibleDuplicates(attempt, database), attempt);
    return Object.keys(errors).length > 0 || hiddenReferences.length === 0 ? conflict(errors) : unspecific();
  }
  if (error.code !== MISSING || hiddenReferences.length === 0) return error;
  if (sendsHidden) return unspecific();
  return isOfTable(model, error) ? missing(hiddenReferences) : error;
}

/** The answer to a write with hidden values and references to hidden records: any of them may be the reason. */
const unspecific = (): Problem =>
  new Problem(
    409,
    'There is such a record already, or one of the records that this one refers to is not there.',
  );

/** Foreign key violation; since PostgreSQL 18 a RESTRICT has a code of its own. */
export const REFERRED: ReadonlySet<string> = new Set(['23503', '23001']);

/** A deletion that the database refuses, because other records refer to the record. */
export class Referred extends Problem {
  /** Whose records those are; empty where the registry does not know their table. */
  readonly models: readonly string[];

  constructor(detail: string, models: readonly string[]) {
    super(409, detail);
    this.models = models;
  }
}

/** Names the models whose records keep one from being deleted, as far as the caller may read them. */
export async function referred(
  error: DatabaseError,
  database: Run,
  resources: ServedResources,
  { model }: ServedResource,
  id: string,
  mayRead: (model: Model) => boolean,
): Promise<Referred> {
  const readable = [...resources.values()].filter((resource) => mayRead(resource.model));
  const foreignKeys = readable.flatMap((resource) =>
    resource.model.columns
      .filter(({ references, onDelete }) => references === model && onDelete === 'restrict')
      .map((column) => ({ model: resource.model, column })),
  );
  const [row] =
    foreignKeys.length > 0 ? await database.run(referrersStatement(foreignKeys, id), 'write') : [];
  const found = parseBooleans(row?.[0]).flatMap((refers, index) =>
    refers ? [foreignKeys[index]?.model.name ?? ''] : [],
  );
  // What stops a cascade is further away: PostgreSQL names its table.
  const further = readable.filter((resource) => isOfTable(resource.model, error));
  const names = [...new Set(found.length > 0 ? found : further.map(({ name }) => name))];
  const who = names.length > 0 ? `Records of ${names.join(', ')}` : 'Other records';
  return new Referred(`${who} refer to this one.`, names);
}
