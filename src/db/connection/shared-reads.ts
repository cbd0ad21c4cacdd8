// Lets short reads share statements: those that arrive while one of their shape is running go together in the next one.
import { OVERLOADED } from '../../errors.ts';
import type { ClientPresence } from '../client-presence.ts';
import { valueList, withoutLarge } from '../fragment.ts';
import type { RawRow, SentStatement } from '../rows.ts';
import type { Requester } from '../scheduling/requester.ts';
import { newShape, type Shape, type Shapes } from '../statement-shapes.ts';
import { isConnectionError, isDatabaseError } from './database-errors.ts';
import { SessionChanged } from './pool-job.ts';
import { isLeftOut, noteAnswer, noteLarge } from './quick-shapes.ts';

/** Maximum keys in one statement. */
const MAX_KEYS = 64;

export type ShapedStatement = SentStatement & { readonly shape: Shape };

/** @param isRemembered whether the shape is kept for the next statement with this text */
export function withShape(statement: SentStatement, shapes: Shapes, isRemembered: boolean): ShapedStatement {
  const shape = isRemembered ? shapes.use(statement.text, statement.fixed) : newShape(statement.text);
  // The shape's text is the same object each time, which makes later look-ups faster.
  const { values, fixed, isPage, isPlain, mayBlock, small, many, record, rows, followUp } = statement;
  return {
    text: shape.text,
    values,
    fixed,
    isPage,
    isPlain,
    mayBlock,
    small,
    many,
    record,
    rows,
    followUp,
    shape,
  };
}

interface Reader {
  readonly statement: ShapedStatement;
  readonly requester: Requester;
  readonly resolve: (rows: RawRow[] | undefined) => void;
  readonly reject: (error: unknown) => void;
  /** When it began to wait (milliseconds of `performance.now`). */
  readonly since: number;
}

/** The readers of one shape. */
interface Group {
  /** Statements that were sent and have no answer yet. */
  running: number;
  waiting: Reader[];
}

export interface SharedReadsOptions {
  /** Of all statements' clients. */
  readonly presence: ClientPresence;
  /** Runs a statement over the pipelined connection. */
  readonly send: (statement: ShapedStatement, requester: Pick<Requester, 'pause'>) => Promise<RawRow[]>;
  /** Runs a statement on a connection to itself. */
  readonly sendApart: (statement: ShapedStatement, requester: Requester) => Promise<RawRow[]>;
  /** Whether a statement of the shape may be sent over it now: it would not delay others. */
  readonly maySend: (shape: Shape) => boolean;
}

/**
 * Maximum milliseconds that a page probably takes, and that all pages which were sent and have no answer yet probably take together,
 * while several clients are present: all other reads wait for them.
 */
const MAX_PAGE_TIME = 2;
const MAX_PAGES_TIME = 10;
/** Maximum readers of one shape that wait. */
const MAX_WAITING = 1_000;
/** Maximum milliseconds of waiting for a statement that takes long. */
const MAX_WAIT = 2_000;

/**
 * A read only joins a statement that was not sent yet, so no reader sees a state older than its request. Reads of single records
 * become one statement with all keys; reads of the same page become one statement with several readers.
 */
export class SharedReads {
  readonly #groups = new Map<Shape, Group>();
  readonly #options: SharedReadsOptions;
  /** Pages without an answer, and the milliseconds that they probably take. */
  #pages = 0;
  #pageTime = 0;

  constructor(options: SharedReadsOptions) {
    this.#options = options;
  }

  /**
   * @returns undefined if the statement must run on a connection to itself: it would wait, its record or page is large, or the
   * pages before it take long
   * @throws Problem 503 when too many wait, or for too long
   */
  run(statement: ShapedStatement, requester: Requester): Promise<RawRow[] | undefined> {
    let group = this.#groups.get(statement.shape);
    if (group && group.waiting.length >= MAX_WAITING) return Promise.reject(OVERLOADED);
    if (!group) this.#groups.set(statement.shape, (group = { running: 0, waiting: [] }));
    const since = performance.now();
    this.#options.presence.note(requester.key, since);
    return new Promise((resolve, reject) => {
      group.waiting.push({ statement, requester, resolve, reject, since });
      if (group.running === 0) this.#sendNext(statement.shape, group);
    });
  }

  /**
   * Sends waiting readers elsewhere while a statement delays those behind it.
   * @param delaying the shape of this statement: its own readers would only be delayed there, too. They wait, and those that
   * have waited for long are refused.
   */
  disperse(delaying: Shape | undefined): void {
    const latest = performance.now() - MAX_WAIT;
    for (const [shape, group] of this.#groups) {
      if (shape !== delaying) {
        this.#leaveAll(group);
        continue;
      }
      for (const { requester } of group.waiting) requester.pause();
      const late = group.waiting.filter(({ since }) => since <= latest);
      group.waiting = group.waiting.filter(({ since }) => since > latest);
      for (const { reject } of late) reject(OVERLOADED);
    }
  }

