import type { IncomingMessage } from 'node:http';
import { Problem } from '../errors.ts';
import { decodeForm } from '../query/grammar.ts';
import type { ApiRequest } from './message.ts';
import { UTF8_FATAL } from './text.ts';

const tooLarge = (limit: number): Problem =>
  new Problem(413, `The body is larger than ${limit} bytes.`, { headers: { Connection: 'close' } });

/**
 * Reads a body to its end, or gives up as soon as it is known to pass the limit.
 * @param limit bytes
 * @param begin is called when the body is wanted: the moment to answer `Expect: 100-continue`
 */
export async function readBody(request: IncomingMessage, limit: number, begin: () => void): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
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

/**
 * What RFC 7578 and RFC 2046 allow and Node's parser does not take: text before the first part and behind the last one, names
 * without quotes, and quotes in names that are escaped by a backslash.
 */
function normalizeMultipart(text: string, contentType: string): string {
  const boundary = `--${/boundary="?([^";]+)/i.exec(contentType)?.[1] ?? ''}`;
  const end = text.lastIndexOf(`${boundary}--`);
  const body = text.slice(
    Math.max(0, text.indexOf(boundary)),
    end < 0 ? undefined : end + boundary.length + 2,
  );
  return `${body}\r\n`.replace(/\r\nContent-Disposition:[^\r\n]*/gi, (line) =>
    line.replaceAll('\\"', '%22').replace(/;\s*name=([^";\s]+)/i, '; name="$1"'),
  );
}

/**
 * Node's parser puts U+FFFD where a field's bytes are no UTF-8 and drops a byte order mark. So it gets the bytes as Latin-1,
 * where each is a character, and what it finds is turned back into bytes and decoded strictly.
 */
async function multipartData(bytes: Buffer, contentType: string): Promise<string> {
  let values: (string | Blob)[];
  try {
    const body = Buffer.from(normalizeMultipart(bytes.toString('latin1'), contentType), 'utf8');
    values = (await new Response(body, { headers: { 'content-type': contentType } }).formData()).getAll(
      'data',
    );
  } catch {
    throw new Problem(400, 'The body is not multipart/form-data.');
  }
  const data = onlyData(values);
  return decodeUtf8(Buffer.from(typeof data === 'string' ? data : await data.text(), 'latin1'));
}

/**
 * The JSON text of a body in any of its forms: see docs/writing.md.
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
