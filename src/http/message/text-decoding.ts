import { Problem } from '../../errors.ts';

/** Decodes UTF-8 strictly; a byte order mark stays in the text, where JSON refuses it. */
export const UTF8_FATAL = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @throws Problem 400 */
export function decodeBody(bytes: Uint8Array): string {
  try {
    return UTF8_FATAL.decode(bytes);
  } catch {
    throw new Problem(400, 'The body is not UTF-8.');
  }
}

/** The type of a Content-Type without its parameters, in lower case. */
export const essenceOf = (contentType: string): string =>
  contentType.replace(/;.*/s, '').trim().toLowerCase();

/**
 * A parameter of a header, `; name="x"`: its value is a token or stands in quotes, with backslashes that escape. Some do not
 * escape their backslashes, so that the last one seems to take the quote away.
 */
const PARAMETER = /;\s*([^\s=;]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|"([^"]*)"|([^\s";]*))/g;

/** The first value of a parameter, whose name is in lower case. */
export function parameterOf(header: string, name: string): string | undefined {
  for (const [, key = '', escaped, quoted, token] of header.matchAll(PARAMETER))
    if (key.toLowerCase() === name) return escaped?.replace(/\\(.)/g, '$1') ?? quoted ?? token;
  return undefined;
}
