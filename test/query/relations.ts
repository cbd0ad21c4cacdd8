// The same random rows behind every kind of relation: a table, views and a foreign table, with keys of one and of several columns.
import type { ColumnDefinition, Resource } from '../../src/index.ts';
import { createLoopback } from '../loopback.ts';
import { startService, type Sql, type TestService } from '../support.ts';
import { FOREIGN_KEYS, type Row } from './reference.ts';
import { insert, scalars } from './samples.ts';

export interface Relation {
  readonly name: string;
  /** The model that stores the rows; a view or a foreign table shows them. */
  readonly table: 'item' | 'pair';
}

export const RELATIONS: readonly Relation[] = [
  { name: 'item', table: 'item' },
  { name: 'item_view', table: 'item' },
  { name: 'item_copy', table: 'item' },
  { name: 'item_away', table: 'item' },
  { name: 'pair', table: 'pair' },
  { name: 'pair_view', table: 'pair' },
  { name: 'pair_copy', table: 'pair' },
  { name: 'pair_away', table: 'pair' },
];

/** A key of several columns. */
type Key = Readonly<Record<(typeof PARTS)[number], string>>;
const PARTS = ['word', 'tag', 'day', 'big'] as const;

/** In the order of PostgreSQL. The keys of records are 1 to 12. The others are keys of no record. */
const KEYS: readonly Key[] = (
  [
    ['', '', '-infinity', '-9223372036854775808'],
    ['', '', '-infinity', '-1'],
    ['', '', '0044-03-15 BC', '-1'],
    ['', '', 'infinity', '0'],
    ['', 'Ab', '2024-02-29', '9'],
    ['', 'aC', '2024-02-29', '8'],
    ['\n', ',', '0001-01-01', '1'],
    ['%2C,"', '\\', '9999-12-31', '1'],
    ['.', '..', '5874897-12-31', '9223372036854775807'],
    ['..', '.', '0001-01-01', '-5'],
    ['..', '/', '0001-01-01', '-6'],
    ['/', "'{a}'", '2024-02-29', '0'],
    ['NULL', 'null', '2024-02-29', '0'],
    ['é', '\u{1F600}', '2024-02-29', '0'],
    ['\u{1F600}', '', 'infinity', '0'],
  ] as const
).map(([word, tag, day, big]) => ({ word, tag, day, big }));

const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

const lowerHex = (text: string): string => text.replace(/%../g, (escape) => escape.toLowerCase());

const idText = ({ word, tag, day, big }: Key): string => [word, tag, day, big].map(encode).join(',');

/** Texts of a key with the same meaning; the first is the one of the output. */
function spellings(number: number): string[] {
  const key = KEYS[number] as Key;
  const shouted = { ...key, tag: key.tag.replace(/[a-z]/g, (letter) => letter.toUpperCase()) };
  const zeros = { ...key, big: key.big.replace(/^-?/, '$&00') };
  return [idText(key), lowerHex(idText(key)), idText(shouted), idText(zeros)];
}

/** How keys are written in a query, and whether a foreign key has a second name with `_id`. */
export const keysOf = ({ table }: Relation) =>
  table === 'pair' ? { spellings, hasIdName: false } : { spellings: undefined, hasIdName: true };

/** The number of a record's key. */
export function numberOf({ table }: Relation, id: unknown): number {
  if (table === 'item') return id as number;
  return KEYS.findIndex((key) => idText(key) === id);
}

const ARRAYS = {
  words: { type: 'array', of: 'text', null: true },
  numbers: { type: 'array', of: 'integer', null: true },
} as const satisfies Record<string, ColumnDefinition>;

const PART_TYPES = { word: 'text', tag: 'string', day: 'date', big: 'bigint' } as const;

const partName = (foreignKey: string, part: string): string => `${foreignKey}_${part}`;

