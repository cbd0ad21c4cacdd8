// Runs the panels of the admin area's start page, with limits, and checks what they return.
import { setMaxListeners } from 'node:events';
import type { Database } from '../../db/connection/database.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import { text } from '../../db/rows.ts';
import { ClientGone, isClientGone, SERVICE, type Requester } from '../../db/lanes/requester.ts';
import type { Logger } from '../../http/observability/logger.ts';
import { isObject } from '../../resources/definition/validators.ts';
import type {
  Panel,
  PanelContent,
  PanelContext,
  PanelSeries,
  PanelTable,
  PanelValue,
} from '../../resources/definition/panel.ts';

/** A panel has returned something that cannot be shown. */
export class PanelFault extends Error {}

/** Some work took longer than its timeout. */
export class TimeoutError extends Error {}

/** Milliseconds for one panel, including all of its statements. */
const TIMEOUT = 5_000;
/** Maximum points of a series, and rows of a table. */
const MAX_ITEMS = 100;

/** Waits for some work, at most so many milliseconds. A timeout does not cancel the work. @throws TimeoutError */
export async function withTimeout<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no result after ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function assertKeys(object: Record<string, unknown>, ...known: readonly string[]): void {
  const unknown = Object.keys(object).find((key) => !known.includes(key));
  if (unknown !== undefined) throw new PanelFault(`${unknown}: there is no such key`);
}

function assertTable(table: Record<string, unknown>): void {
  assertKeys(table, 'columns', 'rows');
  const { columns, rows } = table;
  const isList = Array.isArray(columns) && columns.length > 0;
  // `every` skips the holes of a sparse array.
  if (!isList || !Array.from(columns as unknown[]).every((name) => typeof name === 'string'))
    throw new PanelFault('columns must be an array of strings');
  if (!Array.isArray(rows)) throw new PanelFault('rows must be an array of rows');
  if (rows.length > MAX_ITEMS) throw new PanelFault(`${rows.length} rows: at most ${MAX_ITEMS} are allowed`);
  rows.forEach((row: unknown, index) => {
    if (!Array.isArray(row) || row.length !== columns.length)
      throw new PanelFault(
        `rows[${index}] must be an array with one cell for each of the ${columns.length} columns`,
      );
    const isCell = (cell: unknown): boolean =>
      cell === null || typeof cell === 'string' || typeof cell === 'boolean' || Number.isFinite(cell);
    if (!Array.from(row as unknown[]).every(isCell))
      throw new PanelFault(`rows[${index}] must have only strings, finite numbers, true, false and null`);
  });
}

function assertSeries(content: Record<string, unknown>): void {
  assertKeys(content, 'series', 'unit', 'kind');
  const { series, unit, kind } = content;
  if (!Array.isArray(series)) throw new PanelFault('series must be an array of points');
  if (series.length > MAX_ITEMS)
    throw new PanelFault(`${series.length} points: at most ${MAX_ITEMS} are allowed`);
  if (unit !== undefined && typeof unit !== 'string') throw new PanelFault('unit must be a string');
  if (kind !== undefined && kind !== 'bar' && kind !== 'line')
    throw new PanelFault("kind must be 'bar' or 'line'");
  Array.from(series as unknown[]).forEach((point, index) => {
    if (!isObject(point) || typeof point['label'] !== 'string' || !Number.isFinite(point['value']))
      throw new PanelFault(
        `series[${index}] must have a string as its label and a finite number as its value`,
      );
    assertKeys(point, 'label', 'value');
  });
}

/** @throws PanelFault */
function checkContent(content: unknown): PanelContent {
  if (typeof content === 'string') return content;
  if (typeof content === 'number') {
    if (!Number.isFinite(content)) throw new PanelFault(`${content} is not a finite number`);
    return content;
  }
  if (!isObject(content) || 'series' in content === 'rows' in content)
    throw new PanelFault('a panel must return a number, a string, { columns, rows } or { series }');
  if ('rows' in content) assertTable(content);
  else assertSeries(content);
  return content as unknown as PanelTable | PanelSeries;
}

