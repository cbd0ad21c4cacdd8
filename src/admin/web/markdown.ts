// Renders a small subset of Markdown. All text is escaped, and links lead only to http, https and mailto.
import { emailAddress, outerLink, webAddress } from './addresses.ts';
import { attributes, html, type Html } from './html.ts';

/** Characters that are rendered: more would block the event loop. */
export const LONGEST_RENDERED = 20_000;
/** Quotes and lists inside of each other. */
const MAX_DEPTH = 5;

/** A character of an address, or several in parentheses, which may have further ones inside. */
const ADDRESS = /[^\s()<>]|\((?:[^\s()<>]|\([^\s()<>]{0,500}\)){0,500}\)/;

/**
 * What has a meaning inside of a line: escapes, code, strong, emphasis, links and bare addresses. Each part has a maximum length and
 * excludes its own delimiter, so matching takes time in proportion to the text.
 */
const INLINE = new RegExp(
  /\\([!-/:-@[-`{-~])|`([^`]{1,1000})`|\*\*([^*\s](?:[^*]|\*(?!\*)){0,999})\*\*|\*([^*\s][^*]{0,999})\*|\b_([^_\s][^_]{0,999})_\b|!?\[([^[\]]{1,500})\]\(((?:ADDRESS){1,2000})\)|<?((?:https?:\/\/|mailto:)(?:ADDRESS){1,2000})>?|( {2,20}|\\)\n/.source.replaceAll(
    'ADDRESS',
    ADDRESS.source,
  ),
  'g',
);

/** A link; the text alone if its address is not safe. */
function link(address: string, content: Html | string): Html | string {
  const email = address.replace(/^mailto:/i, '');
  const href = email === address ? webAddress(address) : emailAddress(email);
  return href === undefined ? content : outerLink(href, content);
}

function inline(text: string, depth = 0): Html {
  if (depth > MAX_DEPTH) return html`${text}`;
  const parts: (Html | string)[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, escaped, code, strong, emphasis, underlined, label, target = '', bare] = match;
    const within = strong ?? emphasis ?? underlined ?? label ?? '';
    parts.push(text.slice(end, match.index));
    end = match.index + whole.length;
    if (escaped !== undefined) parts.push(escaped);
    else if (code !== undefined) parts.push(html`<code>${code}</code>`);
    else if (strong !== undefined) parts.push(html`<strong>${inline(within, depth + 1)}</strong>`);
    else if (label !== undefined) parts.push(link(target, label));
    else if (bare !== undefined) {
      // Punctuation after an address belongs to the sentence.
      const address = bare.replace(/[.,;:!?'"]+$/, '');
      parts.push(link(address, address), bare.slice(address.length));
    } else if (within !== '') parts.push(html`<em>${inline(within, depth + 1)}</em>`);
    else parts.push(html`<br />`);
  }
  return html`${parts}${text.slice(end)}`;
}

const isBlank = (line: string | undefined): boolean => line === undefined || line.trim() === '';
const isIndented = (line = ''): boolean => /^(?: {2}|\t)/.test(line);
const FENCE = /^ {0,3}(```|~~~)/;
/** Takes the rest of the line whatever it is: `.` and `$` would try each space before a separator such as U+2028. */
const HEADING = /^ {0,3}#{1,6} +([^]*)/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^ {0,3}(?:([-*+])|(\d{1,9})[.)]) +/;
const isRule = (line: string): boolean => /^(-{3,}|\*{3,}|_{3,})$/.test(line.replace(/\s/g, ''));

/** Whether a line begins something else than a paragraph. */
const isStart = (line: string): boolean =>
  [FENCE, HEADING, QUOTE, ITEM].some((pattern) => pattern.test(line)) || isRule(line);

function blocks(lines: readonly string[], depth = 0): Html {
  const parts: Html[] = [];
  let at = 0;
  /** Takes the lines while a test holds. */
  const take = (holds: (line: string, next?: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && holds(lines[at] ?? '', lines[at + 1])) at += 1;
    return lines.slice(from, at);
  };
  /** Takes an item of a list, bulleted or numbered, with the lines that belong to it; false if there is none. */
  const takeItem = (isBulleted: boolean): Html | false => {
    const line = lines[at] ?? '';
    const mark = ITEM.exec(line);
    if (!mark || isRule(line) || (mark[1] !== undefined) !== isBulleted) return false;
    at += 1;
    const first = line.slice(mark[0].length);
    const more = take(
      (one, next = '') =>
        isIndented(one) || (isBlank(one) ? isIndented(next) || ITEM.test(next) : !isStart(one)),
    );
    const own = [first, ...more.map((one) => one.replace(/^(?:\t| {1,4})/, ''))];
    return html`<li>${more.length === 0 ? inline(first) : blocks(own, depth + 1)}</li>`;
  };
  while (at < lines.length) {
    const line = lines[at] ?? '';
    const fence = FENCE.exec(line)?.[1];
    const heading = HEADING.exec(line)?.[1];
    const [, bullet, number] = ITEM.exec(line) ?? [];
    const isBulleted = bullet !== undefined;
    const isNested = depth < MAX_DEPTH;
    const items: Html[] = [];
    for (let item = isNested && takeItem(isBulleted); item; item = takeItem(isBulleted)) items.push(item);
    if (items.length > 0) {
      const start = Number(number) === 1 ? undefined : Number(number);
      parts.push(isBulleted ? html`<ul>${items}</ul>` : html`<ol${attributes({ start })}>${items}</ol>`); // prettier-ignore
      continue;
    }
    at += 1;
    if (isBlank(line)) continue;
    if (fence !== undefined) {
      const code = take((one) => !one.trimStart().startsWith(fence));
      at += 1;
      parts.push(html`<pre><code>${code.join('\n')}</code></pre>`);
    } else if (heading !== undefined) {
      // Not a heading of the page, whose outline it would break.
      parts.push(html`<p><strong>${inline(heading.trim())}</strong></p>`);
    } else if (isRule(line)) parts.push(html`<hr />`);
    else if (QUOTE.test(line) && isNested) {
      const quoted = [line, ...take((one) => QUOTE.test(one))].map((one) => one.replace(QUOTE, ''));
      parts.push(html`<blockquote>${blocks(quoted, depth + 1)}</blockquote>`);
    } else {
      const more = take((one) => !isBlank(one) && !isStart(one));
      parts.push(html`<p>${inline([line, ...more].join('\n'))}</p>`);
    }
  }
  return html`${parts}`;
}

/** The beginning of a text in Markdown, as HTML. */
export function renderMarkdown(text: string): Html {
  const beginning = text.slice(0, LONGEST_RENDERED).toWellFormed();
  return html`<div class="markdown">${blocks(beginning.split(/\r\n?|\n/))}</div>`;
}
