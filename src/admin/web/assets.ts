// Serves the stylesheet, the script and the files of a brand under addresses that change with their content.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
};

/** The path of the files in the admin area. */
const ROOT = '/admin/-/';
/** Their path for the API's pages. It differs because a service or a proxy may not expose `/admin/`. */
const API_ROOT = '/api/-/';

/** A file that pages load. */
export interface Asset {
  readonly file: string;
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
  const file = `${name}-${digest}.${extension}`;
  const headers = {
    'Content-Type': TYPES[extension] ?? '',
    'Cache-Control': 'public, max-age=31536000, immutable',
    'Cross-Origin-Resource-Policy': 'same-origin',
    ...more,
  };
  return { file, path: ROOT + file, reply: { status: 200, headers, body } };
}

const load = (name: string, extension: string): Asset =>
  assetOf(name, extension, readFileSync(new URL(`${name}.${extension}`, import.meta.url)));

const [style, script] = [load('style', 'css'), load('script', 'js')];

export const { path: STYLE_PATH } = style;
export const { path: SCRIPT_PATH } = script;
export const API_STYLE_PATH = API_ROOT + style.file;

const IS_FILE = /^\/admin\/-\/(style|script|brand|logo)-[^/]*$/;

/** Whether a path is that of a file of the admin area. */
export const isAsset = (path: string): boolean => path === STYLE_PATH || path === SCRIPT_PATH;

/** A file of the admin area; undefined for any other path. @param own those of the brand @throws Problem 404 for another version of them */
export function findAsset(path: string, own: readonly (Asset | undefined)[]): Reply | undefined {
  const found = [style, script, ...own].find((asset) => asset?.path === path);
  if (!found && IS_FILE.test(path)) throw notFound('There is no such file.');
  return found?.reply;
}

/** The stylesheet of the API's pages, which have no script. @throws Problem 404 */
export function apiAsset(path: string): Reply {
  if (path !== API_STYLE_PATH) throw notFound('There is no such file.');
  return style.reply;
}
