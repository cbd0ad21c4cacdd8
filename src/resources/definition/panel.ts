import { text, type Database } from '../../db/connection/database.ts';
import { isObject } from './is-object.ts';

/** A value of a statement's parameter. PostgreSQL reads it as whatever type the statement has in that place. */
export type PanelValue = string | number | boolean | null;

export interface PanelContext {
  /**
   * Runs one statement that only reads. Its parameters stand in it as `$1`, `$2` and so on. Each row has by the names of its
   * columns what PostgreSQL writes for their values, which is always text, or null.
   */
  readonly query: (
    statement: string,
    values?: readonly PanelValue[],
  ) => Promise<Record<string, string | null>[]>;
}

export interface PanelTable {
  readonly columns: readonly string[];
  /** At most 100, each with a cell for every column. */
  readonly rows: readonly (readonly (string | number | boolean | null)[])[];
}

export interface PanelSeries {
  /** At most 100 points, drawn in this order. */
  readonly series: readonly { readonly label: string; readonly value: number }[];
  /** What the values are counted in: `EUR`. */
  readonly unit?: string;
  /** Bars when absent. */
  readonly kind?: 'bar' | 'line';
}

export type PanelContent = number | string | PanelTable | PanelSeries;

/** A part of the admin area's start page that a resource file brings along (see docs/admin.md). */
export interface Panel {
  readonly title: string;
  /** A line below the title that says more. */
  readonly text?: string;
  readonly load: (context: PanelContext) => Promise<PanelContent>;
}

export interface Panels {
  readonly list: readonly Panel[];
  /**
   * What a panel shows.
   * @throws PanelFault when that cannot be shown, LateError when it takes too long, and whatever its function throws
   */
  readonly load: (panel: Panel) => Promise<PanelContent>;
}

/** What a panel gives is not what a panel may give. */
export class PanelFault extends Error {}

/** Something was not there in its time. */
export class LateError extends Error {}

/** Milliseconds for everything that one panel does. */
const DEADLINE = 5_000;
/** How many statements of panels run at once; each has a connection of its own. */
const MOST_STATEMENTS = 4;
/** Points of a series, and rows of a table. */
const MOST_SHOWN = 100;

