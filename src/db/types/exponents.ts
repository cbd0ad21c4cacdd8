// Bounds the digits that exponents add: PostgreSQL outputs the number 1e999 with 1,000 digits.
import { messageOf, type Message } from '../../messages.ts';

/** Maximum digits of a number with an exponent, when it is written without one. */
export const MAX_WRITTEN = 1000;
/** Maximum digits that the exponents of one body or query add. */
const MAX_ADDED = 65_536;
/** Numbers that become at most this many times as long do not count, so that ordinary measurements have no limit. */
const FREE_GROWTH = 3;

/**
 * The digits of a number that is written without its exponent.
 * @param whole its digits before the decimal point
 * @param fraction its digits after the decimal point
 */
export const writtenDigits = (whole: number, fraction: number, exponent: number): number =>
  Math.max(1, whole + exponent) + Math.max(0, fraction - exponent);

/** The digits that an exponent adds. @param length the length of the number as it was sent */
export const addedDigits = (written: number, length: number): number =>
  Math.max(0, written - FREE_GROWTH * length);

/** Counts the digits that the exponents of one body or query add. */
export class DigitBudget {
  readonly #whole: string;
  #added = 0;

  constructor(whole: 'body' | 'query') {
    this.#whole = whole;
  }

  /** Counts these digits. @returns an error message if there are too many */
  take(added = 0): Message | undefined {
    this.#added += added;
    if (added === 0 || this.#added <= MAX_ADDED) return undefined;
    const [got, max] = [this.#added, MAX_ADDED].map((count) => count.toLocaleString('en-US'));
    return messageOf('tooManyDigits', { whole: this.#whole, got: got ?? '', max: max ?? '' });
  }
}
