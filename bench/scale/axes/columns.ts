// Cost by the number of columns.
import { get, numbers, writing, type Row } from '../../rows.ts';
import { whole } from '../../tables.ts';
import type { Axis, Point } from '../axis.ts';
import { createUsers, USER, WRITERS } from './resources.ts';

const COUNTS = [1, 2, 4, 8, 16, 32, 64];
const SHORT_COUNTS = [1, 8];
const RECORDS = 10_000;

const namesOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `column_${n + 1}`);

const valuesOf = (count: number, value: string): object =>
  Object.fromEntries(namesOf(count).map((name) => [name, value]));

const modelOf = (count: number) => ({
  model: `width_${count}`,
  columns: Object.fromEntries(namesOf(count).map((name) => [name, { type: 'string' }])),
  access: 'user',
});

function requestsOf(count: number): readonly Row[] {
  const base = `/api/width_${count}/`;
  const ids = (connection: number): number[] => numbers(connection, RECORDS);
  return [
    { name: 'by id', status: 200, requests: (c) => ids(c).map((id) => get(`${base}${id}/`)) },
    { name: 'first page', status: 200, requests: () => [get(base)] },
    {
      name: 'POST of all columns',
      status: 201,
      requests: (c) =>
        ids(c).map((_, n) => writing('POST', c % WRITERS, base, valuesOf(count, `written ${n} over ${c}`))),
    },
    {
      name: 'PUT of all columns',
      status: 200,
      requests: (c) =>
        ids(c).map((id, n) =>
          writing('PUT', c % WRITERS, `${base}${id}/`, valuesOf(count, `changed ${n} over ${c}`)),
        ),
    },
  ];
}

export const columns: Axis = {
  name: 'columns',
  title: 'Columns of a model',
  unit: 'columns',
  text: `Models of string columns, each with ${whole(RECORDS)} records and about 20 characters in each column. 16 connections; POST and PUT send every column.`,
  run: (stage) =>
    stage.withDatabase(async (database) => {
      const counts = stage.isShort ? SHORT_COUNTS : COUNTS;
      const registry = await stage.writeRegistry([USER, ...counts.map(modelOf)]);
      await createUsers(database, registry);
      for (const count of counts) {
        const names = namesOf(count);
        const values = names.map((name) => `'value ' || n || ' ${name}'`);
        await database.query(
          `insert into width_${count} (${names.join()}) select ${values.join()} from generate_series(1, ${RECORDS}) n`,
        );
      }
      await database.query('vacuum (analyze)');
      const points: Point[] = [];
      await stage.withServer(database, { RESOURCES: registry }, async (server) => {
        for (const count of counts)
          points.push(...(await stage.measureAll(database, server, count, requestsOf(count))));
      });
      return { points };
    }),
};
