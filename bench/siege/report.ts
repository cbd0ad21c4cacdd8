import { cpus } from 'node:os';
import { isKept, type Row, type Scenario } from './scenario.ts';

export interface Result {
  readonly scenario: Pick<Scenario, 'name' | 'title'>;
  readonly rows: readonly Row[];
  /** The share of the processor time that the host took meanwhile, from 0 to 1. */
  readonly stolen: number;
  /** The number of this try; a scenario over a limit is repeated. */
  readonly tries: number;
  /** Why the scenario did not end. */
  readonly fault?: string;
}

const number = (value: number): string => {
  if (Number.isNaN(value)) return 'none';
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', { maximumFractionDigits: digits });
};
const quantity = (value: number, unit: string): string =>
  `${number(value)}${unit === '×' ? '' : ' '}${unit}`.trim();

function verdict(row: Row, isShort: boolean): string {
  const kept = isKept(row, isShort);
  return kept === undefined ? 'not checked' : kept ? 'ok' : '**over**';
}

/** Whether every row keeps its limit. */
export const isHeld = ({ rows, fault }: Result, isShort: boolean): boolean =>
  fault === undefined && rows.every((row) => isKept(row, isShort) ?? true);

/** The lines of one scenario. */
export function lines({ scenario, rows, fault, tries }: Result, isShort: boolean): string[] {
  const name = `${scenario.title} (\`${scenario.name}\`${tries > 1 ? `, try ${tries}` : ''})`;
  const cells = rows.map((row, index) => [
    index === 0 ? name : '',
    row.note === undefined ? row.what : `${row.what} (${row.note})`,
    `${row.bound} ${quantity(row.limit, row.unit)}`,
    quantity(row.value, row.unit),
    verdict(row, isShort),
  ]);
  if (fault !== undefined) cells.push([name, fault, 'ends', 'failed', '**over**']);
  return cells.map((row) => `| ${row.join(' | ')} |`);
}

export const HEAD = ['| attack | measured | limit | value | |', '| --- | --- | --- | ---: | --- |'];

/** Whether every limit is kept; else by which attacks not. */
export function summary(results: readonly Result[], isShort: boolean): string {
  const over = results.filter((result) => !isHeld(result, isShort)).map(({ scenario }) => scenario.name);
  if (over.length === 0) return 'Every limit is kept';
  return `${over.length} of ${results.length} attacks exceed a limit (${over.join(', ')})`;
}

/** The page of a full run. */
export function report(results: readonly Result[], postgres: string): string {
  return [
    '# Under siege',
    '',
    '`npm run siege` writes this page. Each attack runs in processes of its own against a fresh, compiled service with 500,000 rows.',
    'Meanwhile an honest client at another address reads records by id over 8 connections and edits records over 4.',
    '',
    '- "×" compares with the same client on the same service just before the attack, for rates before and after it. Values under attack are the median of three rounds of 4 s.',
    '- "event loop held" is processor time of the main thread between two turns of the loop, so waiting for a core does not count.',
    '- "longest statement" is processor time of one process of PostgreSQL, for the same reason.',
    '- Attackers, client, service and PostgreSQL share the cores of one machine.',
    `- The host of this virtual machine took at most ${number(100 * Math.max(...results.map(({ stolen }) => stolen)))} % of its processor time during an attack. The speed of the machine still changes, so an attack over a limit is repeated up to twice; its row says so.`,
    '',
    `${summary(results, false)}. PostgreSQL ${postgres}, Node.js ${process.version}, ${cpus().length} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), ${new Date().toISOString().slice(0, 10)}.`,
    '',
    ...HEAD,
    ...results.flatMap((result) => lines(result, false)),
    '',
  ].join('\n');
}
