// Measures what one kind of request costs on one service.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { askOnce } from './client.ts';
import type { Database } from './postgres.ts';
import { CONNECTIONS, type Row } from './rows.ts';
import type { Service } from './service.ts';
import { median, whole } from './table.ts';
import type { Load, LoadReport } from './worker.ts';

export interface Measurement {
  readonly row: string;
  readonly server: string;
  /** Answers per second. */
  readonly rate: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Processor time per request, microseconds: of the service, of PostgreSQL, of the load generator. */
  readonly cpu: number;
  readonly databaseCpu: number;
  readonly generatorCpu: number;
}

export const HEAD = ['requests/s', 'p50 ms', 'p99 ms', 'server µs', 'PostgreSQL µs'];

/** The median of some measurements. */
export const medianOf = (
  measured: readonly Measurement[],
  key: Exclude<keyof Measurement, 'row' | 'server'>,
): number => median(measured.map((one) => one[key]));

/** The medians as cells of a table with this head. */
export const cellsOf = (measured: readonly Measurement[]): string[] => [
  whole(medianOf(measured, 'rate')),
  medianOf(measured, 'p50').toFixed(2),
  medianOf(measured, 'p99').toFixed(2),
  whole(medianOf(measured, 'cpu')),
  whole(medianOf(measured, 'databaseCpu')),
];

/** Ctrl-C ends the measuring; what was started and made is still stopped and dropped. */
export const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => interruption.abort());

/** The load generator is a process of its own. */
const generator = fork(new URL('worker.ts', import.meta.url));
generator.once('exit', () => interruption.abort());
export const endGenerator = (): void => void generator.kill();

/** The link of a page to the next one, with a cursor. */
async function linkOf({ linkOn }: Row, { port }: Service): Promise<string> {
  if (linkOn === undefined) return '';
  const request = { path: linkOn, headers: { Prefer: 'paging=cursor' } };
  const { text } = await askOnce(port, request, { keepsBody: true });
  return (JSON.parse(text) as { meta: { next: string } }).meta.next;
}

export async function measure(
  database: Database,
  row: Row,
  service: Service,
  server: string,
  seconds: number,
): Promise<Measurement> {
  const link = await linkOf(row, service);
  const requests = Array.from({ length: row.connections ?? CONNECTIONS }, (_, n) => row.requests(n, link));
  const { port } = service;
  const job: Load = {
    kind: 'load',
    port,
    seconds,
    isWhole: true,
    groups: [{ requests, status: row.status }],
  };
  const [before, databaseBefore] = [await service.cpu(), await database.cpu()];
  generator.send(job);
  const [report] = (await once(generator, 'message', { signal: interruption.signal })) as [LoadReport];
  const [{ rate, p50, p99, all, fault } = {} as LoadReport['groups'][number]] = report.groups;
  if (fault !== undefined) throw new Error(`${server}, ${row.name}: ${fault.split('\r\n', 1)[0]}`);
  const [after, databaseAfter] = [await service.cpu(), await database.cpu()];
  return {
    row: row.name,
    server,
    rate,
    p50,
    p99,
    cpu: (after - before) / all,
    databaseCpu: (databaseAfter - databaseBefore) / all,
    generatorCpu: report.cpu / all,
  };
}
