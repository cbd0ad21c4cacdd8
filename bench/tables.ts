// Numbers as text and as Markdown tables.

/** The median; NaN of no numbers. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((one, other) => one - other);
  const middle = sorted.length / 2;
  const [low = NaN, high = NaN] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return (low + high) / 2;
}

/** A rounded number with separators of thousands; '' for NaN. */
export const whole = (number: number): string =>
  Number.isNaN(number) ? '' : Math.round(number).toLocaleString('en');

/** A Markdown table whose columns hold numbers, but the first `texts`. */
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
    `| ${cells
      .map((cell, column) =>
        column < texts ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join(' | ')} |`;
  const rule = widths.map((width, column) =>
    column < texts ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  return [line(head), line(rule), ...body.map(line)].join('\n');
}
