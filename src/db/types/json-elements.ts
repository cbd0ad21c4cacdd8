// Splits the text of a JSON array into its elements, which keep their texts, so that numbers lose no digits.
import { skipSpace } from './json-scanner.ts';

/** An element: its JSON text, or an inner array. */
export type JsonElement = string | readonly JsonElement[];

/** The maximum dimensions of an array in PostgreSQL. */
const MAX_DIMENSIONS = 6;

/** The position after the string that starts at `from`. */
function endOfString(text: string, from: number): number {
  for (let at = from + 1; ; at += 1) {
    at = text.indexOf('"', at);
    if (at < 0) return text.length;
    let backslashes = 0;
    while (text[at - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return at + 1;
  }
}

/** The position after the number, literal or object that starts at `from`. For an object the position is arbitrary: no array type has objects as elements. */
function endOfScalar(text: string, from: number): number {
  if (text[from] === '"') return endOfString(text, from);
  let at = from + 1;
  while (!',] \n\r\t'.includes(text.charAt(at))) at += 1;
  return at;
}

/**
 * The elements of a JSON array.
 * @param text valid JSON that starts with `[`
 * @returns undefined for more elements than `max`. The elements end after the first object, and in the first array of too many
 *   dimensions: PostgreSQL has neither.
 */
export function jsonElements(text: string, max: number): readonly JsonElement[] | undefined {
  const root: JsonElement[] = [];
  const open = [root];
  let count = 0;
  for (let at = skipSpace(text, 1); open.length > 0; at = skipSpace(text, at)) {
    const inner = open.at(-1);
    const sign = text[at];
    if (sign === undefined || !inner) break;
    if (sign === ']') open.pop();
    if (sign === ']' || sign === ',') {
      at += 1;
      continue;
    }
    count += 1;
    if (count > max) return undefined;
    if (sign === '[') {
      const next: JsonElement[] = [];
      inner.push(next);
      if (open.push(next) > MAX_DIMENSIONS) break;
      at += 1;
      continue;
    }
    const end = endOfScalar(text, at);
    inner.push(text.slice(at, end));
    if (sign === '{') break;
    at = end;
  }
  return root;
}

/** Whether all inner arrays of each dimension have the same length, so that PostgreSQL can store the array. */
export function isRectangular(elements: readonly JsonElement[]): boolean {
  const inner = elements.filter((element) => typeof element !== 'string');
  if (inner.length === 0) return true;
  if (inner.length < elements.length) return false;
  const [first] = inner;
  if (!first || first.length === 0) return false;
  const flat = inner.flat();
  return inner.every(({ length }) => length === first.length) && isRectangular(flat);
}
