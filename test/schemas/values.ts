// Makes values for new records, from the registry and the catalog.
import { tableOf, type ColumnDefinition } from '../../src/db/schema/model-definition.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import type { Sql } from 'postgres';
import { basic } from '../../bench/client.ts';

export type Values = Record<string, unknown>;

/** The admin, and the header that authenticates it. */
export const USER = { name: 'jo', password: 'a password of the bench' };
export const CREDENTIALS = { authorization: basic(USER.name, USER.password) };

/** What the catalog says of a column. */
export interface StoredColumn {
  readonly table: string;
  readonly field: string;
  readonly type: string;
  readonly length: number | null;
  readonly isRequired: boolean;
}

export interface StoredForeignKey {
  readonly table: string;
  readonly fields: readonly string[];
  readonly target: string;
  readonly targetFields: readonly string[];
}

export interface StoredSchema {
  readonly columns: readonly StoredColumn[];
  readonly foreignKeys: readonly StoredForeignKey[];
}

/** Reads what is needed to make records. Tables are named as in the registry. */
export async function readSchema(sql: Sql): Promise<StoredSchema> {
  const columns = await sql<StoredColumn[]>`
    select c.relname as table, a.attname as field, coalesce(b.typname, t.typname) as type,
      case when t.typtype = 'd' then information_schema._pg_char_max_length(t.typbasetype, t.typtypmod)
        else information_schema._pg_char_max_length(a.atttypid, a.atttypmod) end as length,
      a.attnotnull and not a.atthasdef and a.attidentity = '' as "isRequired"
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_type t on t.oid = a.atttypid
    left join pg_type b on b.oid = t.typbasetype
    where c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped`;
  const foreignKeys = await sql<StoredForeignKey[]>`
    select c.relname as table, t.relname as target,
      (select json_agg(a.attname order by k.n) from unnest(f.conkey) with ordinality k (num, n)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = k.num) as fields,
      (select json_agg(a.attname order by k.n) from unnest(f.confkey) with ordinality k (num, n)
        join pg_attribute a on a.attrelid = t.oid and a.attnum = k.num) as "targetFields"
    from pg_constraint f join pg_class c on c.oid = f.conrelid join pg_class t on t.oid = f.confrelid
    where f.contype = 'f' and c.relnamespace = 'public'::regnamespace`;
  return { columns, foreignKeys };
}

/** Sorts the resources so that parents come first, as far as their foreign keys are required. */
export function inOrder(resources: readonly Resource[], { foreignKeys, columns }: StoredSchema): Resource[] {
  const sorted: Resource[] = [];
  const visited = new Set<string>();
  const isRequired = ({ table, fields }: StoredForeignKey): boolean =>
    fields.every((field) =>
      columns.some((one) => one.table === table && one.field === field && one.isRequired),
    );
  const visit = (resource: Resource): void => {
    const name = tableOf(resource);
    if (visited.has(name)) return;
    visited.add(name);
    for (const requiredFirst of [true, false])
      for (const link of foreignKeys.filter(
        (one) => one.table === name && isRequired(one) === requiredFirst,
      )) {
        const parent = resources.find((one) => tableOf(one) === link.target);
        if (parent) visit(parent);
      }
    sorted.push(resource);
  };
  for (const resource of resources) visit(resource);
  return sorted;
}

/** Text of at most this length, different for each number as far as the length allows. */
function textOf(number: number, length: number | null): string {
  const text = `v${number.toString(36)}`;
  return length === null || length >= text.length ? text : number.toString(36).slice(-length);
}

const DAY = 86_400_000;

/** A new value of a column; numbers that differ give different values. */
export function valueOf(column: ColumnDefinition, stored: StoredColumn | undefined, number: number): unknown {
  const { choices: given } = column;
  const choices = Array.isArray(given) ? (given as readonly unknown[]) : undefined;
  if (column.type === 'array') return choices ? choices.slice(0, 1) : [];
  if (choices && choices.length > 0) return choices[number % choices.length];
  switch (column.type) {
    case 'integer':
      return number;
    case 'bigint':
      return String(number);
    case 'decimal':
      return String(1 + (number % 9));
    case 'float':
      return number + 0.5;
    case 'boolean':
      return number % 2 === 0;
    case 'date':
      return new Date(number * DAY).toISOString().slice(0, 10);
    case 'datetime':
      return new Date(number * DAY).toISOString().slice(0, 19).replace('T', ' ');
    case 'time':
      return `10:${String(number % 60).padStart(2, '0')}:00`;
    case 'uuid':
      return `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
    case 'inet':
      return `10.0.${Math.floor(number / 256) % 256}.${number % 256}`;
    case 'cidr':
      return `10.${Math.floor(number / 256) % 256}.${number % 256}.0/24`;
    case 'macaddr': {
      const digits = number.toString(16).padStart(stored?.type === 'macaddr8' ? 16 : 12, '0');
      return digits.replace(/..(?!$)/g, '$&:');
    }
    case 'json':
      return { number };
    case 'string':
    case 'text':
    case 'password':
    case 'foreignKey':
      return textOf(number, stored?.length ?? null);
  }
}
