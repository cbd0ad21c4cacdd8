// Cost by the number of processes that serve one port.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Server } from '../../servers.ts';
import { whole } from '../../tables.ts';
import type { Axis, Point } from '../axis.ts';
import { addMessages, createUsers, MESSAGE, OWNED, USER } from './resources.ts';
import { byId, FIRST_PAGE, POST } from './rows.ts';

const COUNTS = [1, 2, 4];
const SHORT_COUNTS = [1, 2];
const SIZE = 100_000;
const SHORT_SIZE = 1000;
const CONNECTIONS = 64;

/** Processor time (microseconds) in half a second, below which no process of the service is starting. */
const IDLE = 25_000;

/** Waits until all processes serve: the first one answers before the others start. */
async function untilAllServe({ cpu }: Server): Promise<void> {
  for (let before = -Infinity, now = await cpu(); now - before > IDLE;) {
    await sleep(500);
    before = now;
    now = await cpu();
  }
}

export const workers: Axis = {
  name: 'workers',
  title: 'Workers',
  unit: 'workers',
  text: `\`WORKERS\` processes serve one port over ${CONNECTIONS} connections. The load generator, PostgreSQL and the workers share the processors of the machine, so
workers beyond the free processors make each request dearer and add nothing. "server µs" and the memory are sums over all processes of the service.
"first answer ms" is the time from the start to the first answer of the first process.`,
  async run(stage) {
    return stage.withDatabase(async (database) => {
      const size = stage.isShort ? SHORT_SIZE : SIZE;
      const registry = await stage.writeRegistry([USER, MESSAGE]);
      await createUsers(database, registry, size / OWNED);
      await addMessages(database.query, 0, size);
      const points: Point[] = [];
      const body: string[][] = [];
      const notes: string[] = [];
      for (const count of stage.isShort ? SHORT_COUNTS : COUNTS) {
        const environment = { RESOURCES: registry, WORKERS: String(count) };
        try {
          await stage.withServer(database, environment, async (server) => {
            await untilAllServe(server);
            const requests = [byId(size), FIRST_PAGE, POST].map((row) => ({
              ...row,
              connections: CONNECTIONS,
            }));
            points.push(...(await stage.measureAll(database, server, count, requests)));
            body.push([whole(count), whole(server.start), whole(await server.memory())]);
          });
        } catch (error) {
          notes.push(`Left out: \`WORKERS=${count}\`. ${(error as Error).message}.`);
        }
      }
      return { points, notes, facts: { head: ['workers', 'first answer ms', 'MB after the load'], body } };
    });
  },
};
