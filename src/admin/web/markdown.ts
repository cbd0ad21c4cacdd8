// Renders a small subset of Markdown. All text is escaped, and links lead only to http, https and mailto.
import { html, type Html } from './html.ts';
import { emailAddress, outerLink, webAddress } from './seen-value.ts';

/** Characters that are rendered: more would block the event loop. */
export const LONGEST_RENDERED = 20_000;
/** Quotes and lists inside of each other. */
const MAX_DEPTH = 5;

/**
 * What has a meaning inside of a line: escapes, code, strong, emphasis, links and bare addresses. Each part has a maximum length and
 * excludes its own delimiter, so matching takes time in proportion to the text.
 */
const INLINE =
  /\\([!-/:-@[-`{-~])|`([^`]{1,1000})`|\*\*([^*\s](?:[^*]|\*(?!\*)){0,999})\*\*|\*([^*\s][^*]{0,999})\*|\b_([^_\s][^_]{0,999})_\b|!?\[([^[\]]{1,500})\]\(([^\s()<>]{1,2000})\)|<?((?:https?:\/\/|mailto:)[^\s<>()]{1,2000})>?|( {2,20}|\\)\n/g;

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
const FENCE = /^ {0,3}(```|~~~)/;
const HEADING = /^ {0,3}#{1,6} +(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^ {0,3}(?:([-*+])|\d{1,9}[.)]) +/;
const isRule = (line: string): boolean => /^(-{3,}|\*{3,}|_{3,})$/.test(line.replace(/\s/g, ''));

/** Whether a line begins something else than a paragraph. */
const isStart = (line: string): boolean =>
  [FENCE, HEADING, QUOTE, ITEM].some((pattern) => pattern.test(line)) || isRule(line);

function blocks(lines: readonly string[], depth = 0): Html {
  const parts: Html[] = [];
  let at = 0;
  /** Takes the lines while a test holds. */
  const take = (holds: (line: string, index: number) => boolean): string[] => {
    const from = at;
    while (at < lines.length && holds(lines[at] ?? '', at)) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at] ?? '';
    const fence = FENCE.exec(line)?.[1];
    const item = ITEM.exec(line);
    const isNested = depth < MAX_DEPTH;
    if (isBlank(line)) at += 1;
    else if (fence !== undefined) {
      at += 1;
      const code = take((one) => !one.trimStart().startsWith(fence));
      at += 1;
      parts.push(html`<pre><code>${code.join('\n')}</code></pre>`);
    } else if (HEADING.test(line)) {
      at += 1;
      // Not a heading of the page, whose outline it would break.
      parts.push(html`<p><strong>${inline(HEADING.exec(line)?.[1]?.trim() ?? '')}</strong></p>`);
    } else if (isRule(line)) {
      at += 1;
      parts.push(html`<hr />`);
    } else if (QUOTE.test(line) && isNested) {
      const quoted = take((one) => QUOTE.test(one)).map((one) => one.replace(QUOTE, ''));
      parts.push(html`<blockquote>${blocks(quoted, depth + 1)}</blockquote>`);
    } else if (item && isNested) {
      const isBulleted = item[1] !== undefined;
      const items: Html[] = [];
      for (let next = ITEM.exec(lines[at] ?? ''); next; next = ITEM.exec(lines[at] ?? '')) {
        if ((next[1] !== undefined) !== isBulleted || isRule(lines[at] ?? '')) break;
        const first = (lines[at] ?? '').slice(next[0].length);
        at += 1;
        const more = take(
          (one, index) =>
            /^(?: {2}|\t)/.test(one) ||
            (isBlank(one) ? /^(?: {2}|\t)/.test(lines[index + 1] ?? '') : !isStart(one)),
        );
        const own = [first, ...more.map((one) => one.replace(/^(?:\t| {1,4})/, ''))];
        items.push(html`<li>${more.length === 0 ? inline(first) : blocks(own, depth + 1)}</li>`);
      }
      parts.push(isBulleted ? html`<ul>${items}</ul>` : html`<ol>${items}</ol>`); // prettier-ignore
    } else {
      const first = lines[at] ?? '';
      at += 1;
      const more = take((one) => !isBlank(one) && !isStart(one));
      parts.push(html`<p>${inline([first, ...more].join('\n'))}</p>`);
    }
  }
  return html`${parts}`;
}

/** The beginning of a text in Markdown, as HTML. */
export const renderMarkdown = (text: string): Html =>
  html`<div class="markdown">${blocks(text.slice(0, LONGEST_RENDERED).toWellFormed().split('\n'))}</div>`;
