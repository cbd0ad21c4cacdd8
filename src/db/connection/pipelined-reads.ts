// Pipelines short reads. PostgreSQL ends those that are not short, because they delay the reads behind them.
import { isConnectionError, isDatabaseError, QUERY_CANCELED } from './database-errors.ts';
import { cancelLate, Connections, NotSent, SessionChanged, type ConnectionOptions } from './connections.ts';
import { increment } from '../counts.ts';
import { Exclusions } from '../exclusions.ts';
import { Histogram } from '../histogram.ts';
import type { LaneState } from '../lanes/lane.ts';
import { MAX_KEYS, valueList, withoutLarge, type SmallSql } from '../fragment.ts';
import type { RawRow, SentStatement } from '../rows.ts';
import { MAX_TEXT } from '../statement-texts.ts';

/** Maximum statements of one client. */
const MAX_OF_CLIENT = 8;

interface Reader {
  readonly statement: SentStatement;
  /** Without rows, the reader must read elsewhere. */
  readonly resolve: (rows: RawRow[] | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** The readers of one text. */
interface Group {
  /** Statements that were sent and have no answer yet. */
  running: number;
  waiting: Reader[];
}

export interface PipelinedOptions extends ConnectionOptions {
  /** Milliseconds after which a statement is canceled. Behind a transaction pooler PostgreSQL does not know this limit. */
  readonly limit: number;
  readonly isPrepared: (statement: SentStatement) => boolean;
}

/** Whether an answer lacks its record or page, because it might be large. */
const isLeftOut = ({ isPage, small }: SentStatement, rows: readonly RawRow[]): boolean =>
  (isPage === true || small !== undefined) && rows[0]?.[0] === null;

/** Whether the connection is the reason for an error, or the server behind it. */
const isLost = (error: unknown): boolean => !isDatabaseError(error) || isConnectionError(error);

/** Why a read behind a transaction pooler was canceled. */
const LATE = new Error('late');

export class PipelinedReads {
  readonly connections: Connections;
  readonly #options: PipelinedOptions;
  /** Texts and clients whose reads were not short, or whose pages are large. */
  readonly #texts = new Exclusions<string>();
  readonly #clients = new Exclusions<string>();
  /** Texts with a record that has more than its share of the bytes: the sum of the records is checked, which takes longer. */
  readonly #uneven = new Exclusions<string>();
  readonly #runningOf = new Map<string, number>();
  readonly #groups = new Map<string, Group>();
  readonly #durations = new Histogram();
  #moved = 0;

  constructor(options: PipelinedOptions) {
    this.#options = options;
    this.connections = new Connections(options);
  }

  get state(): LaneState & { readonly durations: Histogram } {
    const waiting = [...this.#groups.values()].reduce((sum, group) => sum + group.waiting.length, 0);
    const { running } = this.connections;
    return { running, waiting, refused: 0, moved: this.#moved, durations: this.#durations };
  }

  /** Whether a read may join without a wait: reads with its text, and those of its client, were short. */
  mayJoin({ text, isPlain }: SentStatement, key?: string): boolean {
    return (
      isPlain === true &&
      text.length <= MAX_TEXT &&
      this.connections.hasRoom &&
      !this.#texts.isExcluded(text) &&
      (key === undefined ||
        (!this.#clients.isExcluded(key) && (this.#runningOf.get(key) ?? 0) < MAX_OF_CLIENT))
    );
  }

  /** @returns undefined if the read must run elsewhere: it was not short, its record or page is large, or its connection was lost */
  async run(statement: SentStatement, key?: string): Promise<RawRow[] | undefined> {
    if (key === undefined) return this.#send(statement);
    increment(this.#runningOf, key);
    try {
      const rows = await this.#send(statement, key);
      if (rows) this.#clients.noteSuccess(key);
      return rows;
    } finally {
      increment(this.#runningOf, key, -1);
    }
  }

  /**
   * Like `run`, but readers that arrive while a statement with their text is running go together in the next one: with all keys, or
   * as one statement for all readers of the same values. A read only joins a statement that was not sent yet, so no reader sees a
   * state older than its request. Those that wait are bounded by the number of connections: each has one request that runs or waits.
   */
  share(statement: SentStatement): Promise<RawRow[] | undefined> {
    const { text, isPlain } = statement;
    if (isPlain !== true || this.#texts.isExcluded(text)) return Promise.resolve(undefined);
    let group = this.#groups.get(text);
    if (!group) this.#groups.set(text, (group = { running: 0, waiting: [] }));
    return new Promise((resolve, reject) => {
      group.waiting.push({ statement, resolve, reject });
      if (group.running === 0) this.#sendNext(text, group);
    });
  }

  #sendNext(text: string, group: Group): void {
    if (this.#texts.isExcluded(text)) for (const { resolve } of group.waiting.splice(0)) resolve(undefined);
    const readers = group.waiting.splice(0, MAX_KEYS);
    const [first] = readers;
    if (!first) return void this.#groups.delete(text);
    const byValues = new Map<string, [Reader, ...Reader[]]>();
    for (const reader of readers) {
      const key = reader.statement.values.join('\0');
      const same = byValues.get(key);
      if (same) same.push(reader);
      else byValues.set(key, [reader]);
    }
    const distinct = [...byValues.values()];
    if (distinct.length > 1 && first.statement.many !== undefined)
      return this.#sendFor(text, group, this.#sendKeys(first.statement.many, text, distinct), readers);
    for (const same of distinct) {
      const sent = this.#send(same[0].statement).then((rows) => same.forEach(({ resolve }) => resolve(rows)));
      this.#sendFor(text, group, sent, same);
    }
  }

  /** Sends one statement for readers of different keys. */
  async #sendKeys(
    many: SmallSql,
    text: string,
    distinct: readonly (readonly [Reader, ...Reader[]])[],
  ): Promise<void> {
    const { values } = valueList(distinct.map(([{ statement }]) => statement.values[0] ?? ''));
    const isSummed = this.#uneven.isExcluded(text);
    const rows = await this.#send(
      { text: many(isSummed), values, fixed: true, isPlain: true },
      undefined,
      text,
    );
    const found = rows && new Map(rows.map(([position, ...row]) => [Number(position) - 1, row]));
    distinct.forEach((readers, index) => {
      const row = found?.get(index);
      // The statement leaves out large records, which would delay the others.
      const isLarge = row !== undefined && row[0] === null;
      if (isLarge) this.#moved += readers.length;
      if (isLarge && !isSummed) this.#uneven.noteDelay(text);
      const isElsewhere = !found || isLarge;
      for (const { resolve } of readers) resolve(isElsewhere ? undefined : row ? [row] : []);
    });
  }

  #sendFor(text: string, group: Group, sent: Promise<void>, readers: readonly Reader[]): void {
    group.running += 1;
    void sent
      .catch((error: unknown) => {
        // The record of one reader may be the reason: the others must not fail with it.
        for (const { resolve, reject } of readers) {
          if (readers.length > 1 && !isLost(error)) resolve(undefined);
          else reject(error);
        }
      })
      .finally(() => {
        group.running -= 1;
        if (group.running === 0) this.#sendNext(text, group);
      });
  }

  /**
   * @param key of the client that stays away for a while if the statement is not short
   * @param text the text that stays away then
   * @returns see `run`
   */
  async #send(statement: SentStatement, key?: string, text = statement.text): Promise<RawRow[] | undefined> {
    const isSummed = this.#uneven.isExcluded(text);
    const sent = withoutLarge(statement, isSummed);
    try {
      const rows = await this.#execute(sent);
      if (isLeftOut(statement, rows)) {
        if (statement.isPage) (isSummed ? this.#texts : this.#uneven).noteDelay(text);
        this.#moved += 1;
        return undefined;
      }
      this.#texts.noteSuccess(text);
      return rows;
    } catch (error) {
      const isLate = error === LATE || (isDatabaseError(error) && error.code === QUERY_CANCELED);
      if (isLate) {
        this.#texts.noteDelay(text);
        if (key !== undefined) this.#clients.noteDelay(key);
      }
      // A read may run again; if a replica has lost it, on the primary.
      const isUnharmed = error instanceof SessionChanged || error instanceof NotSent;
      const mayRunAgain = isUnharmed || (isLost(error) && !this.#options.guard);
      if (!isLate && !mayRunAgain) throw error;
      this.#moved += 1;
      return undefined;
    }
  }

  async #execute(statement: SentStatement): Promise<RawRow[]> {
    const { isPrepared, limit, depth } = this.#options;
    const connection = this.connections.free();
    if (!connection) throw new NotSent();
    const begun = performance.now();
    const execution = connection.execute(statement, isPrepared(statement));
    const stopTimer = depth > 1 ? undefined : cancelLate(execution, limit, LATE);
    try {
      return await execution.rows;
    } finally {
      stopTimer?.();
      this.#durations.observe((performance.now() - begun) / 1000);
    }
  }
}
