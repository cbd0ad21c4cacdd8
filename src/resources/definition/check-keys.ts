// Checks of the keys of an object in a registry file, which may hold anything.
import { faultIf, type KeyFault } from '../../errors.ts';

export type Loose = Readonly<Record<string, unknown>>;

/** Whether a value is an object with keys: not an array and not null. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const isBoolean = (value: unknown): boolean => typeof value === 'boolean';
export const isIn =
  (allowed: readonly string[]) =>
  (value: unknown): boolean =>
    allowed.includes(value as string);

/** A fault for each of these keys that is given and whose value is not valid. @param path goes before the keys: `admin.` */
export const checkKeys = (
  object: Loose,
  keys: readonly string[],
  isValid: (value: unknown) => boolean,
  text: string,
  path = '',
): KeyFault[] =>
  keys.flatMap((key) => faultIf(object[key] !== undefined && !isValid(object[key]), `${path}${key}`, text));

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

/** The known key that a mistyped one probably means, if any: at most a third of its characters differ. */
function nearestKey(key: string, known: readonly string[]): string | undefined {
  if (key.length > 20) return undefined;
  const far = (one: string): number => distance(key.toLowerCase(), one.toLowerCase());
  const [nearest] = known.filter((one) => far(one) * 3 <= key.length).toSorted((a, b) => far(a) - far(b));
  return nearest;
}

/** A fault for each key that is not known, with the known key that it probably means. */
export const unknownKeys = (
  object: Loose,
  known: readonly string[],
  path = '',
  text = 'there is no such key',
): KeyFault[] =>
  Object.keys(object)
    .filter((key) => !known.includes(key))
    .map((key) => {
      const nearest = nearestKey(key, known.filter((one) => !Object.hasOwn(object, one))); // prettier-ignore
      return {
        key: `${path}${key}`,
        text: nearest === undefined ? text : `${text}; did you mean ${nearest}?`,
      };
    });
