import type { IncomingMessage } from 'node:http';
import { Problem } from '../errors.ts';
import { decodeForm } from '../query/grammar.ts';
import type { ApiRequest } from './message.ts';
import { readMultipart } from './multipart.ts';
import { decodeBody, essenceOf, parameterOf } from './text.ts';

const tooLarge = (limit: number): Problem =>
  new Problem(413, `The body is larger than ${limit} bytes.`, { headers: { Connection: 'close' } });

/**
 * Reads a body to its end, or gives up as soon as it is known to pass the limit.
 * @param limit bytes
 * @param begin is called when the body is wanted: the moment to answer `Expect: 100-continue`
 * @throws Problem 413, 400; Error where somebody else has read it, whose bytes do not come again
 */
export async function readBody(request: IncomingMessage, limit: number, begin: () => void): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
  if (request.readableEnded || request.readableDidRead || request.readableEncoding !== null)
    throw new Error('the body was read before the handler got the request: give it requests as they came');
  if (request.destroyed) throw new Problem(400, 'The body ended early.'); // no event would come any more
  begin();
  const chunks: Buffer[] = [];
  let size = 0;
  await new Promise<void>((resolve, reject) => {
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) {
        chunks.push(chunk);
        return;
      }
      request.pause();
      request.removeAllListeners('data');
      reject(tooLarge(limit));
    });
    request.on('end', resolve);
    const abort = (): void => {
      if (!request.complete) reject(new Problem(400, 'The body ended early.')); // 'close' comes after 'end', too
    };
    request.on('error', abort);
    request.on('close', abort);
    request.resume(); // who has handed it on may have paused it until then
  });
  return Buffer.concat(chunks, size);
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
export async function readJsonText({ headers, body }: ApiRequest): Promise<string> {
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
  const bytes = await body();
  if (isMultipart) return onlyData(readMultipart(bytes, contentType, 'data'))[1];
  const text = decodeBody(bytes);
  if (isJson || text.startsWith('{')) return text;
  const { value } = onlyData(decodeForm(text).filter(({ name }) => name === 'data'));
  if (value === undefined) throw new Problem(400, 'The field "data" is not percent-encoded UTF-8.');
  return value;
}
