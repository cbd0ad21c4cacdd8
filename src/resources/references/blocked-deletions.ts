// Explains deletions that the database rejects because other records refer to the record.
import { isOfTable, isRaised, type DatabaseError } from '../../db/connection/database-errors.ts';
import type { Database } from '../../db/connection/database.ts';
import { foreignKeysOf, partsOf, type Column } from '../../db/schema/model.ts';
import { Problem } from '../../errors.ts';
import { referrersStatement } from '../../query/statements/conflict-statements.ts';
import type { ServedResource } from '../serve/served-resource.ts';
import { FOREIGN_KEY_VIOLATION } from './reference-checks.ts';

type Run = Pick<Database, 'run'>;

/** The second code is that of RESTRICT since PostgreSQL 18. */
const FOREIGN_KEY_VIOLATIONS: ReadonlySet<string> = new Set([FOREIGN_KEY_VIOLATION, '23001']);

/** The statements by which PostgreSQL deletes and changes the records that refer to a deleted one. */
const CASCADE = /(DELETE FROM|UPDATE) ONLY "/;

/**
 * Whether records refer to a deleted record, or to one that the deletion cascades to. A trigger may violate other foreign keys. One
 * that raises the error itself names the table of the records that refer.
 */
export function isStillReferenced(error: DatabaseError): boolean {
  const { code, table_name: table, where } = error;
  if (!FOREIGN_KEY_VIOLATIONS.has(code)) return false;
  if (isRaised(error)) return table !== undefined;
  return where === undefined || where.split('\n').every((line) => CASCADE.test(line));
}

/** A deletion that the database rejects because other records refer to the record. */
export class StillReferenced extends Problem {
  /** The models of those records; empty where the registry does not know their table. */
  readonly models: readonly string[];

  constructor(detail: string, models: readonly string[]) {
    super(409, detail);
    this.models = models;
  }
}

/** The foreign keys that are output: the error must not show that a record has a certain value in a hidden column. */
const shownForeignKeys = ({ model, excluded }: ServedResource): readonly Column[] =>
  foreignKeysOf(model).filter((key) => !partsOf(key).some((part) => excluded.has(part)));

/** Explains a rejected deletion: names the models whose records refer to the record, limited to those the caller may read. */
export async function deletionProblem(
  error: DatabaseError,
  database: Run,
  { model, all }: ServedResource,
  id: string,
): Promise<StillReferenced> {
  // The foreign key of a view is only in the registry, so it blocks no deletion.
  const readable = [...all.values()].filter(({ model: { isTable }, isReadable }) => isTable && isReadable);
  const foreignKeys = readable.flatMap((resource) =>
    shownForeignKeys(resource)
      .filter(({ references, onDelete }) => references === model && onDelete === 'restrict')
      .map((column) => ({ model: resource.model, column })),
  );
  const refers =
    foreignKeys.length > 0 ? await database.run(referrersStatement(foreignKeys, id), 'write') : [];
  const found = foreignKeys.filter((_, index) => refers[index]).map((key) => key.model.name);
  // A record that stops a cascade refers only indirectly. PostgreSQL names its table.
  const further = readable.filter(
    (resource) =>
      isOfTable(resource.model, error) &&
      shownForeignKeys(resource).length === foreignKeysOf(resource.model).length,
  );
  const names = [...new Set(found.length > 0 ? found : further.map(({ name }) => name))];
  const who = names.length > 0 ? `Records of ${names.join(', ')}` : 'Other records';
  return new StillReferenced(`${who} refer to this one.`, names);
}
