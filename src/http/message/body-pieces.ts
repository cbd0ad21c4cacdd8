// Divides a long body into pieces that are neither too long for one turn of the event loop nor too short to be worth one.
import type { WholeBody } from './message.ts';

/** Maximum characters of a piece of a text. It is smaller than BYTES_PIECE, because text must also be encoded. */
const TEXT_PIECE = 65_536;
/** Maximum bytes of a piece of buffers. */
const BYTES_PIECE = 262_144;

function* piecesOfText(text: string): Iterable<string> {
  let start = 0;
  while (start < text.length) {
    const end = start + TEXT_PIECE;
    // A pair of surrogates must not be divided.
    const isDivided = (text.charCodeAt(end - 1) & 0xfc00) === 0xd800;
    const piece = text.slice(start, isDivided ? end - 1 : end);
    yield piece;
    start += piece.length;
  }
}

/** Divides long parts, and joins short ones. */
export function* piecesOfBytes(parts: readonly Buffer[]): Iterable<Buffer> {
  let short: Buffer[] = [];
  let length = 0;
  const joined = (): Buffer => {
    const piece = Buffer.concat(short, length);
    [short, length] = [[], 0];
    return piece;
  };
  for (const part of parts) {
    if (length > 0 && length + part.length > BYTES_PIECE) yield joined();
    let rest = part;
    for (; rest.length > BYTES_PIECE; rest = rest.subarray(BYTES_PIECE)) yield rest.subarray(0, BYTES_PIECE);
    short.push(rest);
    length += rest.length;
  }
  if (length > 0) yield joined();
}

export const piecesOf = (body: WholeBody): Iterable<Buffer | string> =>
  typeof body === 'string' ? piecesOfText(body) : piecesOfBytes(Buffer.isBuffer(body) ? [body] : body);
