// Reads request bodies. Takes the JSON text out of JSON bodies, and out of the field `data` of forms.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BodyProblem, Problem } from '../../errors.ts';
import { decodeField } from '../../query/parse/grammar.ts';
import type { ApiRequest } from './message.ts';
import { readMultipart } from './multipart.ts';
import { decodeBody, essenceOf, parameterOf } from './text-decoding.ts';
import { messageOf } from '../../messages.ts';

/** Maximum fields of a multipart form in a request to the API. */
const MAX_FIELDS = 2000;

const tooLarge = (limit: number): Problem =>
  new BodyProblem(413, messageOf('largerThan', { max: limit }), { headers: { Connection: 'close' } });

/** Bodies up to this many bytes need no budget, so small writes succeed even when the budget is used up. */
const UNBUDGETED = 16_384;
/** By how much the buffer of a larger body grows. What it leaves behind is a third of the body; by doubling, it would be as much. */
const GROWTH = 4;
/** Each chunk costs time, however small. Past this many chunks, they must have MIN_CHUNK bytes on average. */
const MANY_CHUNKS = 4_096;
const MIN_CHUNK = 16;

/** What Node reads at once (bytes). */
const PACKET = 65_536;

const areTooSmall = (chunks: number, size: number): boolean =>
  chunks > MANY_CHUNKS && size < chunks * MIN_CHUNK;

/** The beginning of a body that has come with its head, and in how many chunks. */
interface Beginning {
  readonly bytes: Buffer;
  readonly chunks: number;
}
const beginnings = new WeakMap<IncomingMessage, Beginning>();

/**
 * Joins the chunks of a body that come with its head, because Node would keep an object for each, however small.
 * @returns undefined if the body has no chunks, or was read by another handler
 */
export function joinChunks(request: IncomingMessage): Promise<void> | undefined {
  const { headers, readableDidRead, readableEncoding } = request;
  if (headers['transfer-encoding'] === undefined || readableDidRead || readableEncoding !== null)
    return undefined;
  const bytes = Buffer.allocUnsafe(2 * PACKET);
  let size = 0;
  let chunks = 0;
  const add = (chunk: Buffer): void => {
    chunks += 1;
    if (areTooSmall(chunks, size)) return; // It will be refused.
    size += chunk.copy(bytes, size);
    if (size >= PACKET) request.pause();
  };
  request.on('data', add);
  request.read(0); // From now on, each chunk is an event, and none is kept.
  return new Promise((resolve) => {
    setImmediate(() => {
      request.off('data', add);
      request.pause();
      beginnings.set(request, { bytes: Buffer.from(bytes.subarray(0, size)), chunks });
      resolve();
    });
  });
}

/** Answers `Expect: 100-continue`, before the first read. An HTTP/1.0 client would take an interim response for the final one. */
function acceptBody({ httpVersion, headers }: IncomingMessage, response: ServerResponse): void {
  if (httpVersion !== '1.0' && /^100-continue$/i.test(headers.expect ?? '')) response.writeContinue();
}

/**
 * Receives a body to its end, and stops as soon as it exceeds the limit.
 * @param take gets each chunk, and the number of bytes up to its end; it may throw a Problem
 */
