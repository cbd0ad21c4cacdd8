// Bodies byte for byte, as clients other than fetch send them.
import type { Answer, TestService } from '../support.ts';

export const JSON_TYPE = 'application/json';
export const FORM = 'application/x-www-form-urlencoded';
export const BOM = '\uFEFF';

/** The JSON of a note. */
export const noteJson = (message: string): string => JSON.stringify({ message });

export const dataField = (text: string): string => `data=${encodeURIComponent(text)}`;

export interface Part {
  readonly name: string;
  readonly content: string | Uint8Array;
  readonly filename?: string;
  readonly type?: string;
}

/** A multipart body, byte for byte. */
export function multipart(parts: readonly Part[], boundary = 'xYzZY'): Buffer {
  const pieces = parts.flatMap(({ name, content, filename, type }) => [
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"`,
    filename === undefined ? '' : `; filename="${filename}"`,
    type === undefined ? '' : `\r\nContent-Type: ${type}`,
    '\r\n\r\n',
    content,
    '\r\n',
  ]);
  return Buffer.concat([...pieces, `--${boundary}--\r\n`].map((piece) => Buffer.from(piece as string)));
}

export const MULTIPART = 'multipart/form-data; boundary=xYzZY';

/** Sends bytes as `bob`, without a content type by default. */
export function sendBytes(
  service: TestService,
  body: string | Uint8Array,
  contentType?: string,
  {
    path = '/api/note/',
    method = 'POST',
    headers = {},
  }: { path?: string; method?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  return service.request(path, {
    method,
    user: 'bob',
    headers: { ...(contentType === undefined ? {} : { 'content-type': contentType }), ...headers },
    body: Buffer.from(body as string),
  });
}