  #leaveAll(group: Group): void {
    for (const { resolve } of group.waiting.splice(0)) resolve(undefined);
  }

  #sendNext(shape: Shape, group: Group): void {
    if (!this.#options.maySend(shape)) this.#leaveAll(group);
    const readers = group.waiting.splice(0, MAX_KEYS);
    if (readers.length === 0) return void this.#groups.delete(shape);
    const byValues = new Map<string, Reader[]>();
    for (const reader of readers) {
      const key = reader.statement.values.join('\0');
      const same = byValues.get(key);
      if (same) same.push(reader);
      else byValues.set(key, [reader]);
    }
    const distinct = [...byValues.values()];
    const [first] = readers;
    if (distinct.length > 1 && first?.statement.many !== undefined)
      this.#sendKeys(group, first.statement, distinct);
    else for (const same of distinct) this.#sendOne(group, same);
    if (group.running === 0) this.#sendNext(shape, group); // all of them run elsewhere
  }

  /** Sends one statement for readers of the same values. */
  #sendOne(group: Group, readers: readonly Reader[]): void {
    const [first] = readers;
    if (!first) return;
    const statement = withoutLarge(first.statement);
    const { isPage, shape } = statement;
    if (isPage && this.#isFull(shape)) return this.#sendApart(first, readers);
    const deliver = (rows: RawRow[]): void => {
      const isLarge = isLeftOut(statement, rows);
      if (isLarge) noteAnswer(shape, statement, rows);
      for (const { resolve } of readers) resolve(isLarge ? undefined : rows);
    };
    this.#send(group, statement, readers, deliver);
  }

  /** Runs a page on a connection to itself, once for all readers. If it fails for its requester, the others run it themselves. */
  #sendApart(first: Reader, readers: readonly Reader[]): void {
    const [, ...others] = readers;
    if (others.length === 0) return first.resolve(undefined);
    void this.#options.sendApart(first.statement, first.requester).then(
      (rows) => {
        for (const { resolve } of readers) resolve(isLeftOut(first.statement, rows) ? undefined : rows);
      },
      (error: unknown) => {
        first.reject(error);
        for (const { resolve } of others) resolve(undefined);
      },
    );
  }

  /** Whether the pages that were sent take so long that one more would delay the other clients too much. */
  #isFull({ quickMean }: Shape): boolean {
    const isLate = quickMean > MAX_PAGE_TIME || this.#pageTime + quickMean > MAX_PAGES_TIME;
    return isLate && this.#options.presence.hasSeveral(performance.now());
  }

  /** Sends one statement for readers of different keys. */
  #sendKeys(
    group: Group,
    { many = '', shape }: ShapedStatement,
    distinct: readonly (readonly Reader[])[],
  ): void {
    const { values } = valueList(distinct.map(([reader]) => reader?.statement.values[0] ?? ''));
    const statement = { text: many, values, fixed: true, isPlain: true, shape };
    this.#send(group, statement, distinct.flat(), (rows) => {
      const found = new Map(rows.map(([position, ...row]) => [Number(position) - 1, row]));
      distinct.forEach((readers, index) => {
        const row = found.get(index);
        for (const reader of readers) {
          // The statement leaves out a large value, which would delay the others.
          if (row && row[0] === null) {
            noteLarge(shape, reader.statement);
            reader.resolve(undefined);
          } else reader.resolve(row ? [row] : []);
        }
      });
    });
  }

  #send(
    group: Group,
    statement: ShapedStatement,
    readers: readonly Reader[],
    deliver: (rows: RawRow[]) => void,
  ): void {
    const pages = statement.isPage ? 1 : 0;
    const time = pages * statement.shape.quickMean;
    group.running += 1;
    this.#pages += pages;
    this.#pageTime += time;
    const pause = (): void => readers.forEach(({ requester }) => requester.pause());
    const end = (): void => {
      group.running -= 1;
      this.#pages -= pages;
      this.#pageTime = this.#pages === 0 ? 0 : this.#pageTime - time; // a sum of rounded numbers
      if (group.running === 0) this.#sendNext(statement.shape, group);
    };
    const fail = (error: unknown): void => {
      // The record of one reader may be the reason: the others must not fail with it.
      const isShared = readers.length > 1 && isDatabaseError(error) && !isConnectionError(error);
      for (const reader of readers) {
        if (isShared || error instanceof SessionChanged) reader.resolve(undefined);
        else reader.reject(error);
      }
    };
    void this.#options.send(statement, { pause }).then(deliver).catch(fail).finally(end);
  }
}
