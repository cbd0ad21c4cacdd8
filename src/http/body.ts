import type { IncomingMessage } from 'node:http';
import { Problem } from '../errors.ts';
import { decodeForm } from '../query/grammar.ts';
import type { ApiRequest } from './message.ts';
import { UTF8_FATAL } from './text.ts';

const tooLarge = (limit: number): Problem =>
  new Problem(413, `The body is larger than ${limit} bytes.`, { headers: { Connection: 'close' } });

/** Reads a body to its end, or gives up as soon as it is known to pass the limit (bytes). */
export async function readBody(request: IncomingMessage, limit: number): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
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
    const abort = (): void => reject(new Problem(400, 'The body ended early.'));
    request.on('error', abort);
    request.on('close', abort);
  });
  return Buffer.concat(chunks, size);
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return UTF8_FATAL.decode(bytes);
  } catch {
    throw new Problem(400, 'The body is not UTF-8.');
  }
}

/** The one `data` of a form. */
function onlyData<T>(values: readonly T[]): T {
  const [data] = values;
  if (data === undefined) throw new Problem(400, 'The form has no field "data".');
  if (values.length > 1) throw new Problem(400, 'The form has more than one field "data".');
  return data;
}

async function multipartData(bytes: Buffer, contentType: string): Promise<string> {
  let form: FormData;
  try {
    form = await new Response(bytes, { headers: { 'content-type': contentType } }).formData();
  } catch {
    throw new Problem(400, 'The body is not multipart/form-data.');
  }
  const data = onlyData(form.getAll('data'));
  if (typeof data !== 'string') return decodeUtf8(new Uint8Array(await data.arrayBuffer()));
  // The parser puts U+FFFD where the bytes are no UTF-8.
  if (data.includes('\uFFFD') && !bytes.includes('\uFFFD')) throw new Problem(400, 'The body is not UTF-8.');
  return data;
}

/**
 * The JSON text of a body in any of the forms of contract section 4.
 * @throws Problem 415 for another content type, 413, 400
 */
export async function readJsonText({ headers, body }: ApiRequest): Promise<string> {
  const contentType = headers['content-type'] ?? '';
  const [essence = '', ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase());
  const charset = parameters
    .find((parameter) => parameter.startsWith('charset='))
    ?.slice(8)
    .replaceAll('"', '');
  const isJson = essence === '' || essence === 'application/json' || essence.endsWith('+json');
  const isForm = essence === 'application/x-www-form-urlencoded';
  const isMultipart = essence === 'multipart/form-data';
  if (!isJson && !isForm && !isMultipart) {
    throw new Problem(415, 'The body must be application/json, or a form with a field "data".');
  }
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8')
    throw new Problem(415, 'The body must be UTF-8.');
  if ((headers['content-encoding'] ?? 'identity') !== 'identity')
    throw new Problem(415, 'The body must not be compressed.');
  const bytes = await body();
  if (isMultipart) return multipartData(bytes, contentType);
  const text = decodeUtf8(bytes);
  if (isJson || text.trimStart().startsWith('{')) return text;
  const { value } = onlyData(decodeForm(text).filter(({ name }) => name === 'data'));
  if (value === undefined) throw new Problem(400, 'The field "data" is not percent-encoded UTF-8.');
  return value;
}
