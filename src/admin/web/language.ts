// The texts of the pages, in the language of the request.
import { inForms, type ParamsOf } from '../../messages.ts';
import { SCRIPT_TEXTS, type ENGLISH, type TextCode, type Texts } from '../texts/english.ts';
import { html, type Content, type Html } from './html.ts';
import { language } from './presentation.ts';

/** The names in braces of a text. */
type Names<Code extends TextCode> = ParamsOf<(typeof ENGLISH)[Code]>;
type Params<Code extends TextCode, Value> = [Names<Code>] extends [never]
  ? []
  : [Readonly<Record<Names<Code>, Value>>];

/** The code of a text without parameters. */
export type PlainCode = { [Code in TextCode]: [Names<Code>] extends [never] ? Code : never }[TextCode];

/** The text of a code, in the forms for its numbers. */
function formOf(code: TextCode, params: Readonly<Record<string, unknown>>): string {
  const { texts, plurals } = language();
  return inForms(texts[code], params, plurals);
}

/** A number as people of the language write it: `1,234.5`. */
export const numberText = (number: number | bigint): string => language().numbers.format(number);

/** A text in the language of the request. Numbers among its parameters are formatted. */
export function t<Code extends TextCode>(code: Code, ...[params]: Params<Code, string | number>): string {
  const values: Readonly<Record<string, string | number>> = params ?? {};
  return formOf(code, values).replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name] ?? '';
    return typeof value === 'number' ? numberText(value) : value;
  });
}

/** `1, 2 and 3` */
export const listed = (texts: readonly string[]): string =>
  texts.length < 2
    ? texts.join()
    : t('firstAndLast', { first: texts.slice(0, -1).join(', '), last: texts.at(-1) ?? '' });

/** `1 or 2 or 3` */
export const eitherOr = ([one = '', ...others]: readonly string[]): string =>
  others.reduce((first, last) => t('firstOrLast', { first, last }), one);

/** `must be a number; must be at most 9` */
export const separated = (texts: readonly string[]): string => texts.join(t('separator'));

/** A text whose parameters may be HTML. */
export function phrase<Code extends TextCode>(code: Code, ...[params]: Params<Code, Content>): Html {
  const values: Readonly<Record<string, Content>> = params ?? {};
  const parts = formOf(code, values).split(/\{(\w+)\}/g);
  return html`${parts.map((part, at) => {
    const value = at % 2 === 0 ? part : values[part];
    return typeof value === 'number' ? numberText(value) : value;
  })}`;
}

/** The texts of `script.js`, by code. */
export const scriptTexts = ({ texts }: { readonly texts: Texts }): Readonly<Record<string, string>> =>
  Object.fromEntries(SCRIPT_TEXTS.map((code) => [code, texts[code]]));
