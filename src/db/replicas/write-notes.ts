// Notes which requests have run statements that may write, or that decide whether to write.
import type { Database } from '../connection/database.ts';
import { SERVICE, type Requester } from '../lanes/requester.ts';

export class WriteNotes {
  readonly #writers = new WeakSet<Requester>();

  /** Whether a request may have written something, or was refused because of what it has read. */
  has(requester: Requester): boolean {
    return this.#writers.has(requester);
  }

  /**
   * A database that notes the requesters of writes.
   * @param notesReads whether those of reads count as well
   */
  noting(database: Database, requester: Requester = SERVICE, notesReads = false): Database {
    const note = (): void => void this.#writers.add(requester);
    return {
      for: (other) => this.noting(database.for(other), other, notesReads),
      run: (statement, kind, options) => {
        if (kind === 'write' || notesReads) note();
        return database.run(statement, kind, options);
      },
      transaction: (work, limits) => {
        if (limits !== 'panel') note();
        return database.transaction(work, limits);
      },
      cursor: (statement, maxRows) => database.cursor(statement, maxRows),
      lanes: () => database.lanes(),
      close: () => database.close(),
    };
  }
}
