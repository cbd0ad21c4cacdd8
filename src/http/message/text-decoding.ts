// Decodes UTF-8 bodies and header parameters.
import { isUtf8 } from 'node:buffer';
import { BodyProblem } from '../../errors.ts';
import { messageOf } from '../../messages.ts';

/**
 * Decodes UTF-8. It keeps a byte order mark in the text, so that the JSON parser rejects it.
 * @returns undefined for bytes that are not UTF-8
 */
export const decodeUtf8 = (bytes: Buffer): string | undefined =>
  isUtf8(bytes) ? bytes.toString() : undefined;

/** @throws Problem 400 */
export function decodeBody(bytes: Buffer): string {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw new BodyProblem(400, messageOf('notUtf8'));
  return text;
}

/** The media type of a Content-Type without its parameters, in lower case (its essence, as WHATWG names it). */
export const essenceOf = (contentType: string): string =>
  contentType.replace(/;.*/s, '').trim().toLowerCase();

/**
 * A header parameter, `; name="x"`. The value is a token or a quoted string with backslash escapes. The second alternative
 * accepts clients that do not escape a backslash before the closing quote.
 */
const PARAMETER = /;\s*([^\s=;]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|"([^"]*)"|([^\s";]*))/g;

/** The first value of a header parameter. @param name in lower case */
export function parameterOf(header: string, name: string): string | undefined {
  if (!header.includes(';')) return undefined;
  for (const [, key = '', escaped, quoted, token] of header.matchAll(PARAMETER))
    if (key.toLowerCase() === name) return escaped?.replace(/\\(.)/g, '$1') ?? quoted ?? token;
  return undefined;
}
