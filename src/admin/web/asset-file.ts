// A file that pages load, under an address that changes with its content.
import { createHash } from 'node:crypto';
import type { Reply } from '../../http/message/message.ts';

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
};

/** The path of the files in the admin area. */
export const ROOT = '/admin/-/';

/** A file that pages load. */
export interface Asset {
  /** Its path in the admin area. */
  readonly path: string;
  readonly reply: Reply;
}

/** A file with this content. Its name contains a digest of it, so browsers may cache it forever. */
export function assetOf(
  name: string,
  extension: string,
  body: Buffer,
  more: Readonly<Record<string, string>> = {},
): Asset {
  const digest = createHash('sha256').update(body).digest('hex').slice(0, 12);
  const headers = {
    'Content-Type': TYPES[extension] ?? '',
    'Cache-Control': 'public, max-age=31536000, immutable',
    'Cross-Origin-Resource-Policy': 'same-origin',
    ...more,
  };
  return { path: `${ROOT}${name}-${digest}.${extension}`, reply: { status: 200, headers, body } };
}
