// Numbers as text, and Markdown tables.
import { readFileSync } from 'node:fs';
import { cpus, totalmem, type } from 'node:os';

/** The number below which this part of the numbers lies; NaN of no numbers. */
export function quantile(numbers: readonly number[], part: number): number {
  const sorted = Float64Array.from(numbers).sort();
  return sorted[Math.floor((sorted.length - 1) * part)] ?? NaN;
}

/** The median; of an even count, the mean of the two in the middle. NaN of no numbers. */
export const median = (numbers: readonly number[]): number => {
  const sorted = Float64Array.from(numbers).sort();
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
};

export const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

/** A rounded number with separators of thousands; '' for NaN. */
export const whole = (number: number): string =>
  Number.isNaN(number) ? '' : Math.round(number).toLocaleString('en');

/** A number with about three digits that count. */
export function short(number: number): string {
  if (Number.isNaN(number)) return 'none';
  const size = Math.abs(number);
  const digits = size >= 100 || Number.isInteger(number) ? 0 : size >= 10 ? 1 : 2;
  return number.toLocaleString('en', { maximumFractionDigits: digits });
}

/** A Markdown table whose columns hold numbers, except the first `texts`. */
export function markdown(
  head: readonly string[],
  body: readonly (readonly string[])[],
  texts: number,
): string {
  const widths = head.map((_, column) =>
    // Markdown wants a rule of at least three characters.
    Math.max(3, ...[head, ...body].map((cells) => cells[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${widths
      .map((width, column) => (cells[column] ?? '')[column < texts ? 'padEnd' : 'padStart'](width))
      .join(' | ')} |`;
  const rule = widths.map((width, column) =>
    column < texts ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  return [line(head), line(rule), ...body.map(line)].join('\n');
}

const versionOf = (name: string): string => {
  const file = new URL(`../node_modules/${name}/package.json`, import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
};

/** What a run was made on, for the pages of results. */
export const machine = (postgres: string, packages: readonly string[] = []): string =>
  [
    `${cpus()[0]?.model.trim() ?? 'unknown'}, ${cpus().length} cores, ${whole(totalmem() / 2 ** 30)} GB of memory, ${type()}`,
    `Node ${process.versions.node}, PostgreSQL ${postgres}`,
    ...packages.map((name) => `${name} ${versionOf(name)}`),
  ].join(', ');
