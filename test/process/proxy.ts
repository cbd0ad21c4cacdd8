// A stretch of network between the service and PostgreSQL that can fail in each of the ways in which networks do.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

interface Link {
  readonly client: Socket;
  readonly server: Socket | undefined;
}

export interface Proxy {
  /** The address of the database through the proxy. */
  readonly url: string;
  /** Forwards connections, those that are made from now on. */
  readonly open: () => Promise<void>;
  /** Ends every connection there is. */
  readonly cut: () => void;
  /** Ends every connection, and refuses new ones. */
  readonly refuse: () => Promise<void>;
  /** Takes connections in and forwards nothing: nobody ever hears of what is sent. */
  readonly swallow: () => void;
  /** Makes the connections there are (or only some) go silent for good, and counts them; new ones are forwarded. */
  readonly silence: (isChosen?: (index: number) => boolean) => number;
  /** Ends the next connection that commits, once the server has answered: the change is made, and the answer is lost. */
  readonly loseCommit: () => void;
  /** The same for the next connection that sends this text, such as a value of a statement. */
  readonly loseAnswer: (text: string) => void;
  /**
   * Ends a connection made from now on when it sends one of these texts, once for each of them.
   * @returns the texts that are left
   */
  readonly cutAt: (texts: readonly string[]) => ReadonlySet<string>;
  /** Makes a syntax error of the next command with this text. */
  readonly spoil: (text: string) => void;
  /** Forwards what connections made from now on send first so much later (milliseconds), so that they take long to open. */
  readonly delayConnections: (milliseconds: number) => void;
  /** Forwards requests to cancel a statement so much later (milliseconds). */
  readonly delayCancels: (milliseconds: number) => void;
  readonly close: () => Promise<void>;
}

/** The message of the protocol that asks for a cancel: its length, and its code. */
const CANCEL = Buffer.from([0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e]);
/** The text of the statement in a message of the protocol. */
const COMMIT = 'commit\0';

/** The characters of one chunk that are kept, in case a text is divided. */
const TAIL = 100;

