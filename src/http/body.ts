import { randomBytes } from 'node:crypto';
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
 * The parts of a body, each from the line break behind its delimiter to the one before the next. A delimiter is a whole line;
 * the same text anywhere else belongs to a part, or to what stands before the first part and behind the last.
 * @returns undefined where the last delimiter is missing
 */
function splitParts(text: string, boundary: string): string[] | undefined {
  const escaped = boundary.replace(/[^A-Za-z0-9]/g, '\\$&');
  const delimiter = new RegExp(`(?:^|\\r\\n)--${escaped}(--)?[ \\t]*(?=\\r\\n|$)`, 'g');
  const parts: string[] = [];
  let start: number | undefined;
  for (const { 0: line, 1: isLast, index } of text.matchAll(delimiter)) {
    if (start !== undefined) parts.push(text.slice(start, index));
    if (isLast) return parts;
    start = index + line.length;
  }
  return undefined;
}

/** What RFC 7578 allows in the headers of a part and Node's parser does not take: names without quotes, and escaped quotes. */
function normalizePart(part: string): string {
  const end = part.indexOf('\r\n\r\n');
  const headers = part
    .slice(0, end)
    .replace(/\r\nContent-Disposition:[^\r\n]*/gi, (line) =>
      line.replaceAll('\\"', '%22').replace(/;\s*name=([^";\s]+)/i, '; name="$1"'),
    );
  return headers + part.slice(end);
}

/**
 * The same form, with a delimiter that no part holds: Node's parser ends a part at its text wherever it stands, and takes
 * nothing before the first part and behind the last one.
 * @throws Error where it is no form
 */
function normalizeMultipart(text: string, contentType: string): [contentType: string, body: string] {
  const [, quoted, bare] = /;\s*boundary=(?:"([^"]+)"|([^\s";]+))/i.exec(contentType) ?? [];
  const boundary = quoted ?? bare;
  const parts = boundary === undefined ? undefined : splitParts(text, boundary);
  if (!parts) throw new Error('no multipart/form-data');
  const fresh = randomBytes(18).toString('hex');
  const body = parts.map((part) => `--${fresh}${normalizePart(part)}\r\n`).join('');
  return [`multipart/form-data; boundary=${fresh}`, `${body}--${fresh}--\r\n`];
}

/**
 * The fields of a form in parts, files as their text. Node's parser puts U+FFFD where a field's bytes are no UTF-8 and drops a
 * byte order mark. So it gets the bytes as Latin-1, where each is a character, and what it finds is turned back into bytes and
 * decoded strictly.
 * @param only the one field that is wanted; of others it does not matter what they hold
 * @throws Problem 400
 */
export async function readMultipart(
  bytes: Buffer,
  contentType: string,
  only?: string,
): Promise<[string, string][]> {
  let fields: [string, string | Blob][];
  try {
    const [type, body] = normalizeMultipart(bytes.toString('latin1'), contentType);
    const headers = { 'content-type': type };
    fields = [...(await new Response(Buffer.from(body, 'utf8'), { headers }).formData())];
  } catch {
    throw new Problem(400, 'The body is not multipart/form-data.');
  }
  const decode = (text: string): string => decodeUtf8(Buffer.from(text, 'latin1'));
  return Promise.all(
    fields
      .filter(([name]) => only === undefined || name === only)
      .map(async ([name, value]): Promise<[string, string]> => [
        decode(name),
        decode(typeof value === 'string' ? value : await value.text()),
      ]),
  );
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
  if (isMultipart) return onlyData(await readMultipart(bytes, contentType, 'data'))[1];
  const text = decodeUtf8(bytes);
  if (isJson || text.trimStart().startsWith('{')) return text;
  const { value } = onlyData(decodeForm(text).filter(({ name }) => name === 'data'));
  if (value === undefined) throw new Problem(400, 'The field "data" is not percent-encoded UTF-8.');
  return value;
}
