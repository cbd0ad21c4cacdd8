// The type of a registry's export `admin`: how the admin area looks as a whole, and what its colors must be.
import type { Tone } from '../../db/schema/presentation.ts';

/** A color for light and one for dark color schemes: `#0a58a6`. */
export interface Accent {
  readonly light: string;
  readonly dark: string;
}

export interface AdminArea {
  /** The name of the admin area, in the header and in the titles of browser tabs. */
  readonly title?: string;
  /** The path of an image beside the title: an SVG, PNG, WebP or JPEG file of at most 64 KiB. */
  readonly logo?: string;
  /** The color of links and of the main button: `#0a58a6`. Without one for dark color schemes, it is derived. */
  readonly accent?: string | Accent;
  /** A band across each page that names the environment: `Staging`. */
  readonly ribbon?: string | { readonly text: string; readonly tone?: Tone };
  /** The hosts whose images its pages show: `cdn.example.com`, `localhost:9000`. */
  readonly images?: readonly string[];
}

type Rgb = readonly [red: number, green: number, blue: number];

const rgbOf = (hex: string): Rgb =>
  [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb;

/** A mixture of two colors. @param share of the second one, from 0 to 1 */
export function mixed(one: string, other: string, share: number): string {
  const [from, to] = [rgbOf(one), rgbOf(other)];
  const parts = from.map((part, at) => Math.round(part + ((to[at] ?? 0) - part) * share));
  return `#${parts.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

/** The relative luminance of WCAG 2.2, from 0 to 1. */
function luminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = rgbOf(hex).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The contrast of two colors as WCAG 2.2 defines it, from 1 to 21. */
export function contrast(one: string, other: string): number {
  const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

/** What WCAG 2.2 asks of text. */
const ENOUGH = 4.5;
/** The share of the accent in the background of what is chosen. */
const SOFT = 0.1;
/** The backgrounds of links in `style.css`: the surface, and what differs least from the accent. */
const GROUNDS = {
  light: { surface: '#ffffff', worst: '#eceff2' },
  dark: { surface: '#1a1e23', worst: '#23282f' },
} as const;

/** The background of what is chosen. */
export const softOf = (color: string, scheme: keyof Accent): string =>
  mixed(GROUNDS[scheme].surface, color, SOFT);

/** The least contrast of a color with a background that it is on. */
const leastContrast = (color: string, scheme: keyof Accent): number =>
  Math.min(contrast(color, GROUNDS[scheme].worst), contrast(color, softOf(color, scheme)));

/** Both colors of an accent. The one for dark color schemes is lightened until it can be read. */
export function accentOf(given: string | Accent): Accent {
  if (typeof given !== 'string') return given;
  const shares = Array.from({ length: 20 }, (_, index) => index / 20);
  const share = shares.find((one) => leastContrast(mixed(given, '#ffffff', one), 'dark') >= ENOUGH) ?? 1;
  return { light: given, dark: mixed(given, '#ffffff', share) };
}

/** Why links in a color could not be read; undefined if they can. */
export function accentFault(given: string | Accent): string | undefined {
  const accent = accentOf(given);
  for (const scheme of ['light', 'dark'] as const) {
    const found = leastContrast(accent[scheme], scheme);
    if (found < ENOUGH)
      return `${accent[scheme]} has a contrast of ${found.toFixed(1)} to its background in ${scheme} color schemes; links need at least ${ENOUGH}`;
  }
  return undefined;
}
