// When a process ends, passes the connections that it had not accepted yet to the other processes. Node.js would keep them open
// and unread, so their clients would wait forever.
import type { Worker } from 'node:cluster';

/** Node.js's undocumented messages for handing over a connection (`act`, `seq`, `ack`). Without them, nothing happens here. */
interface ClusterMessage {
  readonly act?: unknown;
  readonly seq?: number;
  readonly ack?: number;
}

/** Milliseconds to wait for replies that an ended process had already sent. */
const LAST_ANSWERS = 100;

/** @param child a process that `cluster` has just started */
export function redistributeConnections(child: Worker['process']): void {
  /** The sequence numbers of connections that the process has not accepted yet. */
  const handed = new Set<number>();
  const send = child.send.bind(child) as (...parts: unknown[]) => boolean;
  child.send = (message: ClusterMessage, ...rest: unknown[]): boolean => {
    if (message.act === 'newconn' && message.seq !== undefined) handed.add(message.seq);
    return send(message, ...rest);
  };
  child.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) handed.delete(ack);
  });
  const giveBack = (): void => {
    for (const ack of handed) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: false });
  };
  child.once('exit', () => setTimeout(giveBack, LAST_ANSWERS));
}
