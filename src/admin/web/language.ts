// The language of the pages: which one a request gets, and the texts in it.
import type { ApiRequest } from '../../http/message/message.ts';
import {
  ENGLISH_MESSAGES,
  inLanguageOf,
  presentLanguage,
  type Messages,
  type ParamsOf,
} from '../../messages.ts';
import { ENGLISH, SCRIPT_TEXTS, type Text, type TextCode, type Texts } from '../texts/english.ts';
import { FRENCH, FRENCH_MESSAGES } from '../texts/french.ts';
import { GERMAN, GERMAN_MESSAGES } from '../texts/german.ts';
import { SPANISH, SPANISH_MESSAGES } from '../texts/spanish.ts';
import { readCookie } from './cookies.ts';
import { html, type Content, type Html } from './html.ts';

/** A language of the pages. */
class Language {
  /** As in `<html lang>`. */
  readonly tag: string;
  /** What its speakers call it. */
  readonly name: string;
  readonly texts: Texts;
  readonly messages: Messages;
  readonly numbers: Intl.NumberFormat;
  readonly plurals: Intl.PluralRules;

  constructor(tag: string, name: string, texts: Texts, messages: Messages) {
    this.tag = tag;
    this.name = name;
    this.texts = texts;
    this.messages = messages;
    this.numbers = new Intl.NumberFormat(tag, { maximumFractionDigits: 6, useGrouping: true });
    this.plurals = new Intl.PluralRules(tag);
  }
}

const DEFAULT = new Language('en', 'English', ENGLISH, ENGLISH_MESSAGES);

/** The languages by their tags. */
export const LANGUAGES: ReadonlyMap<string, Language> = new Map(
  [
    DEFAULT,
    new Language('de', 'Deutsch', GERMAN, GERMAN_MESSAGES),
    new Language('fr', 'français', FRENCH, FRENCH_MESSAGES),
    new Language('es', 'español', SPANISH, SPANISH_MESSAGES),
  ].map((language) => [language.tag, language]),
);

/** Characters of `Accept-Language` that are read. */
const MAX_HEADER = 500;

/** The first of the languages that the browser prefers. */
function preferred({ headers }: ApiRequest): Language | undefined {
  const ranges = (headers['accept-language'] ?? '').slice(0, MAX_HEADER).split(',');
  const wanted = ranges.map((range) => {
    const [tag = '', quality = '1'] = range.split(/;\s*q=/);
    return {
      language: LANGUAGES.get(tag.trim().toLowerCase().split('-', 1)[0] ?? ''),
      quality: Number(quality),
    };
  });
  const found = wanted.filter(({ language, quality }) => language && quality > 0);
  return found.sort((one, other) => other.quality - one.quality)[0]?.language;
}

/** Runs the work of a request in the language that its user has chosen, else in that of the browser. */
export const inLanguage = <T>(request: ApiRequest, work: () => T): T =>
  inLanguageOf(LANGUAGES.get(readCookie(request, 'language') ?? '') ?? preferred(request) ?? DEFAULT, work);

/** The language of the request that is being answered. */
export const language = (): Language => (presentLanguage() as Language | undefined) ?? DEFAULT;

type English<Code extends TextCode> = (typeof ENGLISH)[Code];
/** The names in braces of a text. */
type Names<Code extends TextCode> =
  English<Code> extends { readonly other: infer Other extends string }
    ? ParamsOf<Other> | 'count'
    : ParamsOf<Extract<English<Code>, string>>;
type Params<Code extends TextCode, Value> = [Names<Code>] extends [never]
  ? []
  : [Readonly<Record<Names<Code>, Value>>];

/** The code of a text without parameters. */
export type PlainCode = { [Code in TextCode]: [Names<Code>] extends [never] ? Code : never }[TextCode];

/** The text of a code, in the form for its `count`. */
function formOf(code: TextCode, params: Readonly<Record<string, unknown>>): string {
  const { texts, plurals } = language();
  const text: Text = texts[code];
  if (typeof text === 'string') return text;
  return plurals.select(Number(params['count'])) === 'one' ? text.one : text.other;
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

/** A text whose parameters may be HTML. */
export function phrase<Code extends TextCode>(code: Code, ...[params]: Params<Code, Content>): Html {
  const values: Readonly<Record<string, Content>> = params ?? {};
  const parts = formOf(code, values).split(/\{(\w+)\}/g);
  return html`${parts.map((part, at) => {
    const value = at % 2 === 0 ? part : values[part];
    return typeof value === 'number' ? numberText(value) : value;
  })}`;
}

/** The texts of `script.js`, by code. Texts of the script have no forms for numbers. */
export const scriptTexts = ({ texts }: Language): Readonly<Record<string, Text>> =>
  Object.fromEntries(SCRIPT_TEXTS.map((code) => [code, texts[code]]));
