// Forms in parts (RFC 7578), with all that it allows in the headers of a part; Node's own parser takes what browsers write.
import { Problem } from '../errors.ts';
import { decodeBody, parameterOf } from './text.ts';

/** The most characters of the headers of a part: browsers send a few hundred. */
const MAX_PART_HEADERS = 16_384;

/** The answer to a form with more fields than it may have. */
export const tooManyFields = (most: number): Problem =>
  new Problem(413, `The form has more than ${most} fields.`);

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

/**
 * The fields of a form in parts, files as their text.
 * @param most the most fields
 * @param only the one field that is wanted; of others it does not matter what they hold
 * @throws Problem 400; 413 for too many fields
 */
export function readMultipart(
  bytes: Buffer,
  contentType: string,
  most: number,
  only?: string,
): [string, string][] {
  const boundary = parameterOf(contentType, 'boundary');
  // As Latin-1 each byte is a character, and what is found can be turned back into bytes and decoded strictly.
  const fields = boundary ? splitParts(bytes.toString('latin1'), boundary, most)?.map(readPart) : undefined;
  if (!fields?.every((field) => field !== undefined))
    throw new Problem(400, 'The body is not multipart/form-data.');
  const decode = (text: string): string => decodeBody(Buffer.from(text, 'latin1'));
  return fields
    .filter(([name]) => only === undefined || name === only)
    .map(([name, content]) => [decode(name), decode(content)]);
}
