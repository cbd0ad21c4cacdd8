import { Problem } from '../errors.ts';

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
