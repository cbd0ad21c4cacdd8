import { Agent, request, type IncomingMessage } from 'node:http';

/** The service answers any request within 15 s; a client that hears nothing for this long reports it. */
const SILENCE = 40_000;

export interface Answer {
  readonly status: number;
  readonly etag: string;
  readonly text: string;
}

/** Why there is no answer. */
export interface NoAnswer {
  readonly status: 0;
  readonly reason: 'refused' | 'cut' | 'reset' | 'left' | 'silence';
  readonly text: string;
}

export interface Sending {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Milliseconds after which the client closes its connection. */
  readonly leaveAfter?: number | undefined;
}

/** One connection to the service, kept alive between requests. It sends the position of its last write, as the typed client does. */
export interface Connection {
  readonly send: (sending: Sending) => Promise<Answer | NoAnswer>;
  readonly close: () => void;
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** @param base of the service, `http://host:port` */
export function openConnection(base: string, authorization: string): Connection {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let position: string | undefined;
  return {
    send: ({ method, path, headers = {}, body, leaveAfter }) =>
      new Promise((resolve) => {
        const fail = (reason: NoAnswer['reason'], text: string): void => resolve({ status: 0, reason, text });
        const outgoing = request(`${base}${path}`, {
          method,
          agent,
          headers: {
            authorization,
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
            ...(position === undefined ? {} : { 'vitrine-position': position }),
            ...headers,
          },
        });
        const end = (reason: NoAnswer['reason']): void => {
          fail(reason, reason);
          outgoing.destroy();
        };
        const timers = [setTimeout(end, SILENCE, 'silence')];
        if (leaveAfter !== undefined) timers.push(setTimeout(end, leaveAfter, 'left'));
        const failed = (error: NodeJS.ErrnoException): void =>
          fail(
            error.code === 'ECONNREFUSED' ? 'refused' : outgoing.reusedSocket || hasAnswer ? 'cut' : 'reset',
            `${error.code} ${error.message}`,
          );
        let hasAnswer = false;
        outgoing.on('error', failed);
        outgoing.on('response', (response) => {
          hasAnswer = true;
          position = response.headers['vitrine-position']?.toString() ?? position;
          textOf(response).then(
            (text) => resolve({ status: response.statusCode ?? 0, etag: response.headers.etag ?? '', text }),
            failed,
          );
        });
        outgoing.on('close', () => timers.forEach(clearTimeout));
        outgoing.end(body === undefined ? undefined : JSON.stringify(body));
      }),
    close: () => agent.destroy(),
  };
}
