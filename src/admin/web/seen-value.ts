// Values of text columns that are more than their text: links to addresses, swatches of colors, and images.
import type { Column } from '../../db/schema/model.ts';
import type { Widget } from '../../db/schema/presentation.ts';
import { html, type Html } from './html.ts';

/** Longer texts are no addresses (characters). */
const LONGEST_ADDRESS = 2000;
/** At least three digits, and what people write between them. */
const PHONE = /^\+?(?:[\s()./-]*\d){3}[\d\s()./-]{0,40}$/;
const EMAIL = /^[^\s@"<>(),:;\\[\]]+@[^\s@"<>(),:;\\[\]/?#]+$/;
/** Colors as CSS writes them. An attribute `fill` could also have an address. */
const COLOR =
  /^(?:#(?:[\da-f]{3,4}|[\da-f]{6}|[\da-f]{8})|[a-z]{3,30}|(?:rgb|hsl)a?\([\d\s.,%/deg-]{1,60}\))$/i;

/** An address of the web; undefined for any other scheme, and for a text that is no address. */
export function webAddress(text: string): string | undefined {
  // A text that was cut ends with an ellipsis.
  if (text.length > LONGEST_ADDRESS || text.endsWith('…') || !/^https?:\/\//i.test(text)) return undefined;
  return URL.canParse(text) ? new URL(text).href : undefined;
}

export const emailAddress = (text: string): string | undefined =>
  text.length <= LONGEST_ADDRESS && EMAIL.test(text) && text.isWellFormed()
    ? `mailto:${encodeURIComponent(text).replace('%40', '@')}`
    : undefined;

/** The address that a text leads to. Only these schemes are safe: others could run a script. */
function addressOf(widget: Widget, text: string): string | undefined {
  if (widget === 'url' || widget === 'image') return webAddress(text);
  if (widget === 'email') return emailAddress(text);
  return widget === 'phone' && PHONE.test(text) ? `tel:${text.replace(/[^+\d]/g, '')}` : undefined;
}

export const outerLink = (href: string, content: Html | string): Html =>
  html`<a href="${href}" rel="noreferrer">${content}</a>`;

/** A color or an image; undefined for texts that are none, and for images of other hosts than the registry allows. */
export function pictureOf(
  { widget, title }: Column,
  text: string,
  images: readonly string[],
): Html | undefined {
  // The content security policy forbids inline styles, but not this attribute.
  if (widget === 'color' && COLOR.test(text))
    return html`<svg class="swatch" viewBox="0 0 1 1" aria-hidden="true">
      <rect width="1" height="1" fill="${text}" />
    </svg>`;
  const address = widget === 'image' ? webAddress(text) : undefined;
  if (address === undefined || !images.includes(new URL(address).host)) return undefined;
  return html`<img
    class="thumbnail"
    src="${address}"
    alt="${title}"
    loading="lazy"
    referrerpolicy="no-referrer"
  />`;
}

/**
 * A text as its widget shows it.
 * @param shown the text as it is shown without a widget
 * @param isLinked whether it is in a link already
 */
export function seenValue(
  column: Column,
  text: string,
  shown: Html | string,
  images: readonly string[],
  isLinked = false,
): Html | string {
  const { widget } = column;
  if (!widget || text === '') return shown;
  const picture = pictureOf(column, text, images);
  const content =
    widget === 'code'
      ? html`<code>${shown}</code>`
      : widget === 'image'
        ? (picture ?? shown)
        : picture
          ? html`${picture} ${shown}`
          : shown;
  const href = isLinked ? undefined : addressOf(widget, text);
  return href === undefined ? content : outerLink(href, content);
}
