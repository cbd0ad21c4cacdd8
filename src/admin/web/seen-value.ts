// Values of text columns that are more than their text: links, colors, images and Markdown.
import type { Column } from '../../db/schema/model.ts';
import { textOfColumn, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { addressOf, imageAddress, outerLink } from './addresses.ts';
import { brand } from './presentation.ts';
import { shownColumn, shownValue } from './display-text.ts';
import { html, type Html } from './html.ts';
import { renderMarkdown } from './markdown.ts';

/** Colors as CSS writes them. An attribute `fill` could also have an address. */
const COLOR =
  /^(?:#(?:[\da-f]{3,4}|[\da-f]{6}|[\da-f]{8})|[a-z]{3,30}|(?:rgb|hsl)a?\([\d\s.,%/deg-]{1,60}\))$/i;

/** A color or an image; undefined for texts that are none, and for images of other hosts than the registry allows. */
export function pictureOf({ widget, title }: Column, text: string): Html | undefined {
  // The content security policy forbids inline styles, but not this attribute.
  if (widget === 'color' && COLOR.test(text))
    return html`<svg class="swatch" viewBox="0 0 1 1" aria-hidden="true">
      <rect width="1" height="1" fill="${text}" />
    </svg>`;
  const address = widget === 'image' ? imageAddress(text) : undefined;
  if (address === undefined) return undefined;
  if (!address.startsWith('/') && !brand().images.includes(new URL(address).host)) return undefined;
  return html`<img
    class="thumbnail"
    src="${address}"
    alt="${title}"
    loading="lazy"
    referrerpolicy="no-referrer"
  />`;
}

/**
 * A column of a record as its widget shows it.
 * @param shown the value as it is shown without a widget
 * @param isLinked whether it is in a link already
 */
export function seenValue(
  record: LabeledRecord,
  column: Column,
  shown: Html | string,
  isLinked = false,
): Html | string {
  const { widget } = column;
  const text = widget && textOfColumn(record.fields, column);
  if (!widget || !text) return shown;
  const picture = pictureOf(column, text);
  const beside = picture && widget !== 'image' ? html`${picture} ${shown}` : (picture ?? shown);
  const content = widget === 'code' ? html`<code>${shown}</code>` : beside;
  const href = isLinked ? undefined : addressOf(widget, text);
  return href === undefined ? content : outerLink(href, content);
}

/** Characters of a value that a form shows without a field. */
const MAX_SHOWN = 2000;

/** A value that a form shows without a field. A text keeps its lines. */
export function wholeValue(record: LabeledRecord, column: Column): Html {
  const text = textOfColumn(record.fields, column);
  if (text !== null && column.widget === 'markdown') return renderMarkdown(text);
  const isLong = text !== null && text.length > MAX_SHOWN;
  const beginning = isLong ? `${text.slice(0, MAX_SHOWN).toWellFormed()}…` : text;
  const shown = column.references ? shownColumn(record, column, MAX_SHOWN) : shownValue(column, beginning);
  return html`<span class="value">${seenValue(record, column, shown)}</span>`;
}
