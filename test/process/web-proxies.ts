// Starts nginx and HAProxy with the files of deploy/, and asks through them.
import { accessSync, constants, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { request as send, type Agent } from 'node:https';
import { once } from 'node:events';
import { connect } from 'node:net';
import { delimiter, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { freePort, REPOSITORY, run, start, temporaryFolder, until, type Ended } from './support.ts';

export const PROXIES = ['nginx', 'haproxy'] as const;
export type ProxyName = (typeof PROXIES)[number];

const FILES = { nginx: 'deploy/nginx.conf', haproxy: 'deploy/haproxy.cfg' };
/** A certificate for 127.0.0.1, with its key. */
const CERTIFICATE = join(REPOSITORY, 'test/process/tls/number.pem');

/** @throws Error if the program is not installed */
function findProgram(name: ProxyName): string {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  for (const path of folders.filter(Boolean).map((folder) => join(folder, name)))
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // in another folder
    }
  throw new Error(
    `These tests need ${PROXIES.join(' and ')}. Install them (Debian: apt-get install nginx haproxy).`,
  );
}

/** A change of a file for a test: each text must be there. */
export type Edit = readonly [from: string | RegExp, to: string];

function edited(text: string, edits: readonly Edit[]): string {
  return edits.reduce((result, [from, to]) => {
    const next = result.replaceAll(typeof from === 'string' ? from : new RegExp(from.source, 'gm'), to);
    if (next === result) throw new Error(`The file has no ${from}.`);
    return next;
  }, text);
}

/** Paths and ports of a test instead of those of a server. */
const localEdits = (name: ProxyName, service: number, ports: readonly [number, number]): Edit[] => [
  ['127.0.0.1:8000', `127.0.0.1:${service}`],
  ...(name === 'nginx'
    ? ([
        [/^ *listen \[::\].*\n/, ''],
        ['listen 80;', `listen 127.0.0.1:${ports[0]};`],
        ['listen 443 ssl;', `listen 127.0.0.1:${ports[1]} ssl;`],
        [/\/etc\/letsencrypt\/\S+\.pem/, CERTIFICATE],
      ] satisfies Edit[])
    : ([
        [/^ *(user|group|chroot) .*\n/, ''],
        [':::80 v4v6', `127.0.0.1:${ports[0]}`],
        [':::443 v4v6', `127.0.0.1:${ports[1]}`],
        [/\/etc\/haproxy\/\S+\.pem/, CERTIFICATE],
      ] satisfies Edit[])),
];

const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];

/** Makes nginx stay in the foreground, as one process, with all its files in the folder. */
const nginxMain = (folder: string): string => `
  daemon off;
  master_process off;
  ${process.getuid?.() === 0 ? 'user root;' : ''}
  pid "${folder}/pid";
  error_log stderr;
  events { worker_connections 1024; }
  http {
    access_log off;
    ${TEMPORARY.map((kind) => `${kind}_temp_path "${folder}/${kind}";`).join('\n')}
    include vitrine.conf;
  }`;

export interface WebProxy {
  /** Where browsers reach the service. */
  readonly origin: string;
  readonly port: number;
  /** The port without TLS. */
  readonly plainPort: number;
  /** Lets the program check its file. */
  readonly check: () => Promise<Ended>;
  readonly stop: () => Promise<Ended>;
}

/**
 * Starts a proxy in front of a port.
 * @param edits further changes of its file
 */
