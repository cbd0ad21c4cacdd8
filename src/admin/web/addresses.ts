// Links that lead out of the admin area: which texts are addresses, with schemes that are safe. Others could run a script.
import type { Widget } from '../../db/schema/presentation.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import { html, type Html } from './html.ts';

/** Longer texts are no addresses (characters). */
const LONGEST = 2000;
/** At least three digits, and what people write between them. */
const PHONE = /^\+?(?:[\s()./-]*\d){3}[\d\s()./-]{0,40}$/;
const EMAIL = /^[^\s@"<>(),:;\\[\]]+@[^\s@"<>(),:;\\[\]/?#]+$/;

/** An address of the web; undefined for any other scheme, and for a text that is no address. */
export function webAddress(text: string): string | undefined {
  // A text that was cut ends with an ellipsis.
  if (text.length > LONGEST || text.endsWith('…') || !/^https?:\/\//i.test(text)) return undefined;
  return URL.canParse(text) ? new URL(text).href : undefined;
}

/** Whether a path leads to the service itself, whose pages and exports no image should request. */
function isServed(path: string): boolean {
  const { pathname } = new URL(path, 'http://origin');
  const plain = pathname.replace(/%([0-7][0-9a-f])/gi, (_, code: string) =>
    String.fromCharCode(parseInt(code, 16)),
  );
  return [withBasePath('/admin'), withBasePath('/api')].some(
    (start) => plain === start || plain.startsWith(`${start}/`),
  );
}

/** The address of an image: of the web, or a path of the same origin. */
export function imageAddress(text: string): string | undefined {
  // Browsers take a backslash for a slash, and leave out line breaks and tabs.
  if (!/^\/(?!\/)[^\\\s\p{Cc}…]+$/u.test(text) || text.length > LONGEST) return webAddress(text);
  return isServed(text) ? undefined : text;
}

export const emailAddress = (text: string): string | undefined =>
  text.length <= LONGEST && EMAIL.test(text) && text.isWellFormed()
    ? `mailto:${encodeURIComponent(text).replace('%40', '@')}`
    : undefined;

/** The address that the text of a widget leads to. */
export function addressOf(widget: Widget, text: string): string | undefined {
  if (widget === 'url') return webAddress(text);
  if (widget === 'image') return imageAddress(text);
  if (widget === 'email') return emailAddress(text);
  return widget === 'phone' && PHONE.test(text) ? `tel:${text.replace(/[^+\d]/g, '')}` : undefined;
}

export const outerLink = (href: string, content: Html | string): Html =>
  html`<a href="${href}" rel="noreferrer">${content}</a>`;
