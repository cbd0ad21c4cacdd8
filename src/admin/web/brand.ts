// How the admin area looks as a whole: the title, logo, color and ribbon of the registry. Pages without a session have it, too.
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { StartError } from '../../errors.ts';
import { accentOf, contrast, mixed, softOf, type AdminArea } from '../../resources/definition/admin-area.ts';
import { assetOf, type Asset } from './asset-file.ts';

const LOGO_TYPES: Readonly<Record<string, string>> = {
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
};
/** Bytes. */
const MAX_LOGO = 65_536;

/** The look of an admin area. */
export interface Brand extends Pick<AdminArea, 'title' | 'ribbon'> {
  readonly images: readonly string[];
  /** Rules that follow the stylesheet. */
  readonly style: Asset | undefined;
  readonly logo: Asset | undefined;
}

/** Reads the logo. @throws StartError */
function logoOf(path: string): Asset {
  const extension = extname(path).toLowerCase();
  const type = LOGO_TYPES[extension];
  const fault = (text: string): StartError => new StartError(`admin.logo: ${path} ${text}.`);
  if (type === undefined) throw fault(`must end in ${Object.keys(LOGO_TYPES).join(', ')}`);
  let body: Buffer;
  try {
    body = readFileSync(path);
  } catch (error) {
    throw fault(`cannot be read (${error instanceof Error ? error.message : String(error)})`);
  }
  if (body.length > MAX_LOGO) throw fault(`has ${body.length} bytes; at most ${MAX_LOGO} are allowed`);
  // An image may be opened as a page, and an SVG can have scripts.
  return assetOf(`logo`, extension.slice(1), body, {
    'Content-Type': type,
    'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    'X-Content-Type-Options': 'nosniff',
  });
}

/** The colors that follow from an accent, as rules of a stylesheet. */
function accentStyle(given: NonNullable<AdminArea['accent']>): Asset {
  const { light, dark } = accentOf(given);
  const pair = (name: string, one: string, other: string): string =>
    `--${name}: light-dark(${one}, ${other});`;
  const on = (color: string): string =>
    contrast(color, '#ffffff') >= contrast(color, '#0b1826') ? '#ffffff' : '#0b1826';
  const rules = [
    pair('accent', light, dark),
    pair('accent-strong', mixed(light, '#000000', 0.25), mixed(dark, '#ffffff', 0.3)),
    pair('on-accent', on(light), on(dark)),
    pair('accent-soft', softOf(light, 'light'), softOf(dark, 'dark')),
  ];
  return assetOf('brand', 'css', Buffer.from(`:root { ${rules.join(' ')} }\n`));
}

/** @throws StartError if the logo cannot be served */
export const createBrand = ({ title, ribbon, images = [], logo, accent }: AdminArea): Brand => ({
  ...{ images, style: accent === undefined ? undefined : accentStyle(accent) },
  logo: logo === undefined ? undefined : logoOf(logo),
  ...(title !== undefined && { title }),
  ...(ribbon !== undefined && { ribbon }),
});