/** A parameter as text, so that PostgreSQL and not the driver converts it. */
function parameter(value: unknown, index: number): string | null {
  if (value === null) return null;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return String(value);
  throw new Error(`the value of $${index + 1} must be a string, a number, true, false or null`);
}

/** Runs the SQL of a registry file. @returns each row with its values by column name */
export async function queryRows(
  { send }: Pick<Transaction, 'send'>,
  statement: string,
  values: readonly PanelValue[],
): Promise<Record<string, string | null>[]> {
  const rows = await send(statement, Array.from(values, parameter));
  const names = rows.columns?.map(({ name }) => name) ?? [];
  const duplicate = names.find((name, index) => names.indexOf(name) !== index);
  if (duplicate !== undefined)
    throw new Error(`two columns of the statement are named ${JSON.stringify(duplicate)}`);
  return rows.map((row) => Object.fromEntries(row.map((cell, index) => [names[index] ?? '', text(cell)])));
}

/** A panel that is loading, for all who have asked for it. */
interface Run {
  readonly content: Promise<PanelContent>;
  /** How many clients wait for it. */
  waiting: number;
  readonly end: (reason: Error) => void;
}

export type Panels = ReturnType<typeof createPanels>;

/**
 * The panels of a service. They see the same for every admin, so all who ask for a panel while it loads get the same content. It is
 * canceled when the last of them has disconnected.
 */
export function createPanels(database: Pick<Database, 'for'>, list: readonly Panel[], logger: Logger) {
  const runs = new Map<Panel, Run>();

  function start(panel: Panel): Run {
    const ending = new AbortController();
    const { signal } = ending;
    // Each of its statements listens.
    setMaxListeners(0, signal);
    const own = database.for({
      ...SERVICE,
      key: `panel ${panel.title}`,
      onGone: (callback) => {
        if (signal.aborted) queueMicrotask(callback);
        else signal.addEventListener('abort', callback);
        return () => signal.removeEventListener('abort', callback);
      },
    });
    const runQuery: PanelContext['query'] = async (statement, values = []) => {
      signal.throwIfAborted();
      return own.transaction((transaction) => queryRows(transaction, statement, values), 'panel');
    };
    const query: PanelContext['query'] = (...call) => {
      const rows = runQuery(...call);
      // If one of several statements fails, the panel does not await the others. Their errors must not end the process.
      rows.catch(() => undefined);
      return rows;
    };
    const ended = new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason as Error)),
    );
    // Inside a promise, because a function that is not async may throw synchronously.
    const loaded = Promise.resolve().then(() => panel.load({ query, signal }));
    const end = (reason: Error): void => {
      if (runs.get(panel) === run) runs.delete(panel);
      ending.abort(reason);
    };
    const content = withTimeout(TIMEOUT, Promise.race([loaded, ended]))
      .then(checkContent)
      // A function of the registry may throw any value.
      .catch((error: unknown) => {
        if (isClientGone(error)) throw error;
        const { message, stack } = error instanceof Error ? error : new Error(String(error));
        const isKnown = error instanceof TimeoutError || error instanceof PanelFault;
        const facts = { message: 'a panel could not be shown', panel: panel.title, error: message };
        logger.error(isKnown ? facts : { ...facts, stack });
        throw error;
      })
      .finally(() => end(new TimeoutError('the panel has already ended')));
    const run: Run = { content, waiting: 0, end };
    runs.set(panel, run);
    return run;
  }

  return {
    list,
    /**
     * The content of a panel.
     * @throws PanelFault if the content is not valid, TimeoutError if it takes too long, what the panel's function throws; ClientGone
     */
    load(panel: Panel, requester: Pick<Requester, 'onGone'>): Promise<PanelContent> {
      const run = runs.get(panel) ?? start(panel);
      run.waiting += 1;
      const stopListening = requester.onGone(() => {
        run.waiting -= 1;
        if (run.waiting === 0) run.end(new ClientGone());
      });
      return run.content.finally(stopListening);
    },
  };
}
