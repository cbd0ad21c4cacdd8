// Creates, changes and deletes one record of each writable table.
import type { Sql } from 'postgres';
import {
  fieldOf,
  jsonKeyOf,
  keyFieldsOf,
  keyNamesOf,
  keyTypeOf,
  tableOf,
  type ColumnDefinition,
} from '../../src/db/schema/model-definition.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import type { Door, Written } from './doors.ts';
import { valueOf, type StoredForeignKey, type StoredSchema, type Values } from './values.ts';

/** Values that a rule of the schema needs, by table and column. */
export type ByHand = Readonly<Record<string, Values>>;

export interface Refusal {
  readonly model: string;
  readonly step: 'create' | 'change' | 'delete';
  readonly status: number;
  /** The answer, or that there is no parent. */
  readonly text: string;
}

export interface Filled {
  readonly created: number;
  readonly changed: number;
  readonly deleted: number;
  readonly refused: readonly Refusal[];
}

export interface Filling {
  readonly sql: Sql;
  /** Parents first. */
  readonly resources: readonly Resource[];
  readonly stored: StoredSchema;
  readonly byHand: ByHand;
  readonly door: Door;
  /** Creates what the door may not create. */
  readonly other?: Door;
}

/** Whether a resource accepts a method. Views do not, unless `methods` lists it. */
export const accepts = ({ methods }: Resource, method: 'POST' | 'PUT' | 'DELETE'): boolean =>
  methods === undefined || (methods as readonly string[]).includes(method);

/** Whether the admin area can add records. */
export const mayAdd = (resource: Resource): boolean =>
  accepts(resource, 'POST') && (resource.admin?.allow?.includes('add') ?? true);

/** The values of the last row of the table that a foreign key refers to, by the columns that refer to them. */
async function parentOf(sql: Sql, { fields, target, targetFields }: StoredForeignKey): Promise<Values> {
  const [row] = await sql`
    select ${sql(targetFields as string[])} from ${sql(target)} t
    where ${sql(targetFields[0] ?? '')} is not null order by age(xmin), ctid desc limit 1`;
  if (!row) return {};
  return Object.fromEntries(fields.map((field, index) => [field, row[targetFields[index] ?? '']]));
}

let count = 1000;

/** The values of the foreign keys of a new record, or the table of which there is no row. */
async function parentsOf(
  { sql, stored }: Filling,
  table: string,
  isWhole: boolean,
): Promise<Values | { readonly missing: string }> {
  const isRequired = (field: string): boolean =>
    stored.columns.some((one) => one.table === table && one.field === field && one.isRequired);
  const parents: Values = {};
  for (const link of stored.foreignKeys.filter((one) => one.table === table)) {
    const isNeeded = link.fields.every(isRequired);
    if (!isWhole && !isNeeded) continue;
    const found = await parentOf(sql, link);
    if (isNeeded && Object.keys(found).length === 0 && link.target !== table) return { missing: link.target };
    for (const [field, value] of Object.entries(found)) parents[field] ??= value;
  }
  return parents;
}

/** A body for a new record. @param isWhole also sets the columns that may be left out */
function bodyOf(
  { stored, byHand, door }: Filling,
  resource: Resource,
  parents: Values,
  isWhole: boolean,
): Values {
  const table = tableOf(resource);
  const number = (count += 1);
  const columns = stored.columns.filter((column) => column.table === table);
  const isRequired = (field: string): boolean => columns.some((one) => one.field === field && one.isRequired);
  const links = stored.foreignKeys.filter((link) => link.table === table);
  const given: Values = { ...parents, ...byHand[table] };
  const body: Values = {};
  const choose = (key: string, field: string, column: ColumnDefinition): void => {
    const value = given[field];
    if (field in given)
      body[key] = typeof value === 'number' && column.type === 'bigint' ? String(value) : value;
    else if (isRequired(field) || !links.some(({ fields }) => fields.includes(field)))
      body[key] = valueOf(
        column,
        columns.find((one) => one.field === field),
        number,
      );
  };
  const parts = keyFieldsOf(resource);
  if (!keyNamesOf(resource))
    for (const field of parts) if (isRequired(field)) choose('id', field, { type: keyTypeOf(resource) });
  const fixed = (resource.readonly ?? []) as readonly string[];
  for (const [name, column] of Object.entries(resource.columns)) {
    const field = fieldOf(name, column);
    const isHidden = (resource.exclude as readonly string[] | undefined)?.includes(name) === true;
    if (fixed.includes(name) || (isHidden && door.name === 'admin')) continue;
    if (isWhole || isRequired(field) || field in (byHand[table] ?? {}))
      choose(jsonKeyOf(name, column), field, column);
  }
  return body;
}

