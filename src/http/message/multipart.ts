// Parses multipart/form-data (RFC 7578), with every part header that the RFC allows. Node's own parser accepts only what
// browsers send.
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import { Problem } from '../../errors.ts';
import { decodeBody, parameterOf } from './text-decoding.ts';
import { messageOf } from '../../messages.ts';

/** Maximum characters of a part's headers. Browsers send a few hundred. */
const MAX_PART_HEADERS = 16_384;

export const tooManyFields = (maxFields: number): Problem =>
  new Problem(413, messageOf('tooManyFormFields', { max: maxFields }));

/** Texts below this length (characters) skip the decoder if they are ASCII, as most fields are. */
const SHORT = 1000;
// eslint-disable-next-line no-control-regex -- all of ASCII
const IS_ASCII = /^[\x00-\x7f]*$/;
/** How browsers encode a quote or a line break in a field name. */
const ESCAPES: Readonly<Record<string, string>> = { '%22': '"', '%0d': '\r', '%0a': '\n' };

/**
 * Splits a body into its parts, each with the line break after its delimiter. A delimiter must fill a whole line: the same
 * text within a line is content.
 * @returns undefined if the closing delimiter is missing
 */
function splitParts(text: string, boundary: string, maxParts: number): string[] | undefined {
  const escaped = boundary.replace(/[^A-Za-z0-9]/g, '\\$&');
  const delimiter = new RegExp(`(?:^|\\r\\n)--${escaped}(--)?[ \\t]*(?=\\r\\n|$)`, 'g');
  const parts: string[] = [];
  let start: number | undefined;
  for (const { 0: line, 1: isLast, index } of text.matchAll(delimiter)) {
    if (start !== undefined) parts.push(text.slice(start, index));
    if (parts.length > maxParts) throw tooManyFields(maxParts);
    if (isLast) return parts;
    start = index + line.length;
  }
  return undefined;
}

/** A field of a form. Until it is decoded, each character is a byte (Latin-1). */
type Field = [name: string, content: string];

/** Parses a part. Returns undefined if it is not a form field. */
function readPart(part: string): Field | undefined {
  // In an empty part, the line break after the headers may belong to the next delimiter.
  const end = `${part}\r\n`.indexOf('\r\n\r\n');
  if (end < 0 || end > MAX_PART_HEADERS) return undefined;
  const headers = part.slice(0, end).replace(/\r\n[ \t]+/g, ' ');
  const [, disposition] = /\r\nContent-Disposition:[ \t]*form-data[ \t]*(;[^\r\n]*)/i.exec(headers) ?? [];
  const name = disposition && parameterOf(disposition, 'name');
  if (name === undefined) return undefined;
  return [
    name.replace(/%22|%0d|%0a/gi, (escaped) => ESCAPES[escaped.toLowerCase()] ?? escaped),
    part.slice(end + 4),
  ];
}

/** The fields that are treated differently. */
interface FieldNames {
  /** Decodes and returns only the fields of this name; the others may hold any bytes. */
  readonly only?: string;
  /** The field whose content is not decoded: each character is a byte (Latin-1). */
  readonly raw?: string | undefined;
}

/** Parts, and their characters, to parse before other requests may run. */
const PARTS_PER_STEP = 1000;
const CHARACTERS_PER_STEP = 65_536;
/** Maximum characters of a boundary (RFC 2046, section 5.1.1). */
const MAX_BOUNDARY = 70;

/** Parses a form in steps, and yields wherever other requests may run. See `readMultipart`. */
export function* readParts(
  bytes: Buffer,
  contentType: string,
  maxFields: number,
  { only, raw }: FieldNames = {},
): Generator<undefined, Field[]> {
  const boundary = parameterOf(contentType, 'boundary');
  // Latin-1 maps each byte to one character, so a field's bytes can be recovered and decoded strictly.
  const isValid = boundary !== undefined && boundary !== '' && boundary.length <= MAX_BOUNDARY;
  const parts = isValid ? splitParts(bytes.toString('latin1'), boundary, maxFields) : undefined;
  if (!parts) throw new Problem(400, messageOf('notMultipart'));
  const fields: Field[] = [];
  let [count, length] = [0, 0];
  for (const part of parts) {
    count += 1;
    length += part.length;
    if (count === PARTS_PER_STEP || length > CHARACTERS_PER_STEP) {
      [count, length] = [0, 0];
      yield;
    }
    const field = readPart(part);
    if (!field) throw new Problem(400, messageOf('notMultipart'));
    fields.push(field);
  }
  const wanted = only === undefined ? fields : fields.filter(([name]) => name === only);
  return wanted.map(([name, content]): Field => [decode(name), name === raw ? content : decode(content)]);
}

const decode = (text: string): string =>
  text.length < SHORT && IS_ASCII.test(text) ? text : decodeBody(Buffer.from(text, 'latin1'));

/**
 * The fields of a multipart form. Files become text.
 * @param yieldIfDue lets other requests run in between
 * @throws Problem 400; 413 for too many fields
 */
export async function readMultipart(
  bytes: Buffer,
  contentType: string,
  maxFields: number,
  yieldIfDue: YieldIfDue,
  names?: FieldNames,
): Promise<Field[]> {
  const steps = readParts(bytes, contentType, maxFields, names);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await yieldIfDue();
  }
}
