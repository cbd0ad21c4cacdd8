// Finds the name that a mistyped one probably means.

/** Longer names are not compared, because that takes time in proportion to the product of two lengths. */
const LONGEST = 20;

/** The known name that a mistyped one probably means, if any: at most a third of its characters differ. */
export function similarName(name: string, known: readonly string[]): string | undefined {
  if (name.length > LONGEST) return undefined;
  const most = Math.floor(name.length / 3);
  const near = known
    .filter((one) => Math.abs(one.length - name.length) <= most)
    .map((one) => ({ one, far: distance(name.toLowerCase(), one.toLowerCase()) }))
    .filter(({ far }) => far <= most);
  return near.toSorted((a, b) => a.far - b.far)[0]?.one;
}

/**
 * The number of characters to insert, delete, replace or swap with the next to turn one text into the other (Levenshtein distance
 * with swaps).
 */
export function distance(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, index) => index)];
  const cell = (row: number, at: number): number => rows[row]?.[at] ?? 0;
  for (let row = 0; row < from.length; row += 1) {
    const next = [row + 1];
    rows.push(next);
    for (let at = 0; at < to.length; at += 1) {
      const isSwapped = at > 0 && row > 0 && from[row] === to[at - 1] && from[row - 1] === to[at];
      next.push(
        Math.min(
          cell(row + 1, at) + 1,
          cell(row, at + 1) + 1,
          cell(row, at) + Number(from[row] !== to[at]),
          isSwapped ? cell(row - 1, at - 1) + 1 : Infinity,
        ),
      );
    }
  }
  return rows.at(-1)?.at(-1) ?? 0;
}
