// Decodes percent-encoded text of forms and queries without throwing.
import { isUtf8 } from 'node:buffer';

/** Characters up to which `replaceAll` is faster than decoding bytes. Beyond, it allocates one piece per replaced sign. */
const MAX_REPLACE_LENGTH = 4096;

/** The value of a hexadecimal digit, or NaN. */
function hexValue(code: number | undefined): number {
  if (code === undefined) return NaN;
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = (code | 0x20) - 0x61;
  return letter >= 0 && letter < 6 ? letter + 10 : NaN;
}

/** Decodes the bytes of a text in place. @returns undefined for a bad escape or bytes that are not UTF-8 */
function decodeBytes(text: string): string | undefined {
  const bytes = Buffer.from(text);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    let byte = bytes[at] ?? 0;
    if (byte === 0x2b) byte = 0x20;
    else if (byte === 0x25) {
      byte = 16 * hexValue(bytes[at + 1]) + hexValue(bytes[at + 2]);
      if (Number.isNaN(byte)) return undefined;
      at += 2;
    }
    bytes[length] = byte;
    length += 1;
  }
  const decoded = bytes.subarray(0, length);
  return isUtf8(decoded) ? decoded.toString() : undefined;
}

/**
 * Decodes a name or a value of a form or a query.
 * Does not throw: a form may have a hundred thousand bad parts, and each error would cost microseconds.
 * @returns undefined for a bad escape or bytes that are not UTF-8
 */
export function percentDecode(text: string): string | undefined {
  if (text.length > MAX_REPLACE_LENGTH || text.includes('%')) return decodeBytes(text);
  return text.includes('+') ? text.replaceAll('+', ' ') : text;
}
