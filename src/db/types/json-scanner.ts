// Validates JSON text without building its values. Linear and iterative, so hostile text cannot exhaust time or stack.

import { setImmediate } from 'node:timers/promises';
import { addedDigits, MAX_WRITTEN, writtenDigits } from './exponents.ts';
import { messageOf, type Message } from '../../messages.ts';

/** Properties of a JSON text for which PostgreSQL may refuse it. */
export interface JsonFacts {
  /** The number of nested levels of arrays and objects. */
  readonly depth: number;
  readonly hasNul: boolean;
  readonly hasLoneSurrogate: boolean;
  /** Whether a number has more digits than numeric can hold, or than a number with an exponent may have. */
  readonly hasHugeNumber: boolean;
  /** The digits that exponents add, see `DigitBudget`. */
  readonly addedDigits: number;
}

/** Called for each field of the outermost object: the key, the bounds of the value, and the facts of the value. */
export type OnField = (key: string, start: number, end: number, facts: JsonFacts) => void;

// Plain constants, because the compiler does not inline destructured ones in the loops.
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const MINUS = 0x2d;
const PLUS = 0x2b;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LETTER_A = 0x61;
const LETTER_E = 0x65;
const LETTER_U = 0x75;
/** The characters allowed after a backslash, except `u`. */
const ESCAPES: ReadonlySet<number> = new Set([...'"\\/bfnrt'].map((letter) => letter.charCodeAt(0)));
const LITERALS = ['true', 'false', 'null'];
/** The digits that numeric can hold before and after the decimal point. */
export const NUMERIC_WHOLE = 131_072;
export const NUMERIC_FRACTION = 16_383;
/** Values that are scanned in one iteration of the event loop. They take about a millisecond. */
const VALUES_PER_TURN = 20_000;
/** As how many values a field counts whose key is read. */
const FIELD_VALUES = 40;

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE;

/** Whitespace characters from which a pattern finds the end sooner. */
const LONG_SPACE = 32;
const NOT_SPACE = /[^ \n\r\t]/g;

/** The position of the first character at or after `from` that is not JSON whitespace. */
export function skipSpace(text: string, from: number): number {
  for (let at = from; at < from + LONG_SPACE; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 0x20 || (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09)) return at;
  }
  NOT_SPACE.lastIndex = from + LONG_SPACE;
  return NOT_SPACE.exec(text)?.index ?? text.length;
}

function skipDigits(text: string, from: number): number {
  let at = from;
  while (isDigit(text.charCodeAt(at))) at += 1;
  return at;
}

/** The value of four hexadecimal digits, or -1. */
function hexAt(text: string, from: number): number {
  let value = 0;
  for (let at = from; at < from + 4; at += 1) {
    const code = text.charCodeAt(at);
    const letter = (code | 0x20) - LETTER_A;
    if (isDigit(code)) value = value * 16 + code - ZERO;
    else if (letter >= 0 && letter < 6) value = value * 16 + letter + 10;
    else return -1;
  }
  return value;
}

class Scanner {
  readonly text: string;
  depth = 0;
  hasNul = false;
  hasLoneSurrogate = false;
  hasHugeNumber = false;
  addedDigits = 0;
  /** Where the text stopped being JSON. */
  failedAt = 0;

  constructor(text: string) {
    this.text = text;
  }

  /** Notes where the text stopped being JSON. */
  fail(at: number): -1 {
    this.failedAt = at;
    return -1;
  }

  /** Begins the value of a field of the outermost object. */
  beginField(): void {
    this.depth = 0;
    this.hasNul = false;
    this.hasLoneSurrogate = false;
    this.hasHugeNumber = false;
    this.addedDigits = 0;
  }

  /** The facts of the value since `beginField`. */
  fieldFacts(): JsonFacts {
    const { depth, hasNul, hasLoneSurrogate, hasHugeNumber, addedDigits: added } = this;
    return { depth: Math.max(0, depth - 1), hasNul, hasLoneSurrogate, hasHugeNumber, addedDigits: added };
  }

  /** The end of the string that starts at `from`, or -1. */
  string(from: number): number {
    const { text } = this;
    let hasSurrogate = false;
    for (let at = from + 1; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        if (hasSurrogate && !(JSON.parse(text.slice(from, at + 1)) as string).isWellFormed())
          this.hasLoneSurrogate = true;
        return at + 1;
      }
      if (code < 0x20) return this.fail(at);
      if (code !== BACKSLASH) continue;
      at += 1;
      const escape = text.charCodeAt(at);
      if (escape === LETTER_U) {
        const unit = hexAt(text, at + 1);
        if (unit < 0) return this.fail(at - 1);
        if (unit === 0) this.hasNul = true;
        if (unit >= 0xd800 && unit <= 0xdfff) hasSurrogate = true;
        at += 4;
      } else if (!ESCAPES.has(escape)) return this.fail(at - 1);
    }
    return this.fail(text.length);
  }

  /** The end of the number that starts at `from`, or -1. */
  number(from: number): number {
    const { text } = this;
    const whole = text.charCodeAt(from) === MINUS ? from + 1 : from;
    let at = text.charCodeAt(whole) === ZERO ? whole + 1 : skipDigits(text, whole);
    if (at === whole) return this.fail(at);
    const wholeDigits = at - whole;
    let fractionDigits = 0;
    if (wholeDigits > NUMERIC_WHOLE) this.hasHugeNumber = true;
    if (text.charCodeAt(at) === POINT) {
      const fraction = at + 1;
      at = skipDigits(text, fraction);
      if (at === fraction) return this.fail(at);
      fractionDigits = at - fraction;
      if (fractionDigits > NUMERIC_FRACTION) this.hasHugeNumber = true;
    }
    if ((text.charCodeAt(at) | 0x20) !== LETTER_E) return at;
    const sign = text.charCodeAt(at + 1);
    const exponent = sign === PLUS || sign === MINUS ? at + 2 : at + 1;
    const end = skipDigits(text, exponent);
    if (end === exponent) return this.fail(end);
    const written = writtenDigits(wholeDigits, fractionDigits, Number(text.slice(at + 1, end)));
    if (written > MAX_WRITTEN) this.hasHugeNumber = true;
    else this.addedDigits += addedDigits(written, end - from);
    return end;
  }

  /** The end of the string, number or literal that starts at `at`, or -1. */
  scalar(at: number): number {
    const code = this.text.charCodeAt(at);
    if (code === QUOTE) return this.string(at);
    if (code === MINUS || isDigit(code)) return this.number(at);
    const literal = LITERALS.find((word) => this.text.startsWith(word, at));
    return literal === undefined ? this.fail(at) : at + literal.length;
  }
}