/** The outcome of some work, or a LateError when it takes longer; the work itself is left alone. */
export async function within<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new LateError(`not there after ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const KEYS = new Set(['title', 'text', 'load']);

/** The faults of panels that may be anything, since they may be written without types; none means that they are `Panel[]`. */
export function checkPanels(panels: unknown): string[] {
  if (!Array.isArray(panels)) return ['the registry: panels must be an array of panels'];
  const faults: string[] = [];
  const titles = new Set<unknown>();
  panels.forEach((panel: unknown, index) => {
    if (!isObject(panel)) return faults.push(`panel ${index + 1}: must be an object`);
    const { title, text: about, load } = panel;
    const isTitled = typeof title === 'string' && title.trim() !== '';
    const report = (key: string, fault: string): void => {
      faults.push(`panel ${isTitled ? JSON.stringify(title) : index + 1}: ${key}: ${fault}`);
    };
    for (const key of Object.keys(panel)) if (!KEYS.has(key)) report(key, 'there is no such key');
    if (!isTitled) report('title', 'must be a text');
    else if (titles.has(title)) report('title', 'another panel has this title');
    titles.add(title);
    if (about !== undefined && typeof about !== 'string') report('text', 'must be a text');
    if (typeof load !== 'function') report('load', 'must be a function');
  });
  return faults;
}

function assertKeys(object: Record<string, unknown>, ...known: readonly string[]): void {
  const unknown = Object.keys(object).find((key) => !known.includes(key));
  if (unknown !== undefined) throw new PanelFault(`${unknown}: there is no such key`);
}

function assertTable(table: Record<string, unknown>): void {
  assertKeys(table, 'columns', 'rows');
  const { columns, rows } = table;
  const isList = Array.isArray(columns) && columns.length > 0;
  // `every` would step over holes of an array.
  if (!isList || !Array.from(columns as unknown[]).every((name) => typeof name === 'string'))
    throw new PanelFault('columns must be an array of texts');
  if (!Array.isArray(rows)) throw new PanelFault('rows must be an array of rows');
  if (rows.length > MOST_SHOWN) throw new PanelFault(`${rows.length} rows: at most ${MOST_SHOWN} are shown`);
  rows.forEach((row: unknown, index) => {
    if (!Array.isArray(row) || row.length !== columns.length)
      throw new PanelFault(
        `rows[${index}] must be an array with a cell for each of ${columns.length} columns`,
      );
    const isCell = (cell: unknown): boolean =>
      cell === null || typeof cell === 'string' || typeof cell === 'boolean' || Number.isFinite(cell);
    if (!Array.from(row as unknown[]).every(isCell))
      throw new PanelFault(`rows[${index}] must have only texts, finite numbers, true, false and null`);
  });
}

function assertSeries(content: Record<string, unknown>): void {
  assertKeys(content, 'series', 'unit', 'kind');
  const { series, unit, kind } = content;
  if (!Array.isArray(series)) throw new PanelFault('series must be an array of points');
  if (series.length > MOST_SHOWN)
    throw new PanelFault(`${series.length} points: at most ${MOST_SHOWN} are drawn`);
  if (unit !== undefined && typeof unit !== 'string') throw new PanelFault('unit must be a text');
  if (kind !== undefined && kind !== 'bar' && kind !== 'line')
    throw new PanelFault("kind must be 'bar' or 'line'");
  Array.from(series as unknown[]).forEach((point, index) => {
    if (!isObject(point) || typeof point['label'] !== 'string' || !Number.isFinite(point['value']))
      throw new PanelFault(`series[${index}] must have a text as its label and a finite number as its value`);
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
    throw new PanelFault('a panel gives a number, a text, { columns, rows } or { series }');
  if ('rows' in content) assertTable(content);
  else assertSeries(content);
  return content as unknown as PanelTable | PanelSeries;
}

/** As text that PostgreSQL reads as any type, so that no driver's idea of a type comes between. */
function parameter(value: unknown, index: number): string | null {
  if (value === null) return null;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return String(value);
  throw new Error(`the value of $${index + 1} must be a text, a number, true, false or null`);
}

async function readRows(
  database: Pick<Database, 'transaction'>,
  statement: string,
  values: readonly (string | null)[],
): Promise<Record<string, string | null>[]> {
  const rows = await database.transaction((run) => run(statement, values), 'panel');
  const names = rows.columns?.map(({ name }) => name) ?? [];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined)
    throw new Error(`two columns of the statement are called ${JSON.stringify(twice)}`);
  return rows.map((row) => Object.fromEntries(row.map((cell, index) => [names[index] ?? '', text(cell)])));
}

/** The panels of a service, which take turns in using its database. */
export function createPanels(database: Pick<Database, 'transaction'>, list: readonly Panel[]): Panels {
  let running = 0;
  const waiting: (() => void)[] = [];

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= MOST_STATEMENTS) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      // Of a dead network nothing is ever heard, and what has waited this long is for nobody any more.
      return await within(DEADLINE, work());
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  }

  return {
    list,
    async load(panel) {
      let isOver = false;
      const query: PanelContext['query'] = (statement, values = []) => {
        const rows = ask(statement, values);
        // One that nobody waits for any more, because another one has failed, must not end the process.
        rows.catch(() => undefined);
        return rows;
      };
      const ask: PanelContext['query'] = async (statement, values = []) => {
        const parameters = Array.from(values, parameter);
        return inTurn(() => {
          if (isOver) throw new LateError('the time of this panel is over');
          return readRows(database, statement, parameters);
        });
      };
      try {
        // In a promise of its own: a function that is not async may throw at once.
        return checkContent(
          await within(
            DEADLINE,
            Promise.resolve().then(() => panel.load({ query })),
          ),
        );
      } finally {
        isOver = true;
      }
    },
  };
}
