// What the database refuses because of other records.
import type { Database } from '../db/connection.ts';
import { duplicated, isOfTable, type DatabaseError } from '../db/sqlstate.ts';
import { addError, Problem, type FieldErrors } from '../errors.ts';
import { referrersStatement, type Change } from '../query/write.ts';
import type { ServedResource, ServedResources } from './served.ts';
import { parseBooleans } from './verdict.ts';

/** Unique violation. */
export const DUPLICATE = '23505';

/** Says in which of the columns that were sent a duplicate stands; of the owner, whom nobody sends, nothing is told. */
export function duplicate(
  error: DatabaseError,
  { model, owner }: ServedResource,
  changes: readonly Change[],
): Problem {
  const sent = new Set(changes.map(({ column }) => column));
  const errors: FieldErrors = {};
  for (const column of duplicated(model, error)) {
    if (sent.has(column) && column !== owner) addError(errors, column.key, 'another record has this value');
  }
  const told = Object.keys(errors).length > 0 ? { errors } : {};
  return new Problem(409, 'There is such a record already.', told);
}

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

/** Says of which models the records are that keep one from being deleted. */
export async function referred(
  error: DatabaseError,
  database: Pick<Database, 'run'>,
  resources: ServedResources,
  { model }: ServedResource,
  id: string,
): Promise<Referred> {
  const foreignKeys = [...resources.values()].flatMap((resource) =>
    resource.model.columns
      .filter(({ references, onDelete }) => references === model && onDelete === 'restrict')
      .map((column) => ({ model: resource.model, column })),
  );
  const [row] = foreignKeys.length > 0 ? await database.run(referrersStatement(foreignKeys, id), 'work') : [];
  const found = parseBooleans(row?.[0]).flatMap((refers, index) =>
    refers ? [foreignKeys[index]?.model.name ?? ''] : [],
  );
  // What stops a cascade is further away: PostgreSQL names its table.
  const further = [...resources.values()].filter((resource) => isOfTable(resource.model, error));
  const names = [...new Set(found.length > 0 ? found : further.map(({ name }) => name))];
  const who = names.length > 0 ? `Records of ${names.join(', ')}` : 'Other records';
  return new Referred(`${who} refer to this one.`, names);
}
