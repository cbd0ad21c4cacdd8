// A stretch of network between the service and PostgreSQL that counts what is prepared.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';

export interface Tap {
  /** The address of the database through the tap. */
  readonly url: string;
  /** Parse messages so far: each makes PostgreSQL parse and plan a statement. */
  readonly parsed: () => number;
  readonly close: () => void;
}

const PARSE = 'P'.charCodeAt(0);

/** Reads the messages of one client, whose first one has no type. */
function createReader(onType: (type: number) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  let isFirst = true;
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      const offset = isFirst ? 0 : 1;
      if (rest.length < offset + 4) return;
      const end = offset + rest.readInt32BE(offset);
      if (rest.length < end) return;
      if (!isFirst) onType(rest[0] ?? 0);
      isFirst = false;
      rest = rest.subarray(end);
    }
  };
}

/** Starts a tap on the way to a database. */
export async function startTap(target: string): Promise<Tap> {
  const { hostname, port } = new URL(target);
  let parsed = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(port || 5432), hostname);
    const read = createReader((type) => (parsed += type === PARSE ? 1 : 0));
    client.on('data', read);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
    client.pipe(upstream).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return { url: url.href, parsed: () => parsed, close: () => void server.close() };
}
