// Serves the stylesheet, the script and the files of a brand.
import { readFileSync } from 'node:fs';
import { notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { FORMS } from '../../messages.ts';
import { assetOf, ROOT, type Asset } from './asset-file.ts';
import { scriptTexts } from './language.ts';
import { LANGUAGES, language } from './presentation.ts';

/** The path of the files of the API's pages. It differs because a service or a proxy may not expose `/admin/`. */
const API_ROOT = '/api/-/';

/** @param beginning what comes before the file of this folder */
const load = (name: string, extension: string, beginning = ''): Asset =>
  assetOf(
    name,
    extension,
    Buffer.from(beginning + readFileSync(new URL(`${name}.${extension}`, import.meta.url), 'utf8')),
  );

const style = load('style', 'css');
/** The script with its texts, by language. */
const scripts = new Map(
  [...LANGUAGES.values()].map((one) => [
    one.tag,
    load('script', 'js', `const TEXTS = ${JSON.stringify(scriptTexts(one))}, FORMS = ${String(FORMS)};\n`),
  ]),
);
const files = [style, ...scripts.values()];

export const { path: STYLE_PATH } = style;
/** The path of the script in the language of the request. */
export const scriptPath = (): string => scripts.get(language().tag)?.path ?? '';
export const API_STYLE_PATH = style.path.replace(ROOT, API_ROOT);

/** Whether a path is that of a file of the admin area, perhaps of another version of it. */
export const isAsset = (path: string): boolean =>
  /^\/admin\/-\/(?:style|script|brand|logo)-[^/]*$/.test(path);

/** A file of the admin area; undefined for any other path. @param own those of the brand @throws Problem 404 for another version of them */
export function findAsset(path: string, own: readonly (Asset | undefined)[]): Reply | undefined {
  if (!isAsset(path)) return undefined;
  const found = [...files, ...own].find((asset) => asset?.path === path);
  if (!found) throw notFound('There is no such file.');
  return found.reply;
}

/** The stylesheet of the API's pages, which have no script. @throws Problem 404 */
export function apiAsset(path: string): Reply {
  if (path !== API_STYLE_PATH) throw notFound('There is no such file.');
  return style.reply;
}
