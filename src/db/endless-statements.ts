// Asks what a process of PostgreSQL does: whether it computes, and whether it still runs an abandoned statement, which it may not be able to cancel.
import { setTimeout as sleep } from 'node:timers/promises';
import type { BoundSql } from './fragment.ts';
import type { RawRow } from './rows.ts';

/** Milliseconds until the first look at the process: what can be canceled ends soon. Each further wait is twice as long. */
const FIRST_WAIT = 10;
const MAX_WAIT = 1_000;
/** Milliseconds after which a look counts as failed. */
const TIMEOUT = 1_000;
/** Failed looks in a row after which PostgreSQL itself is away, and nothing is known about its processes. */
const MAX_FAILURES = 2;

const ACTIVE = `select 1 from pg_stat_activity where pid = $1::text::int8 and usename = current_user and state = 'active'`;
/** A process that has ended its statement, or waits for the client that was lost, does not run it. */
const RUNNING = `${ACTIVE} and wait_event_type is distinct from 'Client'`;
/** Others wait for a lock, a time or another server, and keep no processor busy. */
const COMPUTING = `${ACTIVE} and coalesce(wait_event_type, '') in ('', 'IO', 'LWLock')`;

export class EndlessStatements {
  readonly #run: (statement: BoundSql) => Promise<RawRow[]>;
  #isClosed = false;

  /** @param run runs a short statement */
  constructor(run: (statement: BoundSql) => Promise<RawRow[]>) {
    this.#run = run;
  }

  /**
   * Resolves when a process has ended its abandoned statement, or when PostgreSQL does not answer.
   * @param process the process ID of the PostgreSQL backend
   */
  async ended(process: number): Promise<void> {
    let failures = 0;
    for (let wait = FIRST_WAIT; !this.#isClosed; wait = Math.min(MAX_WAIT, 2 * wait)) {
      await sleep(wait);
      const isRunning = await this.#look(RUNNING, process);
      if (isRunning === false) return;
      failures = isRunning ? 0 : failures + 1;
      if (failures === MAX_FAILURES) return;
      if (failures > 0) wait = MAX_WAIT; // A connection that was lost, too, needs a while to be replaced.
    }
  }

  /**
   * Whether a process computes, and does not wait for a lock.
   * @param process undefined if its ID is not known, as behind a transaction pooler
   */
  async isComputing(process: number | undefined): Promise<boolean> {
    return process !== undefined && (await this.#look(COMPUTING, process)) === true;
  }

  /** Waits for no statement any longer. */
  close(): void {
    this.#isClosed = true;
  }

  /** @returns whether the query finds the process; undefined without an answer */
  #look(text: string, process: number): Promise<boolean | undefined> {
    const found = this.#run({ text, values: [String(process)], fixed: true }).then(
      ({ length }) => length > 0,
      () => undefined,
    );
    return Promise.race([found, sleep(TIMEOUT, undefined, { ref: false })]);
  }
}
