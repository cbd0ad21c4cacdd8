// Filters on values of 1 MB, whose comparison PostgreSQL cannot cancel. How many run at once is limited, and how long each takes.
import { setTimeout as sleep } from 'node:timers/promises';
import { addresses, besiege, readRow } from '../besiege.ts';
import { atMost, type Scenario } from '../scenario.ts';
import { running } from '../stage.ts';
import { timeAlone, watchStatements } from '../statements.ts';

/** How many queries of high or unknown cost the service runs at once, see the section of the documentation about its database connections. */
const mostAtOnce = (processes: number): number => (processes === 1 ? 8 : 5 * processes);

interface Comparison {
  readonly name: string;
  readonly title: string;
  /** SQL that inserts the record and returns its key. */
  readonly insert: string;
  readonly table: string;
  /** The queries of the attackers, after the key of the record. */
  readonly filters: readonly string[];
  /** The costliest condition that PostgreSQL cannot cancel, or one that costs as much. */
  readonly condition: string;
}

const uncancelableScenario = ({ name, title, insert, table, filters, condition }: Comparison): Scenario => ({
  name,
  title: `${title}, from 20 addresses`,
  async run(stage) {
    const { sql } = stage.world;
    const [record] = await sql.unsafe<{ id: number }[]>(insert);
    const id = record?.id ?? 0;
    const requests = filters.map((filter) => ({ path: `/api/${table}/?id=${id}&${filter}` }));
    const alone = await timeAlone(sql, `select 1 from ${table} where id = ${id} and ${condition}`);
    const watch = watchStatements(sql);
    try {
      const siege = await besiege(stage, (port) => [
        { kind: 'flood', port, connections: 20, addresses: addresses(20), keepsAddress: true, requests },
      ]);
      // The attackers have left. What PostgreSQL cannot cancel runs on.
      for (let tries = 0; tries < 60 && (await running(stage)) > 0; tries += 1) await sleep(100);
      return [
        readRow(siege, 20),
        atMost(
          'ratio',
          'longest statement',
          4,
          watch.longest() / alone,
          '×',
          `${Math.round(watch.longest())} ms, alone ${Math.round(alone)} ms`,
        ),
        atMost('count', 'such statements at once', mostAtOnce(stage.processes), watch.most()),
      ];
    } finally {
      await watch.end();
      await sql`delete from ${sql(table)} where id = ${id}`;
    }
  },
});

/** A pattern of so many characters that matches no text of one letter. */
const pattern = (length: number, any = '%25'): string => `${any}${'a'.repeat(length - 3)}b${any}`;
/** So many different values, none of which is there. */
const list = (count: number, value: (n: number) => string = String): string =>
  Array.from({ length: count }, (_, n) => value(n + 1)).join(',');
const lastTags = (count: number): string => list(count, (n) => `tag${10_000 - n}`);
/** A JSON array of so many arrays. */
const arrays = (count: number): string => `[${Array<string>(count).fill('[1]').join(',')}]`;

export const uncancelable: readonly Scenario[] = [
  uncancelableScenario({
    name: 'patterns',
    title: 'long patterns on a text of 1 MB',
    table: 'document',
    insert: "insert into document (body) values (repeat('a', 1048576)) returning id",
    // The longest pattern that is allowed, and one that fills the query.
    filters: [256, 8000].flatMap((length) =>
      ['like', 'ilike'].map((operator) => `body__${operator}=${pattern(length)}`),
    ),
    condition: `body ilike '${pattern(256, '%')}'`,
  }),
  uncancelableScenario({
    name: 'containment',
    title: 'JSON of 1 MB that must contain many arrays',
    table: 'value',
    insert: "insert into value (json) values (('[' || repeat('[0],', 262144) || '[1]]')::jsonb) returning id",
    filters: [24, 1900].map((count) => `json__contains=${arrays(count)}`),
    condition: `json @> '${arrays(24)}'`,
  }),
  uncancelableScenario({
    name: 'json-lists',
    title: 'lists of values for JSON of 1 MB',
    table: 'value',
    insert: "insert into value (json) values (('[' || repeat('0,', 349524) || '0]')::jsonb) returning id",
    filters: [`json__in=${list(1000)}`, `-json__in=${list(1000)}`],
    condition: '(select count(*) from generate_series(1, 200) n where json <> n::text::jsonb) = 200',
  }),
  uncancelableScenario({
    name: 'citext-lists',
    title: 'lists of values for a citext of 1 MB',
    table: 'folded',
    insert: "insert into folded (body) values (repeat('aB', 524288)) returning id",
    filters: [`body__in=${list(1000)}`, `body__ne=1&${'body__ne=22&'.repeat(500)}body__ne=3`],
    condition: '(select count(*) from generate_series(1, 50) n where body <> n::text::citext) = 50',
  }),
  uncancelableScenario({
    name: 'citext-arrays',
    title: 'elements of an array of 10,000 citexts',
    table: 'folded',
    insert:
      "insert into folded (tags) select array_agg('tag' || n) from generate_series(1, 10000) n returning id",
    // The last ones are found only behind all others.
    filters: [100, 1000].map((count) => `tags__contains=${lastTags(count)}`),
    condition: `tags @> '{${lastTags(100)}}'::citext[]`,
  }),
];