async function receive(
  request: IncomingMessage,
  limit: number,
  take: (chunk: Buffer, end: number) => void = () => undefined,
): Promise<void> {
  const beginning = beginnings.get(request);
  let size = 0;
  let chunks = 0;
  function add(chunk: Buffer, count = 1): void {
    size += chunk.length;
    chunks += count;
    if (size > limit) throw tooLarge(limit);
    if (areTooSmall(chunks, size))
      throw new Problem(400, messageOf('smallChunks'), {
        headers: { Connection: 'close' },
      });
    take(chunk, size);
  }

  if (beginning) add(beginning.bytes, beginning.chunks);
  if (request.readableEnded) return;
  await new Promise<void>((resolve, reject) => {
    request.on('data', (chunk: Buffer) => {
      try {
        add(chunk);
      } catch (error) {
        request.pause();
        request.removeAllListeners('data');
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
    request.on('end', resolve);
    const abort = (): void => {
      if (!request.complete) reject(new Problem(400, messageOf('incompleteBody'))); // 'close' also follows 'end'
    };
    request.on('error', abort);
    request.on('close', abort);
    request.resume(); // an embedding server may have paused it
  });
}

/** @returns the declared length of the body, NaN if there is none. Throws Problem 413 if it exceeds the limit. */
function declaredLength({ headers }: IncomingMessage, limit: number): number {
  const declared = Number(headers['content-length'] ?? NaN);
  if (declared > limit) throw tooLarge(limit);
  return declared;
}

/**
 * Reads a body.
 * @param limit bytes
 * @param reserve called before memory is allocated for the body; it may throw a Problem
 * @throws Problem 413, 400; Error if another handler has already read the body, since its bytes are lost
 */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  limit: number,
  reserve: (bytes: number) => void = () => undefined,
): Promise<Buffer> {
  const declared = declaredLength(request, limit);
  const wasRead = request.readableEnded || request.readableDidRead || request.readableEncoding !== null;
  if (wasRead && !beginnings.has(request))
    throw new Error('the request body was already read: call the handler before any body parser');
  if (request.destroyed && !request.readableEnded) throw new Problem(400, messageOf('incompleteBody')); // it emits no more events
  acceptBody(request, response);
  const maxSize = Number.isNaN(declared) ? limit : declared;
  let bytes: Buffer = Buffer.alloc(0);
  let size = 0;

  /** Copies a chunk into a buffer that grows: many small buffers would need a hundred times the memory. */
  function add(chunk: Buffer, end: number): void {
    if (end > bytes.length) {
      const capacity = Math.max(end, Math.min(maxSize, Math.max(UNBUDGETED, bytes.length * GROWTH)));
      if (capacity > UNBUDGETED) reserve(capacity - Math.max(UNBUDGETED, bytes.length));
      if (size === 0 && chunk.length === maxSize) bytes = chunk;
      else {
        const larger = Buffer.allocUnsafe(capacity);
        bytes.copy(larger, 0, 0, size);
        bytes = larger;
      }
    }
    if (bytes !== chunk) chunk.copy(bytes, size);
    size = end;
  }

  await receive(request, limit, add);
  return bytes.subarray(0, size);
}

/**
 * Reads a body that the method ignores, and keeps none of it. Another handler may have read it.
 * @param limit bytes
 * @throws Problem 413, 400
 */
export async function drainBody(
  request: IncomingMessage,
  response: ServerResponse,
  limit: number,
): Promise<void> {
  declaredLength(request, limit);
  // A stream that has ended or was destroyed emits no more events.
  if (!beginnings.has(request) && (request.readableEnded || (request.destroyed && request.complete))) return;
  if (request.destroyed && !request.readableEnded) throw new Problem(400, messageOf('incompleteBody'));
  acceptBody(request, response);
  await receive(request, limit);
}

/** @throws Problem 400 unless there is exactly one value */
function onlyData<T>(values: readonly T[]): T {
  const [data] = values;
  if (data === undefined) throw new Problem(400, messageOf('noData'));
  if (values.length > 1) throw new Problem(400, messageOf('severalData'));
  return data;
}

/**
 * The JSON text of a body, sent as JSON or in the field `data` of a form: see docs/writing.md.
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
    throw new Problem(415, messageOf('notJsonType'));
  }
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8')
    throw new Problem(415, messageOf('notUtf8Charset'));
  const coding = (headers['content-encoding'] ?? '').trim().toLowerCase();
  if (coding !== '' && coding !== 'identity') throw new Problem(415, messageOf('compressed'));
  const bytes = await request.body();
  if (bytes.length === 0) throw new Problem(400, messageOf('emptyBody'));
  const yieldIfDue = request.requester.workInTurns();
  if (isMultipart)
    return onlyData(await readMultipart(bytes, contentType, MAX_FIELDS, yieldIfDue, { only: 'data' }))[1];
  const text = decodeBody(bytes);
  if (isJson || text.startsWith('{') || text.startsWith('[')) return text;
  const { value } = onlyData(decodeField(text, 'data', 2));
  if (value === undefined) throw new Problem(400, messageOf('dataNotEncoded'));
  return value;
}
