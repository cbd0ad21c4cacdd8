import { setImmediate } from 'node:timers/promises';

/** Text that is HTML already. Only `html` and `rawHtml` make it, so everything else is escaped. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** What can stand in a template: texts are escaped, lists are put together, nothing stays nothing. */
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
  // Unlike `join`, this copies nothing: a long text may stand in lists within lists.
  if (Array.isArray(content))
    return (content as readonly Content[]).reduce<string>((text, part) => text + render(part), '');
  return escape(String(content));
}

/** The fixed parts of a template, without the line breaks and the indentation that only its source needs. */
const compacted = new WeakMap<TemplateStringsArray, readonly string[]>();

function compact(strings: TemplateStringsArray): readonly string[] {
  const known = compacted.get(strings);
  if (known) return known;
  const texts = strings.map((text) => text.replace(/\s*\n\s*/g, '\n'));
  compacted.set(strings, texts);
  return texts;
}

/** HTML with values in it, each escaped for text and for attributes in quotes: html`<b title="${title}">${name}</b>`. */
export function html(strings: TemplateStringsArray, ...contents: readonly Content[]): Html {
  const texts = compact(strings);
  let text = texts[0] ?? '';
  contents.forEach((content, index) => {
    text += render(content) + (texts[index + 1] ?? '');
  });
  return new Html(text);
}

/** Characters that are escaped at once. */
export const PIECE = 65_536;
/** What a field without a name and a value counts. */
const INPUT = 50;

/** A long text as HTML; other requests are served between its pieces. */
export async function htmlInPieces(text: string): Promise<Html> {
  const pieces: Html[] = [];
  for (let at = 0; at < text.length; at += PIECE) {
    pieces.push(html`${text.slice(at, at + PIECE)}`);
    await setImmediate();
  }
  return html`${pieces}`;
}

/** Hidden fields with these names and values, the long ones in pieces. */
export async function hiddenInputs(fields: readonly (readonly [string, string])[]): Promise<readonly Html[]> {
  const inputs: Html[] = [];
  let length = 0;
  for (const [name, value] of fields) {
    const text = value.length > PIECE ? await htmlInPieces(value) : value;
    inputs.push(html`<input type="hidden" name="${name}" value="${text}" />`);
    // A form may have very many fields.
    length += name.length + value.length + INPUT;
    if (length > PIECE) await setImmediate();
    if (length > PIECE) length = 0;
  }
  return inputs;
}

/** The one place where a text becomes HTML as it is. What goes in must have been written in this source, never come from outside. */
export const rawHtml = (text: string): Html => new Html(text);

export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Attributes of an element, each with a space before it: true stands alone, false and nothing are left out. */
export const attributes = (values: Attributes): Html =>
  html`${Object.entries(values).map(([name, value]) => {
    if (value === false || value === null || value === undefined) return null;
    const key = rawHtml(` ${name}`); // names are written in the source
    return value === true ? key : html`${key}="${value}"`;
  })}`;
