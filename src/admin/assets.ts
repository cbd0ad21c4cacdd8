import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { notFound } from '../errors.ts';
import type { Reply } from '../http/message.ts';

const TYPES = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' } as const;

interface Asset {
  readonly path: string;
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
  return { path: `/admin/-/${name}-${mark}.${extension}`, reply: { status: 200, headers, body } };
}

const assets = [load('style', 'css'), load('script', 'js')] as const;

export const [STYLE_PATH, SCRIPT_PATH] = [assets[0].path, assets[1].path];

/** The style or the script, for anyone. @throws Problem 404 for one of another version */
export function findAsset(path: string): Reply | undefined {
  const found = assets.find((asset) => asset.path === path);
  if (!found && /^\/admin\/-\/(style|script)-[^/]*$/.test(path)) throw notFound('There is no such file.');
  return found?.reply;
}
