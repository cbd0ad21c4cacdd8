// Cuts the input of a connection into pieces that Node's parser gets one at a time.
import type { IncomingMessage } from 'node:http';

/** Separates the head of a message from its body. */
export const END_OF_HEAD = '\r\n\r\n';
/** Maximum bytes of a piece of a head. */
export const MAX_PIECE = 2_048;
/** Maximum bytes of a piece of a chunked body. */
export const MAX_BODY_PIECE = 16_384;
/** Maximum lines of a piece: headers and chunks are what takes the parser long. 600 take about 0.5 ms. */
const MAX_LINES = 600;
const LINE_FEED = 0x0a;

/** The length of the first lines, at most `MAX_LINES`. */
function lengthOfLines(bytes: Buffer): number {
  let end = -1;
  for (let line = 0; line < MAX_LINES; line += 1) {
    end = bytes.indexOf(LINE_FEED, end + 1);
    if (end < 0) return bytes.length;
  }
  return end + 1;
}

/** Each piece completes at most one request. */
export class InputPieces {
  /** Bytes of the latest body that were not taken yet; undefined for a chunked body. */
  #bodyLeft: number | undefined = 0;
  /** The end of the latest piece: END_OF_HEAD may be split. */
  #tail = '';

  /** Notes a head that the parser has received. @returns whether a body follows */
  begin({ headers }: IncomingMessage): boolean {
    const isChunked = headers['transfer-encoding'] !== undefined;
    this.#bodyLeft = isChunked ? undefined : Number(headers['content-length'] ?? 0);
    return this.#bodyLeft !== 0;
  }

  /** The next piece of the input. The caller must pass the rest the next time. */
  take(input: Buffer, maxLength: number): Buffer {
    const piece = input.subarray(0, this.#length(input, maxLength));
    const end = piece.toString('latin1', Math.max(0, piece.length - END_OF_HEAD.length + 1));
    this.#tail = `${this.#tail}${end}`.slice(1 - END_OF_HEAD.length);
    return piece;
  }

  /** Bytes up to the end of a body of known length, else up to the next empty line. */
  #length(input: Buffer, maxLength: number): number {
    if (this.#bodyLeft !== undefined && this.#bodyLeft > 0) {
      const length = Math.min(this.#bodyLeft, input.length);
      this.#bodyLeft -= length;
      return length;
    }
    const split = `${this.#tail}${input.toString('latin1', 0, END_OF_HEAD.length - 1)}`.indexOf(END_OF_HEAD);
    if (split >= 0) return split + END_OF_HEAD.length - this.#tail.length;
    const next = input.subarray(0, maxLength);
    const end = next.indexOf(END_OF_HEAD, 0, 'latin1');
    return lengthOfLines(end < 0 ? next : next.subarray(0, end + END_OF_HEAD.length));
  }
}