export async function startWebProxy(
  name: ProxyName,
  service: number,
  edits: readonly Edit[] = [],
): Promise<WebProxy> {
  const command = findProgram(name);
  const folder = await temporaryFolder();
  const plainPort = await freePort(2);
  const port = plainPort + 1;
  const text = readFileSync(join(REPOSITORY, FILES[name]), 'utf8');
  const file = join(folder, name === 'nginx' ? 'vitrine.conf' : 'haproxy.cfg');
  await writeFile(file, edited(text, [...localEdits(name, service, [plainPort, port]), ...edits]));
  if (name === 'nginx') await writeFile(join(folder, 'nginx.conf'), nginxMain(folder));
  const words =
    name === 'nginx' ? ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')] : ['-f', file];
  const running = await start(name === 'nginx' ? words : ['-db', ...words], { command, cwd: folder });
  await until(`${name} to listen`, async () => {
    const { child, stderr } = running;
    if (child.exitCode !== null) return stderr() || 'no reason';
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.destroy();
    return '';
  }).then((reason) => {
    if (reason !== '') throw new Error(`${name} has ended: ${reason}`);
  });
  return {
    origin: `https://127.0.0.1:${port}`,
    port,
    plainPort,
    check: () => run([name === 'nginx' ? '-t' : '-c', ...words], { command, cwd: folder }),
    stop: () => {
      running.child.kill('SIGTERM');
      return running.ended;
    },
  };
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** An address of this machine, 127.0.0.x. */
  readonly from?: string;
  readonly agent?: Agent;
  readonly signal?: AbortSignal;
}

/** Sends a request to a proxy, and waits for the head of the answer. */
export async function begin(
  { port }: Pick<WebProxy, 'port'>,
  path: string,
  { body, from = '127.0.0.1', agent, ...options }: AskOptions = {},
): Promise<IncomingMessage> {
  const outgoing = send({
    host: '127.0.0.1',
    port,
    path,
    localAddress: from,
    agent: agent ?? false,
    rejectUnauthorized: false,
    ...options,
  });
  outgoing.end(body);
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  return response;
}

export async function ask(
  proxy: Pick<WebProxy, 'port'>,
  path: string,
  options: AskOptions = {},
): Promise<Answer> {
  const response = await begin(proxy, path, options);
  return { status: response.statusCode ?? 0, headers: response.headers, body: await buffer(response) };
}

/** A TLS connection, for requests that are not as they should be. */
export async function openConnection(
  { port }: Pick<WebProxy, 'port'>,
  from = '127.0.0.1',
): Promise<TLSSocket> {
  const plain = connect({ host: '127.0.0.1', port, localAddress: from });
  const socket = connectTls({ socket: plain, rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  return socket.on('error', () => undefined);
}

/** A service that does what a test says. */
export interface Backend {
  readonly port: number;
  /** The requests that came, as method and path. */
  readonly seen: string[];
  /** The requests to `/held/…` that wait. */
  readonly held: Set<ServerResponse>;
  /** How many answers ended before they were complete. */
  readonly left: () => number;
  readonly close: () => Promise<void>;
}

/**
 * - `/held/…` begins an answer with the line `first` if a stream is asked for, and waits
 * - `/broken/…` breaks its connection the first time that a method and path come
 * - `/endless/…` is an endless stream
 * - everything else tells what the service has got
 */
export async function startBackend(): Promise<Backend> {
  const seen: string[] = [];
  const held = new Set<ServerResponse>();
  let left = 0;
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const what = `${method} ${url}`;
    const isFirst = !seen.includes(what);
    seen.push(what);
    response.on('close', () => {
      held.delete(response);
      if (!response.writableFinished) left += 1;
    });
    if (url.startsWith('/held/')) {
      if (headers.accept === 'application/x-ndjson') response.write('first\n');
      held.add(response);
    } else if (url.startsWith('/broken/') && isFirst) request.socket.destroy();
    else if (url.startsWith('/endless/')) {
      const write = (): void => {
        while (response.write(Buffer.alloc(65_536, 'x')));
      };
      response.on('drain', write);
      write();
    } else {
      const { length } = await buffer(request);
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ headers, length }));
    }
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => undefined); // the client has left
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    port: typeof address === 'object' ? (address?.port ?? 0) : 0,
    seen,
    held,
    left: () => left,
    close: async () => {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}