const resources: readonly Resource[] = RELATIONS.map(({ name, table }): Resource => {
  const columns = { ...scalars(true), ...ARRAYS };
  const relation = name.endsWith('_away') ? { table: `away.${table}` } : {};
  if (table === 'item') {
    const references = { type: 'foreignKey', references: name, null: true } as const;
    return {
      model: name,
      ...relation,
      primaryKey: { type: 'integer', column: 'id' },
      columns: { ...columns, parent: references, friend: references },
    };
  }
  const parts = FOREIGN_KEYS.flatMap((foreignKey) =>
    PARTS.map((part) => [partName(foreignKey, part), { type: PART_TYPES[part], null: true }] as const),
  );
  const keys = PARTS.map((part) => [part, { type: PART_TYPES[part] }] as const);
  return {
    model: name,
    ...relation,
    primaryKey: { columns: PARTS },
    columns: { ...columns, ...Object.fromEntries([...keys, ...parts]) },
    foreignKeys: Object.fromEntries(
      FOREIGN_KEYS.map((foreignKey) => [
        foreignKey,
        { columns: PARTS.map((part) => partName(foreignKey, part)), references: name },
      ]),
    ),
  };
});

// The collation C compares by code point in every locale of the server.
const COLUMNS = `
  string varchar(255) collate "C", text text collate "C", integer integer, bigint bigint, float float8, decimal numeric(12, 4),
  boolean boolean, datetime timestamp(0), date date, time time(0), uuid uuid, json jsonb, password text collate "C",
  words text[], numbers integer[]`;
const partsSql = (prefix: string): string =>
  `${prefix}word text collate "C", ${prefix}tag citext collate "C", ${prefix}day date, ${prefix}big bigint`;

async function prepare(sql: Sql): Promise<void> {
  const foreignKeys = FOREIGN_KEYS.map((name) => {
    const prefix = `${name}_`;
    const names = PARTS.map((part) => prefix + part).join();
    return `${partsSql(prefix)}, foreign key (${names}) references pair (${PARTS.join()})`;
  });
  await sql.unsafe(`
    create extension citext;
    create table item (id integer primary key, ${COLUMNS}, parent_id integer references item, friend_id integer references item);
    create table pair (${COLUMNS}, ${partsSql('')}, primary key (${PARTS.join()}), ${foreignKeys.join()});
    create view item_view as select * from item;
    create view pair_view as select * from pair;
    create materialized view item_copy as select * from item;
    create materialized view pair_copy as select * from pair;
    create schema away;
  `);
  await createLoopback(sql);
  await sql`import foreign schema public limit to (item, pair) from server loopback into away`;
}

/** Starts a service with all of these relations. */
export const startRelations = (): Promise<TestService> => startService(resources, { prepare });

/** The columns of a key, or NULLs. */
function keyValues(number: unknown, prefix = ''): Record<string, unknown> {
  const key = KEYS[number as number];
  return Object.fromEntries(PARTS.map((part) => [prefix + part, key?.[part] ?? null]));
}

function stored(table: Relation['table'], row: Row): object {
  const { id, parent, friend, ...values } = row;
  if (table === 'item') return { ...values, id, parent_id: parent, friend_id: friend };
  return { ...values, ...keyValues(id), ...keyValues(parent, 'parent_'), ...keyValues(friend, 'friend_') };
}

const refresh = async (sql: Sql, { name }: Relation): Promise<void> => {
  if (name.endsWith('_copy')) await sql.unsafe(`refresh materialized view ${name}`);
};

/** Adds a row to the table of a relation. */
export async function add(sql: Sql, relation: Relation, row: Row): Promise<void> {
  await insert(sql, relation.table, [stored(relation.table, row)]);
  await refresh(sql, relation);
}

/** Deletes a row from the table of a relation. */
export async function remove(sql: Sql, relation: Relation, id: number): Promise<void> {
  const key = relation.table === 'item' ? { id } : keyValues(id);
  const columns = Object.keys(key).join();
  // As JSON, because the driver would parse the date.
  await sql.unsafe(
    `delete from ${relation.table} where (${columns}) = (select ${columns} from json_populate_record(null::${relation.table}, $1::text::json))`,
    [JSON.stringify(key)],
  );
  await refresh(sql, relation);
}

/** Replaces the rows of a relation. Gives them by their keys. */
export async function store(
  sql: Sql,
  relation: Relation,
  list: readonly Row[],
): Promise<ReadonlyMap<number, Row>> {
  await sql.unsafe(`truncate ${relation.table}`);
  if (list.length > 0)
    await insert(
      sql,
      relation.table,
      list.map((row) => stored(relation.table, row)),
    );
  await refresh(sql, relation);
  return new Map(list.map((row) => [row.id, row]));
}
