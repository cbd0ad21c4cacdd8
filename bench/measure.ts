// Measures one row on one server.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { BenchDatabase } from './database.ts';
import type { Job, Load, Outcome } from './load.ts';
import type { Measurement } from './report.ts';
import { CONNECTIONS, type Row } from './rows.ts';
import type { Server } from './servers.ts';

/** What every measurement needs. */
export interface Equipment {
  /** The process of the load generator. */
  readonly generator: ChildProcess;
  readonly database: BenchDatabase;
  readonly interruption: AbortSignal;
}

/** The link of a page to the next one, with a cursor. */
async function linkOf({ linkOn }: Row, { port }: Server): Promise<string> {
  if (linkOn === undefined) return '';
  const page = await fetch(`http://127.0.0.1:${port}${linkOn}`, { headers: { Prefer: 'paging=cursor' } });
  const { meta } = (await page.json()) as { meta: { next: string } };
  return meta.next;
}

export async function measure(
  { generator, database, interruption }: Equipment,
  row: Row,
  server: Server,
  time: number,
): Promise<Measurement> {
  const link = await linkOf(row, server);
  const requests = Array.from({ length: row.connections ?? CONNECTIONS }, (_, connection) =>
    row.requests(connection, link),
  );
  const job: Job = { row: row.name, port: server.port, seconds: time, status: row.status, requests };
  const [before, databaseBefore] = [await server.cpu(), await database.cpu()];
  generator.send(job);
  const [outcome] = (await once(generator, 'message', { signal: interruption })) as [Outcome];
  if ('fault' in outcome) throw new Error(`${server.name}, ${outcome.fault}`);
  const load: Load = outcome;
  const [after, databaseAfter] = [await server.cpu(), await database.cpu()];
  return {
    row: row.name,
    server: server.name,
    rate: load.answers / time,
    p50: load.p50,
    p99: load.p99,
    cpu: (after - before) / load.all,
    databaseCpu: (databaseAfter - databaseBefore) / load.all,
    generatorCpu: load.cpu / load.all,
  };
}