/** The result of a scan: the facts, or the position at which the text stops being JSON. */
type Scanned = JsonFacts | number;

type Steps = Generator<undefined, Scanned>;

/** Lets other work run before a scan goes on. */
type Pause = () => Promise<unknown> | undefined;

async function finishInTurns(steps: Steps, yieldIfDue: Pause): Promise<Scanned> {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    const pause = yieldIfDue();
    if (pause) await pause;
  }
}

/**
 * Validates JSON text and collects the facts that decide whether PostgreSQL can store it.
 * @returns the position of the error if the text is not JSON
 */
export const scanJson = (text: string): Scanned => scanSteps(text, Infinity).next().value ?? 0;

/** Finds the fields of an object. @returns the position of the error if the text is not JSON */
export const scanFields = (text: string, onField: OnField): Scanned =>
  scanSteps(text, Infinity, onField).next().value ?? 0;

/** The error at the position at which a text stops being JSON. */
export function jsonErrorAt(text: string, position: number): Message {
  let line = 1;
  let start = 0;
  for (let end = text.indexOf('\n'); end >= 0 && end < position; end = text.indexOf('\n', start)) {
    line += 1;
    start = end + 1;
  }
  const place = { line, column: position - start + 1 };
  return messageOf(position < text.length ? 'unexpectedCharacter' : 'unexpectedEnd', place);
}

/** Whether a text is scanned in one iteration of the event loop. */
export const isShortJson = (text: string): boolean => text.length < VALUES_PER_TURN;

/** Like `scanJson`, in many iterations of the event loop for a long text. */
export const scanJsonInTurns = (text: string, yieldIfDue: Pause = setImmediate): Promise<Scanned> =>
  finishInTurns(scanSteps(text, VALUES_PER_TURN), yieldIfDue);

/** Like `scanFields`, in many iterations of the event loop for a long text. */
export const scanFieldsInTurns = (
  text: string,
  onField: OnField,
  yieldIfDue: Pause = setImmediate,
): Promise<Scanned> => finishInTurns(scanSteps(text, VALUES_PER_TURN, onField), yieldIfDue);

/** Scans a text, and yields after so many values. */
function* scanSteps(text: string, valuesPerStep: number, onField?: OnField): Steps {
  const scanner = new Scanner(text);
  /** The closing brackets of the open arrays and objects. A byte array, because growing a large list takes too long. */
  let closers = new Uint8Array(64);
  let open = 0;
  let key: string | undefined;
  let start = 0;
  let at = skipSpace(text, 0);
  let valuesLeft = valuesPerStep;

  /** The start of the value whose key is at `at`, or -1. */
  const readKey = (): number => {
    const end = text.charCodeAt(at) === QUOTE ? scanner.string(at) : scanner.fail(at);
    if (end < 0) return -1;
    if (onField && open === 1) {
      key = JSON.parse(text.slice(at, end)) as string;
      valuesLeft -= FIELD_VALUES;
      scanner.beginField();
    }
    const colon = skipSpace(text, end);
    if (text.charCodeAt(colon) !== COLON) return scanner.fail(colon);
    return skipSpace(text, colon + 1);
  };

  for (;;) {
    valuesLeft -= 1;
    if (valuesLeft <= 0) {
      valuesLeft = valuesPerStep;
      yield;
    }
    if (open === 1) start = at;
    const code = text.charCodeAt(at);
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      const closer = code + 2;
      if (open === closers.length) {
        const longer = new Uint8Array(2 * open);
        longer.set(closers);
        closers = longer;
      }
      closers[open] = closer;
      open += 1;
      if (open > scanner.depth) scanner.depth = open;
      at = skipSpace(text, at + 1);
      if (text.charCodeAt(at) !== closer) {
        if (code === OPEN_BRACE) at = readKey();
        if (at < 0) return scanner.failedAt;
        continue;
      }
    } else {
      at = scanner.scalar(at);
      if (at < 0) return scanner.failedAt;
    }
    // After a value: closing brackets may follow, then a comma and the next value.
    for (;;) {
      if (key !== undefined && open === 1) {
        onField?.(key, start, at, scanner.fieldFacts());
        key = undefined;
      }
      at = skipSpace(text, at);
      if (open === 0) return at === text.length ? scanner : at;
      const closer = closers[open - 1];
      const next = text.charCodeAt(at);
      if (next === closer) {
        open -= 1;
        at += 1;
      } else if (next === COMMA) {
        at = skipSpace(text, at + 1);
        if (closer === CLOSE_BRACE) at = readKey();
        if (at < 0) return scanner.failedAt;
        break;
      } else return at;
    }
  }
}
