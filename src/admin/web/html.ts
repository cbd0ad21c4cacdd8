// HTML templates that escape every value. All markup of the pages goes through them.
import { SERVICE } from '../../db/lanes/requester.ts';
import { loopTurns } from '../../http/load/loop-turns.ts';

/** Text that is already HTML. Only `html` and `rawHtml` create it; all other content is escaped. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** The values of a template: texts are escaped, lists are joined, null, undefined and false render nothing. */
export type Content = Html | string | number | bigint | null | undefined | false | readonly Content[];

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '');

function render(content: Content): string {
  if (content === null || content === undefined || content === false) return '';
  if (content instanceof Html) return content.toString();
  // Unlike `join`, concatenation does not copy long texts of nested lists.
  if (Array.isArray(content))
    return (content as readonly Content[]).reduce<string>((text, part) => text + render(part), '');
  return escape(String(content));
}

/** A fixed part of a template, without the indentation of the source. */
const unindented = (text = ''): string => (text.includes('\n') ? text.replace(/\n\s*/g, '\n') : text);

/** A template whose values are escaped for text and quoted attributes: html`<b title="${title}">${name}</b>`. */
export function html(strings: TemplateStringsArray, ...contents: readonly Content[]): Html {
  let text = unindented(strings[0]);
  contents.forEach((content, index) => {
    text += render(content) + unindented(strings[index + 1]);
  });
  return new Html(text);
}

/** Lets other requests run before a page goes on. All pages share these turns, so that many large ones do not add up. */
export const nextTurn = (): Promise<void> => loopTurns.yield(SERVICE);

/** Characters that are escaped in one turn of the event loop. */
export const PIECE = 65_536;
/** Characters of a hidden field besides its name and value. */
const INPUT = 50;

/** Escapes a long text in pieces and yields to other requests between them. */
export async function htmlInPieces(text: string): Promise<Html> {
  const pieces: Html[] = [];
  for (let at = 0; at < text.length; at += PIECE) {
    pieces.push(html`${text.slice(at, at + PIECE)}`);
    await nextTurn();
  }
  return html`${pieces}`;
}

/** Hidden fields with these names and values. Yields to other requests when there is much to escape. */
export async function hiddenInputs(fields: readonly (readonly [string, string])[]): Promise<readonly Html[]> {
  const inputs: Html[] = [];
  let length = 0;
  for (const [name, value] of fields) {
    const text = value.length > PIECE ? await htmlInPieces(value) : value;
    inputs.push(html`<input type="hidden" name="${name}" value="${text}" />`);
    // A form may have thousands of fields.
    length += name.length + value.length + INPUT;
    if (length > PIECE) await nextTurn();
    if (length > PIECE) length = 0;
  }
  return inputs;
}

/** Marks a text as HTML without escaping. Pass only text written in this source, never input. */
export const rawHtml = (text: string): Html => new Html(text);

export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Attributes, each with a leading space. True gives a bare name; false, null and undefined are left out. */
export const attributes = (values: Attributes): Html =>
  html`${Object.entries(values).map(([name, value]) => {
    if (value === false || value === null || value === undefined) return null;
    const key = rawHtml(` ${name}`); // names come from the source, never from input
    return value === true ? key : html`${key}="${value}"`;
  })}`;