/** A change of one column that is no part of a key or a foreign key, and that none refers to; empty if there is none. */
function changeOf({ stored, byHand }: Filling, resource: Resource): Values {
  const table = tableOf(resource);
  const isFixed = (name: string, field: string): boolean =>
    [...(resource.readonly ?? []), ...(resource.exclude ?? [])].includes(name) ||
    keyFieldsOf(resource).includes(field) ||
    byHand[table]?.[field] !== undefined ||
    stored.foreignKeys.some(
      (link) =>
        (link.table === table && link.fields.includes(field)) ||
        (link.target === table && link.targetFields.includes(field)),
    );
  const found = Object.entries(resource.columns).find(
    ([name, column]) =>
      !isFixed(name, fieldOf(name, column)) && column.type !== 'array' && !(column.unique && column.choices),
  );
  if (!found) return {};
  const [name, column] = found;
  const field = fieldOf(name, column);
  const about = stored.columns.find((one) => one.table === table && one.field === field);
  return { [jsonKeyOf(name, column)]: valueOf(column, about, (count += 1)) };
}

/** Creates one record of each table, parents first. @returns a function that changes and deletes them in the reverse order */
export async function fill(filling: Filling): Promise<() => Promise<Filled>> {
  const { door, other, resources } = filling;
  const refused: Refusal[] = [];
  const made: { readonly resource: Resource; readonly id: string }[] = [];
  let created = 0;
  for (const resource of resources.filter((one) => accepts(one, 'POST'))) {
    const isOther = door.name === 'admin' && !mayAdd(resource);
    const through = isOther && other ? { ...filling, door: other } : filling;
    const answer = await create(through, resource);
    if ('id' in answer) made.push({ resource, id: answer.id });
    else refused.push({ model: resource.model, step: 'create', ...answer });
    if ('id' in answer && !isOther) created += 1;
  }
  return async () => {
    let changed = 0;
    for (const { resource, id } of made.toReversed()) {
      const answer = await door.change(resource.model, id, changeOf(filling, resource));
      if ('id' in answer) changed += 1;
      else refused.push({ model: resource.model, step: 'change', ...answer });
    }
    const left = await removeAll(door, made);
    refused.push(...left);
    const deleted = made.length - left.length;
    return { created, changed, deleted, refused };
  };
}

/** Creates a record with all columns, or where a rule of the schema refuses these, with those that are required. */
async function create(filling: Filling, resource: Resource): Promise<Written> {
  let answer: Written = { status: 0, text: '' };
  for (const isWhole of [true, false]) {
    const parents = await parentsOf(filling, tableOf(resource), isWhole);
    if ('missing' in parents && typeof parents.missing === 'string')
      return { status: 0, text: `it needs a record of ${parents.missing}, which could not be created` };
    answer = await filling.door.create(resource.model, bodyOf(filling, resource, parents, isWhole));
    if ('id' in answer || answer.status >= 500) break;
  }
  return answer;
}

/** Deletes records. Those that others refer to come last, as often as it helps. @returns what could not be deleted */
async function removeAll(
  door: Door,
  made: readonly { readonly resource: Resource; readonly id: string }[],
): Promise<Refusal[]> {
  let remaining = made.toReversed();
  for (let pass = 0; ; pass += 1) {
    const refused: Refusal[] = [];
    const kept: typeof remaining = [];
    for (const record of remaining) {
      const { model } = record.resource;
      const answer = await door.remove(model, record.id);
      // A record that was kept may have been deleted with another one.
      if ('id' in answer || (pass > 0 && answer.status === 404)) continue;
      kept.push(record);
      refused.push({ model, step: 'delete', ...answer });
    }
    if (kept.length === 0 || kept.length === remaining.length) return refused;
    remaining = kept;
  }
}
