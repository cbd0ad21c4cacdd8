// How the pages of a request look: their language, their time zone and the brand. Each function that shows something would need it.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { ApiRequest } from '../../http/message/message.ts';
import { ENGLISH_MESSAGES, takeMessagesFrom, type Messages } from '../../messages.ts';
import { ENGLISH, type Texts } from '../texts/english.ts';
import { FRENCH, FRENCH_MESSAGES } from '../texts/french.ts';
import { GERMAN, GERMAN_MESSAGES } from '../texts/german.ts';
import { SPANISH, SPANISH_MESSAGES } from '../texts/spanish.ts';
import type { Brand } from './brand.ts';
import { readCookie } from './cookies.ts';

/** A language of the pages. */
class Language {
  /** As in `<html lang>`. */
  readonly tag: string;
  /** What its speakers call it. */
  readonly name: string;
  readonly texts: Texts;
  readonly messages: Messages;
  readonly numbers: Intl.NumberFormat;
  /** The decimal separator. */
  readonly decimal: '.' | ',';
  readonly plurals: Intl.PluralRules;

  constructor(tag: string, name: string, texts: Texts, messages: Messages) {
    this.tag = tag;
    this.name = name;
    this.texts = texts;
    this.messages = messages;
    this.numbers = new Intl.NumberFormat(tag, { maximumFractionDigits: 6, useGrouping: true });
    this.decimal = this.numbers.format(0.5).includes(',') ? ',' : '.';
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

/** The zones that a user may choose. A set, because a zone has a great many spellings, and each would be kept. */
export const ZONES: ReadonlySet<string> = new Set(['UTC', ...Intl.supportedValuesOf('timeZone')]);

interface Presentation {
  readonly language: Language;
  /** The zone in which the pages show and take date-times. */
  readonly timeZone: string;
  readonly brand: Brand;
}

const PLAIN: Presentation = {
  language: DEFAULT,
  timeZone: 'UTC',
  brand: { images: [], style: undefined, logo: undefined },
};
const store = new AsyncLocalStorage<Presentation>();
const present = (): Presentation => store.getStore() ?? PLAIN;

/**
 * Runs the work of a request in the language and the time zone that its user has chosen; by default in the language of the browser
 * and in the usual time zone.
 */
export function inPresentation<T>(
  request: ApiRequest,
  usual: Pick<Presentation, 'timeZone' | 'brand'>,
  work: () => T,
): T {
  const zone = readCookie(request, 'zone') ?? '';
  const language = LANGUAGES.get(readCookie(request, 'language') ?? '') ?? preferred(request) ?? DEFAULT;
  return store.run({ ...usual, language, ...(ZONES.has(zone) && { timeZone: zone }) }, work);
}

/** The language of the request that is being answered. */
export const language = (): Language => present().language;

/** Its time zone. */
export const timeZone = (): string => present().timeZone;

/** The look of its admin area. */
export const brand = (): Brand => present().brand;

takeMessagesFrom(language);
