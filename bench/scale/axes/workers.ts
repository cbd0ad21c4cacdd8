// Cost by the number of processes that serve one port.
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { whole } from '../../tables.ts';
import type { Axis, Point } from '../axis.ts';
import { addMessages, createUsers, MESSAGE, OWNED, USER } from './resources.ts';
import { byId, FIRST_PAGE, POST } from './rows.ts';

const COUNTS = [1, 2, 4];
const SHORT_COUNTS = [1, 2];
const SIZE = 100_000;
const SHORT_SIZE = 1000;
const CONNECTIONS = 64;

/** Whether the service knows the setting: it ignores variables that it does not know. */
async function isKnown(): Promise<boolean> {
  const { stdout } = await promisify(execFile)(process.execPath, [resolve('dist/main.js'), '--help']);
  return /\bWORKERS\b/.test(stdout);
}

export const workers: Axis = {
  name: 'workers',
  title: 'Workers',
  unit: 'workers',
  text: `\`WORKERS\` processes serve one port over ${CONNECTIONS} connections. The load generator, PostgreSQL and the workers share the processors of the machine, so
more workers than free processors add nothing. "server µs" and the memory are sums over all processes of the service.`,
  async run(stage) {
    if (!(await isKnown()))
      return { points: [], notes: ['Left out: this version of the service has no setting `WORKERS`.'] };
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
      return { points, notes, facts: { head: ['workers', 'start ms', 'MB after the load'], body } };
    });
  },
};
