// Record keys as segments of URL paths.
import { notFound } from '../../errors.ts';

/** A key as a segment. A comma stays as it is where nothing else is encoded, so that `12,34` is legible. */
export function keySegment(id: string): string {
  const legible = encodeURIComponent(id).replaceAll('%2C', ',');
  return legible.includes('%') ? encodeURIComponent(id) : legible;
}

/**
 * The key in a percent-encoded segment. The parts of a key of several columns are already percent-encoded: `12,a%2Fb`. A segment
 * may be this text as it is, or encoded once more.
 * @param isComposite whether the key has several columns
 * @returns undefined for invalid percent-encoding
 */
export function keyOfSegment(segment: string, isComposite: boolean): string | undefined {
  if (isComposite && segment.includes(',')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** The text of a percent-encoded segment. @throws Problem 404 with this detail for invalid percent-encoding */
export function decodeSegment(segment: string, isComposite = false, detail?: string): string {
  const text = keyOfSegment(segment, isComposite);
  if (text === undefined) throw notFound(detail);
  return text;
}
