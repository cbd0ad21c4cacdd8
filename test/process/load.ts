// Clients that ask all the time, and count every request that was not answered as it should be.
import { Agent, request as send } from 'node:http';
import { once } from 'node:events';
import { basic } from '../support.ts';

export interface Tally {
  readonly sent: number;
  readonly answered: number;
  /** What went wrong: the code of a connection's error, or an answer's status. */
  readonly faults: readonly string[];
  /** The contents of the messages that were answered with 201. */
  readonly created: readonly string[];
}

export interface Load {
  readonly tally: () => Tally;
  /** Lets each client finish its last request. */
  readonly stop: () => Promise<Tally>;
}

/** Clients on connections that are kept alive, as many on a new one for each request; every fourth request writes. */
export function hammer(base: string, user: string, clientsOfEach = 4): Load {
  let isOver = false;
  let sent = 0;
  let answered = 0;
  const faults: string[] = [];
  const created: string[] = [];

  async function ask(agent: Agent, method: 'GET' | 'POST', content: string): Promise<void> {
    sent += 1;
    // Anonymous reads would be refused on a machine so slow that they count as costly.
    const headers = { authorization: basic(user), 'content-type': 'application/json' };
    const path = method === 'GET' ? '/api/message/?limit=2' : '/api/message/';
    const outgoing = send(`${base}${path}`, { method, agent, headers });
    outgoing.end(method === 'GET' ? '' : JSON.stringify({ content }));
    try {
      const [response] = await once(outgoing, 'response');
      response.resume();
      await once(response, 'end');
      answered += 1;
      if (response.statusCode !== (method === 'GET' ? 200 : 201)) faults.push(String(response.statusCode));
      else if (method === 'POST') created.push(content);
    } catch (error) {
      faults.push(`${method} ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
    }
  }

  async function client(name: string, keepAlive: boolean): Promise<void> {
    const agent = new Agent({ keepAlive, maxSockets: 1 });
    for (let count = 0; !isOver; count += 1)
      await ask(agent, count % 4 === 3 ? 'POST' : 'GET', `${name} ${count}`);
    agent.destroy();
  }

  const clients = [true, false].flatMap((keepAlive) =>
    Array.from({ length: clientsOfEach }, (_, at) =>
      client(`${keepAlive ? 'kept' : 'new'} ${at}`, keepAlive),
    ),
  );
  const tally = (): Tally => ({ sent, answered, faults, created });
  return {
    tally,
    stop: async () => {
      isOver = true;
      await Promise.all(clients);
      return tally();
    },
  };
}
