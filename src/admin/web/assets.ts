// Serves the stylesheet and the script under addresses that change with their content.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';

const TYPES = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' } as const;

interface Asset {
  readonly file: string;
  readonly reply: Reply;
}

/** Loads a file from this folder. Its name contains a digest of its content, so browsers may cache it forever. */
function load(name: string, extension: keyof typeof TYPES): Asset {
  const body = readFileSync(new URL(`${name}.${extension}`, import.meta.url));
  const digest = createHash('sha256').update(body).digest('hex').slice(0, 12);
  const headers = {
    'Content-Type': TYPES[extension],
    'Cache-Control': 'public, max-age=31536000, immutable',
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
  return { file: `${name}-${digest}.${extension}`, reply: { status: 200, headers, body } };
}

const assets = [load('style', 'css'), load('script', 'js')] as const;

/** The path of the files in the admin area. */
const ROOT = '/admin/-/';
/** Their path for the API's pages. It differs because a service or a proxy may not expose `/admin/`. */
const API_ROOT = '/api/-/';

export const [STYLE_PATH, SCRIPT_PATH] = [ROOT + assets[0].file, ROOT + assets[1].file];
export const API_STYLE_PATH = API_ROOT + assets[0].file;

const PATHS = new Set([STYLE_PATH, SCRIPT_PATH]);

/** Whether a path is that of a file of the admin area. */
export const isAsset = (path: string): boolean => PATHS.has(path);

/** The stylesheet or the script; undefined for any other path. @throws Problem 404 for another version of them */
export function findAsset(path: string): Reply | undefined {
  const found = assets.find(({ file }) => path === ROOT + file);
  if (!found && /^\/admin\/-\/(style|script)-[^/]*$/.test(path)) throw notFound('There is no such file.');
  return found?.reply;
}

/** The stylesheet of the API's pages, which have no script. @throws Problem 404 */
export function apiAsset(path: string): Reply {
  if (path !== API_STYLE_PATH) throw notFound('There is no such file.');
  return assets[0].reply;
}
