import { setTimeout as sleep } from 'node:timers/promises';
import { encode, openConnection, type Connection } from '../connection.ts';
import type { Flood, Repeated, RequestShape } from '../jobs.ts';
import { beginAfter, type Tally } from './tally.ts';

/** How long a connection waits after the service has closed it or refused it, milliseconds. */
const AFTER_CLOSE = 100;

const spell = ({ before = '', repeat, times, after = '' }: Repeated): string =>
  `${before}${repeat.repeat(times)}${after}`;

/** Encodes a request for an address; all but the address and the number is prepared once. */
export function prepare(shape: RequestShape): (address: string, n: number) => Buffer {
  const body = typeof shape.body === 'object' ? spell(shape.body) : (shape.body ?? '');
  const hasNumber =
    `${shape.path} ${JSON.stringify(shape.headers ?? {})}`.includes('{n}') || body.length < 10_000;
  const known = new Map<string, Buffer>();
  return (address, n) => {
    const found = hasNumber ? undefined : known.get(address);
    if (found) return found;
    const fill = (text: string): string => text.replaceAll('{n}', String(n));
    const headers = Object.entries({ 'X-Forwarded-For': address, ...shape.headers });
    const bytes = encode({
      method: shape.method ?? 'GET',
      path: fill(shape.path),
      headers: Object.fromEntries(headers.map(([name, text]) => [name, credentials(fill(text))])),
      body: hasNumber ? fill(body) : body,
    });
    if (!hasNumber) known.set(address, bytes);
    return bytes;
  };
}

/** `Basic name:password` is encoded here, so that a number can be part of the name. */
const credentials = (text: string): string =>
  text.startsWith('Basic ') && text.includes(':')
    ? `Basic ${Buffer.from(text.slice('Basic '.length)).toString('base64')}`
    : text;

/**
 * Runs a flood until it is stopped or all its requests are sent.
 * @param begin runs when the attack has begun
 */
export async function flood(
  job: Flood,
  tally: Tally,
  stopped: AbortSignal,
  begin: () => void,
): Promise<void> {
  const made = beginAfter(job.isGradual ? job.connections : 0, begin);
  const requests = job.requests.map(prepare);
  const most = job.most ?? Infinity;
  const offset = Math.floor(Math.random() * 1e6);
  let count = 0;
  const open = new Set<Connection>();
  stopped.addEventListener('abort', () => open.forEach((connection) => connection.destroy()));

  async function ask(connection: Connection, index: number): Promise<void> {
    const n = count;
    count += 1;
    const address = job.addresses[(job.keepsAddress ? index : n) % job.addresses.length] ?? '';
    const bytes = requests[(index + n) % requests.length]?.(address, offset + n);
    if (!bytes) return;
    const started = performance.now();
    tally.sent();
    const answer = connection.ask(bytes);
    if (job.abandonAfter !== undefined) {
      answer.catch(() => undefined);
      await sleep(job.abandonAfter);
      return connection.destroy();
    }
    tally.answered(await answer, performance.now() - started);
  }

  async function drive(index: number): Promise<void> {
    if (job.stagger) await sleep(job.stagger * index, undefined, { signal: stopped });
    let connection: Connection | undefined;
    let isMade = false;
    while (!stopped.aborted && count < most) {
      if (!connection?.isOpen()) {
        if (connection) open.delete(connection);
        connection = openConnection(job.port);
        open.add(connection);
      }
      try {
        await ask(connection, index);
      } catch {
        if (stopped.aborted) return;
        tally.closed();
        await sleep(AFTER_CLOSE, undefined, { signal: stopped });
      }
      if (!isMade) made();
      isMade = true;
      if (job.pause) await sleep(job.pause, undefined, { signal: stopped });
    }
    connection?.destroy();
  }

  await Promise.all(
    Array.from({ length: job.connections }, (_, index) =>
      // Stopping ends the pauses with an error.
      drive(index).catch(() => undefined),
    ),
  );
}
