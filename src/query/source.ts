// Where statements read and write. Only this file writes the name of a relation, so that no statement can forget a rule about rows.
import { identifier, raw, sql, table, type Fragment } from '../db/fragment.ts';
import type { Model } from '../db/schema/model.ts';

type Table = Pick<Model, 'table'>;

/** The rows that a request may read. A condition on the rows of an access belongs here. */
export const source = ({ relation, table: name }: Model, alias: string): Fragment =>
  sql`${relation ?? table(name)} ${raw(alias)}`;

/** All rows, for every caller: for unique values, for dependents, and in the service's own tables. */
export const allRows = (model: Table, alias: string): Fragment => sql`${writtenTable(model)} ${raw(alias)}`;

/** What a statement inserts into, updates, deletes from or locks. */
export const writtenTable = ({ table: name }: Table): Fragment => table(name);

/** All rows of a table that has no model. */
export const unmodeledRows = (place: { schema: string; table: string }, alias: string): Fragment =>
  sql`${identifier(place.schema)}.${identifier(place.table)} ${raw(alias)}`;
