// Forms in parts (RFC 7578), with all that it allows in the headers of a part; Node's own parser takes what browsers write.
import { setImmediate } from 'node:timers/promises';
import { Problem } from '../../errors.ts';
import { decodeBody, parameterOf } from '../message/text-decoding.ts';

/** The most characters of the headers of a part: browsers send a few hundred. */
const MAX_PART_HEADERS = 16_384;

/** The answer to a form with more fields than it may have. */
export const tooManyFields = (most: number): Problem =>
  new Problem(413, `The form has more than ${most} fields.`);

/** Characters of a text whose letters are looked at before it is decoded. */
const SHORT = 1000;
// eslint-disable-next-line no-control-regex -- all of ASCII
const IS_ASCII = /^[\x00-\x7f]*$/;
/** How browsers write what would end a name or its line. */
const ESCAPES: Readonly<Record<string, string>> = { '%22': '"', '%0d': '\r', '%0a': '\n' };

/**
 * The parts of a body, each from the line break behind its delimiter to the one before the next. A delimiter is a whole line;
 * the same text anywhere else belongs to a part, or to what stands before the first part and behind the last.
 * @returns undefined where the last delimiter is missing
 */
function splitParts(text: string, boundary: string, most: number): string[] | undefined {
  const escaped = boundary.replace(/[^A-Za-z0-9]/g, '\\$&');
  const delimiter = new RegExp(`(?:^|\\r\\n)--${escaped}(--)?[ \\t]*(?=\\r\\n|$)`, 'g');
  const parts: string[] = [];
  let start: number | undefined;
  for (const { 0: line, 1: isLast, index } of text.matchAll(delimiter)) {
    if (start !== undefined) parts.push(text.slice(start, index));
    if (parts.length > most) throw tooManyFields(most);
    if (isLast) return parts;
    start = index + line.length;
  }
  return undefined;
}

/** The name and the content of a part; undefined where it is no field. */
function readPart(part: string): [name: string, content: string] | undefined {
  // Behind the headers of an empty part the line break may be the delimiter's.
  const end = `${part}\r\n`.indexOf('\r\n\r\n');
  if (end < 0 || end > MAX_PART_HEADERS) return undefined;
  const headers = part.slice(0, end).replace(/\r\n[ \t]+/g, ' ');
  const [, disposition] = /\r\nContent-Disposition:[ \t]*form-data[ \t]*(;[^\r\n]*)/i.exec(headers) ?? [];
  const name = disposition && parameterOf(disposition, 'name');
  if (name === undefined) return undefined;
  return [name.replace(/%22|%0d|%0a/gi, (sign) => ESCAPES[sign.toLowerCase()] ?? sign), part.slice(end + 4)];
}

type Field = [name: string, content: string];

/** Parts that are read between two chances for other requests. */
const PARTS_IN_TURN = 1000;

/** Reads a form in parts, and yields where other requests may be served. See `readMultipart`. */
function* readParts(
  bytes: Buffer,
  contentType: string,
  most: number,
  only?: string,
): Generator<undefined, Field[]> {
  const boundary = parameterOf(contentType, 'boundary');
  // As Latin-1 each byte is a character, and what is found can be turned back into bytes and decoded strictly.
  const parts = boundary ? splitParts(bytes.toString('latin1'), boundary, most) : undefined;
  if (!parts) throw new Problem(400, NOT_IN_PARTS);
  const fields: Field[] = [];
  for (const [index, part] of parts.entries()) {
    if (index % PARTS_IN_TURN === PARTS_IN_TURN - 1) yield;
    const field = readPart(part);
    if (!field) throw new Problem(400, NOT_IN_PARTS);
    fields.push(field);
  }
  const wanted = only === undefined ? fields : fields.filter(([name]) => name === only);
  return wanted.map(([name, content]): Field => [decode(name), decode(content)]);
}

const NOT_IN_PARTS = 'The body is not multipart/form-data.';

// Most fields are short and in ASCII, which needs no decoder.
const decode = (text: string): string =>
  text.length < SHORT && IS_ASCII.test(text) ? text : decodeBody(Buffer.from(text, 'latin1'));

/**
 * The fields of a form in parts, files as their text.
 * @param most the most fields
 * @param only the one field that is wanted; of others it does not matter what they hold
 * @throws Problem 400; 413 for too many fields
 */
export function readMultipart(bytes: Buffer, contentType: string, most: number, only?: string): Field[] {
  const steps = readParts(bytes, contentType, most, only);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** The same with all fields, while other requests are served. @throws Problem 400, 413 */
export async function readMultipartInTurns(
  bytes: Buffer,
  contentType: string,
  most: number,
): Promise<Field[]> {
  const steps = readParts(bytes, contentType, most);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await setImmediate();
  }
}
