import type { IncomingMessage } from 'node:http';
import { Problem } from '../../errors.ts';
import { decodeField } from '../../query/parse/grammar.ts';
import type { ApiRequest } from '../message/message.ts';
import { readMultipart } from './multipart.ts';
import { decodeBody, essenceOf, parameterOf } from '../message/text-decoding.ts';

/** The most fields of a form whose `data` is read. */
const MAX_FIELDS = 2000;

const tooLarge = (limit: number): Problem =>
  new Problem(413, `The body is larger than ${limit} bytes.`, { headers: { Connection: 'close' } });

/** Bytes of a body that need no room in the budget, so that small writes go on when it is used up. */
const FREE = 16_384;
/** A body in more pieces than this must have some bytes in each: a piece costs more than its bytes. */
const MANY_PIECES = 4_096;
const LEAST_PIECE = 16;

/**
 * Reads a body to its end, or stops as soon as it is known to pass the limit.
 * @param limit bytes
 * @param begin is called when the body is wanted: the moment to answer `Expect: 100-continue`
 * @param reserve is called before memory is taken for the body; it may throw a Problem
 * @throws Problem 413, 400; Error where somebody else has read it, whose bytes do not come again
 */
export async function readBody(
  request: IncomingMessage,
  limit: number,
  begin: () => void,
  reserve: (bytes: number) => void = () => undefined,
): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? NaN);
  if (declared > limit) throw tooLarge(limit);
  if (request.readableEnded || request.readableDidRead || request.readableEncoding !== null)
    throw new Error('the body was read before the handler got the request: give it requests as they came');
  if (request.destroyed) throw new Problem(400, 'The body ended early.'); // no event would come any more
  begin();
  const most = Number.isNaN(declared) ? limit : declared;
  let bytes: Buffer = Buffer.alloc(0);
  let size = 0;
  let pieces = 0;

  /** Keeps a piece in a buffer that doubles: many small buffers would take a hundred times the memory of their bytes. */
  function add(piece: Buffer): void {
    const end = size + piece.length;
    pieces += 1;
    if (end > limit) throw tooLarge(limit);
    if (pieces > MANY_PIECES && end < pieces * LEAST_PIECE)
      throw new Problem(400, 'The body comes in too many small pieces.', {
        headers: { Connection: 'close' },
      });
    if (end > bytes.length) {
      const room = Math.max(end, Math.min(most, Math.max(FREE, bytes.length * 2)));
      if (room > FREE) reserve(room - Math.max(FREE, bytes.length));
      if (size === 0 && piece.length === most) bytes = piece;
      else {
        const larger = Buffer.allocUnsafe(room);
        bytes.copy(larger, 0, 0, size);
        bytes = larger;
      }
    }
    if (bytes !== piece) piece.copy(bytes, size);
    size = end;
  }

  await new Promise<void>((resolve, reject) => {
    request.on('data', (piece: Buffer) => {
      try {
        add(piece);
      } catch (error) {
        request.pause();
        request.removeAllListeners('data');
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
    request.on('end', resolve);
    const abort = (): void => {
      if (!request.complete) reject(new Problem(400, 'The body ended early.')); // 'close' comes after 'end', too
    };
    request.on('error', abort);
    request.on('close', abort);
    request.resume(); // who has handed it on may have paused it until then
  });
  return bytes.subarray(0, size);
}

/** The one `data` of a form. */
function onlyData<T>(values: readonly T[]): T {
  const [data] = values;
  if (data === undefined) throw new Problem(400, 'The form has no field "data".');
  if (values.length > 1) throw new Problem(400, 'The form has more than one field "data".');
  return data;
}

/**
 * The JSON text of a body in any of its forms: see docs/writing.md.
 * @throws Problem 415 for another content type, 413, 400
 */
export async function readJsonText(request: ApiRequest): Promise<string> {
  const { headers } = request;
  const contentType = headers['content-type'] ?? '';
  const essence = essenceOf(contentType);
  const charset = parameterOf(contentType, 'charset')?.toLowerCase();
  const isJson = contentType.trim() === '' || essence === 'application/json' || essence.endsWith('+json');
  const isForm = essence === 'application/x-www-form-urlencoded';
  const isMultipart = essence === 'multipart/form-data';
  if (!isJson && !isForm && !isMultipart) {
    throw new Problem(415, 'The body must be application/json, or a form with a field "data".');
  }
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8')
    throw new Problem(415, 'The body must be UTF-8.');
  const coding = (headers['content-encoding'] ?? '').trim().toLowerCase();
  if (coding !== '' && coding !== 'identity') throw new Problem(415, 'The body must not be compressed.');
  const bytes = await request.body();
  if (isMultipart) return onlyData(readMultipart(bytes, contentType, MAX_FIELDS, 'data'))[1];
  const text = decodeBody(bytes);
  if (isJson || text.startsWith('{')) return text;
  const { value } = onlyData(decodeField(text, 'data', 2));
  if (value === undefined) throw new Problem(400, 'The field "data" is not percent-encoded UTF-8.');
  return value;
}
