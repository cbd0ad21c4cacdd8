// The database as a reading request uses it: reads run on a replica, or on the primary if the replica fails.
import type { Database } from '../connection/database.ts';
import type { RunOptions, StatementKind } from '../statement-kinds.ts';
import type { Reached } from '../connection/server-guard.ts';
import type { Transaction, TransactionLimits } from '../connection/transactions.ts';
import type { Statement } from '../rows.ts';
import type { Requester } from '../lanes/requester.ts';
import { ReplicaFailed, type Replica } from './replica.ts';

/** A replica that may answer now, and what its server must have reached when it does. */
export interface Choice {
  readonly replica: Replica;
  readonly required: Reached;
}

/** @returns undefined if the primary must answer */
export type Choose = () => Choice | undefined;

export class ReplicaReads implements Database {
  readonly #primary: Database;
  readonly #requester: Requester;
  readonly #choose: Choose;

  /** @param primary on behalf of the requester */
  constructor(primary: Database, requester: Requester, choose: Choose) {
    this.#primary = primary;
    this.#requester = requester;
    this.#choose = choose;
  }

  for(requester: Requester): Database {
    return new ReplicaReads(this.#primary.for(requester), requester, this.#choose);
  }

  async run<T>(statement: Statement<T>, kind: StatementKind, options?: RunOptions): Promise<T> {
    const choice = kind === 'write' ? undefined : this.#choose();
    if (choice) {
      const { replica, required } = choice;
      try {
        return await replica.read(required, (database) =>
          database.for(this.#requester).run(statement, kind, options),
        );
      } catch (error) {
        if (!(error instanceof ReplicaFailed)) throw error;
      }
    }
    return this.#primary.run(statement, kind, options);
  }

  transaction<T>(work: (transaction: Transaction) => Promise<T>, limits: TransactionLimits): Promise<T> {
    return this.#primary.transaction(work, limits);
  }

  async *cursor<T>(statement: Statement<T>, maxRows: number): AsyncGenerator<T, void> {
    const begun = await this.#begin(statement, maxRows);
    if (!begun) return yield* this.#primary.cursor(statement, maxRows);
    const [first, batches] = begun;
    try {
      if (first.done) return;
      yield first.value;
      yield* batches;
    } finally {
      await batches.return();
    }
  }

  lanes(): ReturnType<Database['lanes']> {
    return this.#primary.lanes();
  }

  close(): Promise<void> {
    return this.#primary.close();
  }

  /** Reads the first batch on a replica. Once it was sent to the client, the primary cannot go on. */
  async #begin<T>(
    statement: Statement<T>,
    maxRows: number,
  ): Promise<[IteratorResult<T, void>, AsyncGenerator<T, void>] | undefined> {
    const choice = this.#choose();
    if (!choice) return undefined;
    let batches: AsyncGenerator<T, void> | undefined;
    try {
      const first = await choice.replica.read(choice.required, (database) => {
        const begun = (batches = database.for(this.#requester).cursor(statement, maxRows));
        return begun.next();
      });
      return batches && [first, batches];
    } catch (error) {
      // Not awaited: a replica that is gone may never answer.
      void batches?.return().catch(() => undefined);
      if (error instanceof ReplicaFailed) return undefined;
      throw error;
    }
  }
}
