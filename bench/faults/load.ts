import { setTimeout as sleep } from 'node:timers/promises';
import { createIncrementer, createLeaver, createWriter, type Client } from './client.ts';
import { openConnection, type Connection } from './connection.ts';
import type { Ledger } from './ledger.ts';

const WRITERS = 8;
const INCREMENTERS = 4;
const LEAVERS = 3;
/** How long the service may take until every client can write again (seconds). */
const RECOVERY = 45;

export interface Load {
  /** Acknowledged writes so far. */
  readonly acknowledged: () => number;
  /**
   * Waits until every patient client has a success for a write that it sent from now on.
   * @returns seconds until the first success, and until the last client had one; undefined for a client that never had
   */
  readonly recovered: () => Promise<{ readonly first: number; readonly all: number | undefined }>;
  /** Lets each client finish its last request. */
  readonly stop: () => Promise<void>;
}

/** Starts the clients. */
export function startLoad(base: string, authorization: string, ledger: Ledger): Load {
  const open = (): Connection => openConnection(base, authorization);
  const make = (count: number, create: (connection: Connection, ledger: Ledger) => Client): Client[] =>
    Array.from({ length: count }, () => create(open(), ledger));
  const patient = [...make(WRITERS, createWriter), ...make(INCREMENTERS, createIncrementer)];
  const clients = [...patient, ...make(LEAVERS, createLeaver)];
  let isOver = false;
  const running = clients.map((client) => client.run(() => isOver));
  const acknowledged = (): number => clients.reduce((sum, client) => sum + client.acknowledged().count, 0);
  return {
    acknowledged,
    recovered: async () => {
      const started = performance.now();
      const known = acknowledged();
      let first = NaN;
      for (;;) {
        const seconds = (performance.now() - started) / 1000;
        if (Number.isNaN(first) && acknowledged() > known) first = seconds;
        if (patient.every((client) => client.acknowledged().sent >= started)) return { first, all: seconds };
        if (seconds > RECOVERY) return { first, all: undefined };
        await sleep(5);
      }
    },
    stop: async () => {
      isOver = true;
      await Promise.all(running);
    },
  };
}
