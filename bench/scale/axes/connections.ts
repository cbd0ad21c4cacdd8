// Cost and memory by the number of open connections.
import { whole } from '../../tables.ts';
import type { Axis, Point } from '../axis.ts';
import { addMessages, createUsers, MESSAGE, OWNED, USER } from './resources.ts';
import { byId, FIRST_PAGE, POST } from './rows.ts';
import type { Row } from '../../rows.ts';

const COUNTS = [1, 4, 16, 64, 256, 1000, 2000];
const SHORT_COUNTS = [1, 64];
const SIZE = 100_000;
const SHORT_SIZE = 1000;
/** Different requests of all connections together, about. */
const VARIETY = 16_000;

const over = (row: Row, connections: number): Row => ({
  ...row,
  connections,
  requests: (connection, link) =>
    row.requests(connection, link).slice(0, Math.max(1, Math.floor(VARIETY / connections))),
});

export const connections: Axis = {
  name: 'connections',
  title: 'Connections',
  unit: 'connections',
  text: `Each connection sends its next request as soon as the last one is answered, so the latency grows with the number of connections that wait for the
same processors. Flat "server µs" mean that waiting costs nothing. One table of ${whole(SIZE)} messages; POST with credentials and history.`,
  run: (stage) =>
    stage.withDatabase(async (database) => {
      const size = stage.isShort ? SHORT_SIZE : SIZE;
      const registry = await stage.writeRegistry([USER, MESSAGE]);
      await createUsers(database, registry, size / OWNED);
      await addMessages(database.query, 0, size);
      const points: Point[] = [];
      const memories: (readonly [number, number])[] = [];
      for (const count of stage.isShort ? SHORT_COUNTS : COUNTS) {
        await stage.withServer(database, { RESOURCES: registry }, async (server) => {
          const requests = [byId(size), FIRST_PAGE, POST].map((row) => over(row, count));
          points.push(...(await stage.measureAll(database, server, count, requests)));
          memories.push([count, await server.memory()]);
        });
        await database.query(`delete from message where id > ${size}`);
        await database.query('vacuum (analyze) message');
      }
      const body = memories.map(([count, memory]) => [whole(count), whole(memory)]);
      return { points, facts: { head: ['connections', 'MB after the load'], body } };
    }),
};
