import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds between two refusals on one connection: what `Retry-After: 1` asks for. */
const INTERVAL = 1_000;

/**
 * Paces the refusals of clients that ignore `Retry-After`. The first one is sent at once. Asking again and again on a connection
 * gets the next one a second later, and so takes little of the processor from others.
 * @returns undefined where the refusal may be sent at once, else resolves when it may
 */
export function createPace(): (socket: Socket) => Promise<void> | undefined {
  const latest = new WeakMap<Socket, number>();
  return (socket) => {
    const now = performance.now();
    const due = (latest.get(socket) ?? -INTERVAL) + INTERVAL;
    latest.set(socket, Math.max(now, due));
    return due > now ? sleep(due - now) : undefined;
  };
}
