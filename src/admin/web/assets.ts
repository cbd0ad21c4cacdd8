import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';

const TYPES = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' } as const;

interface Asset {
  readonly file: string;
  readonly reply: Reply;
}

/** A file beside this one. Its address has its content in it, so that browsers may keep it for good. */
function load(name: string, extension: keyof typeof TYPES): Asset {
  const body = readFileSync(new URL(`${name}.${extension}`, import.meta.url));
  const mark = createHash('sha256').update(body).digest('hex').slice(0, 12);
  const headers = {
    'Content-Type': TYPES[extension],
    'Cache-Control': 'public, max-age=31536000, immutable',
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
  return { file: `${name}-${mark}.${extension}`, reply: { status: 200, headers, body } };
}

const assets = [load('style', 'css'), load('script', 'js')] as const;

/** Where the pages of the admin area have them. */
const ROOT = '/admin/-/';
/** Where the API's pages have them: under their own path, for services without an admin area and proxies that close it. */
const API_ROOT = '/api/-/';

export const [STYLE_PATH, SCRIPT_PATH] = [ROOT + assets[0].file, ROOT + assets[1].file];
export const API_STYLE_PATH = API_ROOT + assets[0].file;

export const isAsset = (path: string): boolean => assets.some(({ file }) => path === ROOT + file);

/** The style or the script, for anyone. @throws Problem 404 for one of another version */
export function findAsset(path: string): Reply | undefined {
  const found = assets.find(({ file }) => path === ROOT + file);
  if (!found && /^\/admin\/-\/(style|script)-[^/]*$/.test(path)) throw notFound('There is no such file.');
  return found?.reply;
}

/** The same for the API's pages, which have no script. */
export function apiAsset(path: string): Reply {
  if (path !== API_STYLE_PATH) throw notFound('There is no such file.');
  return assets[0].reply;
}
