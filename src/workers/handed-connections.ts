// Gives the connections that a process was handed, and has not accepted when it ends, to the other processes. Node.js keeps them
// open without reading them, so that their clients would wait for as long as they want.
import type { Worker } from 'node:cluster';

/** What Node.js sends to hand over a connection, and what comes back. It is not documented: without it, nothing happens here. */
interface ClusterMessage {
  readonly act?: unknown;
  readonly seq?: number;
  readonly ack?: number;
}

/** Milliseconds in which the last answers of a process that has ended are read. */
const LAST_ANSWERS = 100;

/** @param child a process that `cluster` has just started */
export function keepHandedConnections(child: Worker['process']): void {
  /** The numbers of the messages without an answer. */
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