export async function startProxy(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const links = new Set<Link>();
  const fatal = new Set<string>();
  let swallows = false;
  let cancelDelay = 0;
  let connectionDelay = 0;
  let unanswered: string | undefined;
  const spoiled = new Set<string>();
  let server: Server | undefined;
  let address: AddressInfo | undefined;

  function accept(client: Socket): void {
    const upstream = swallows ? undefined : connect(Number(port || 5432), hostname);
    const link: Link = { client, server: upstream };
    links.add(link);
    const end = (): void => {
      links.delete(link);
      client.destroySoon();
      upstream?.destroySoon();
    };
    // A stream of small batches would wait for an acknowledgment each time.
    for (const socket of [client, upstream]) socket?.setNoDelay().on('error', end).on('close', end);
    if (!upstream) return void client.pause();
    const delay = connectionDelay;
    if (fatal.size > 0) endAtText(client, upstream);
    client.on('data', (chunk: Buffer) => {
      for (const text of spoiled) {
        const at = chunk.indexOf(text);
        if (at >= 0 && spoiled.delete(text)) chunk.write('!', at);
      }
    });
    client.once('data', (chunk) => {
      if (cancelDelay > 0 && chunk.subarray(0, CANCEL.length).equals(CANCEL)) return deliverLate(chunk);
      if (delay > 0) setTimeout(() => upstream.write(chunk), delay);
      else upstream.write(chunk);
      client.pipe(upstream).pipe(client);
      client.on('data', (sent: Buffer) => {
        if (unanswered === undefined || !sent.includes(unanswered)) return;
        unanswered = undefined;
        upstream.unpipe(client);
        upstream.once('data', end).resume();
      });
    });
  }

  function endAtText(client: Socket, upstream: Socket): void {
    let tail = '';
    client.on('data', (chunk) => {
      const sent = tail + chunk.toString('latin1');
      tail = sent.slice(-TAIL);
      const text = [...fatal].find((one) => sent.includes(one));
      if (text === undefined) return;
      fatal.delete(text);
      for (const socket of [client, upstream]) socket.destroy();
    });
  }

  /** As out of the queue of a server that stood still: whoever sent it may have left by then. */
  function deliverLate(request: Buffer): void {
    setTimeout(() => connect(Number(port || 5432), hostname).end(request), cancelDelay);
  }

  async function open(): Promise<void> {
    swallows = false;
    if (server) return;
    server = createServer(accept).listen(address?.port ?? 0, '127.0.0.1');
    await once(server, 'listening');
    address = server.address() as AddressInfo;
  }

  const cut = (): void => links.forEach(({ client }) => client.destroy());

  async function refuse(): Promise<void> {
    const closing = server;
    server = undefined;
    closing?.close();
    cut();
    if (closing) await once(closing, 'close');
  }

  function silence(isChosen: (index: number) => boolean = () => true): number {
    const silent = [...links].filter((_, index) => isChosen(index));
    for (const { client, server: upstream } of silent) {
      for (const socket of [client, upstream]) socket?.unpipe().pause();
    }
    return silent.length;
  }

  await open();
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(address?.port);
  return {
    url: url.href,
    open,
    cut,
    refuse,
    silence,
    swallow: () => {
      swallows = true;
      silence();
    },
    loseCommit: () => {
      unanswered = COMMIT;
    },
    loseAnswer: (text) => {
      unanswered = text;
    },
    spoil: (text) => {
      spoiled.add(text);
    },
    cutAt: (texts) => {
      for (const text of texts) fatal.add(text);
      return fatal;
    },
    delayConnections: (milliseconds) => {
      connectionDelay = milliseconds;
    },
    delayCancels: (milliseconds) => {
      cancelDelay = milliseconds;
    },
    close: refuse,
  };
}

/** Adds TLS to the connections of a database. */
export async function startTlsProxy(target: string, file: string) {
  const { hostname, port } = new URL(target);
  const clients = new Set<Socket>();
  let pem = readFileSync(file);
  const cut = (): void => clients.forEach((client) => client.destroy());
  const server = createServer((client) => {
    clients.add(client.on('error', () => undefined).on('close', () => clients.delete(client)));
    // The first message asks for TLS, also before a request to cancel.
    client.once('data', () => {
      client.write('S');
      const secure = new TLSSocket(client, { isServer: true, key: pem, cert: pem });
      const upstream = connect(Number(port || 5432), hostname);
      for (const socket of [secure, upstream])
        socket
          .on('error', () => undefined)
          .on('close', () => [client, upstream].forEach((one) => one.destroy()));
      secure.pipe(upstream).pipe(secure);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(target);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  url.searchParams.set('sslmode', 'verify-full');
  return {
    /** The address of the database through the proxy. */
    url: url.href,
    /** Ends all connections. The next ones get this certificate. */
    present: (other: string): void => {
      pem = readFileSync(other);
      cut();
    },
    close: async (): Promise<void> => {
      const closed = once(server.close(), 'close');
      cut();
      await closed;
    },
  };
}

/** PostgreSQL's answer to a client that has finished the TLS handshake: an error with the message "got through". */
const GOT_THROUGH = Buffer.from('E\0\0\0\x20SFATAL\0C28000\0Mgot through\0\0', 'latin1');

/** A server that presents this certificate, and then refuses the client. */
export async function startTlsRefusal(pem: Buffer): Promise<{ port: number; close: () => void }> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write('S');
      const secure = new TLSSocket(socket, { isServer: true, key: pem, cert: pem });
      secure.on('error', () => undefined);
      secure.once('data', () => secure.end(GOT_THROUGH));
    });
  });
  await once(server.listen(0, '127.0.0.1').unref(), 'listening');
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() };
}
