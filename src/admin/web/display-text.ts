// Turns values into the texts that people read: numbers, times, booleans, shortened texts, labels.
import type { Column } from '../../db/schema/model.ts';
import type { Tone } from '../../db/schema/presentation.ts';
import type { Count } from '../../query/selection.ts';
import { keyIn, textOfColumn, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { linesOf } from './array-lines.ts';
import { html, type Html } from './html.ts';
import { t, type PlainCode } from './language.ts';
import { elementOf, pageWriting, shownText } from './read-text.ts';
import { shownTime } from './time-zone.ts';

/** Characters of a long text that a list shows. */
const MAX_SHOWN = 100;

const PRECISION = {
  exact: 'records',
  estimate: 'aboutRecords',
  exceeded: 'moreThanRecords',
} as const satisfies Record<Count['precision'], string>;

/** `3 records`, `about 20,000 records` */
export const countedRecords = ({ count, precision }: Count): string => t(PRECISION[precision], { count });

export const capitalized = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

const BROWSERS = { Edg: 'Edge', OPR: 'Opera', SamsungBrowser: 'Samsung Internet', Firefox: 'Firefox', FxiOS: 'Firefox', CriOS: 'Chrome', Chrome: 'Chrome', Safari: 'Safari' }; // prettier-ignore
const SYSTEMS = { iPhone: 'iPhone', iPad: 'iPad', Android: 'Android', Windows: 'Windows', CrOS: 'ChromeOS', 'Mac OS X': 'macOS', Linux: 'Linux' }; // prettier-ignore

/** The browser and the system of a `User-Agent` header: `Firefox on Windows`. Of another program, its beginning. */
export function browserName(agent: string): string {
  const named = (names: Readonly<Record<string, string>>): string[] =>
    Object.entries(names).flatMap(([mark, name]) => (agent.includes(mark) ? [name] : []));
  const [[browser], [system]] = [named(BROWSERS), named(SYSTEMS)];
  if (browser === undefined) return shortened(agent, 40) || t('unknown');
  return system === undefined ? browser : t('browserOn', { browser, system });
}

/** Quotes a text as one word for a POSIX shell. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A date or time in the format of the API. A date-time is shown in the time zone of the page. */
export const moment = (text: string): Html =>
  html`<time datetime="${text.replace(' ', 'T')}${text.includes(' ') && 'Z'}">${shownTime(text)}</time>`;

export const nothing = (): Html => html`<span class="nothing" title="${t('noValue')}">—</span>`;

export const emptyText = (): Html => html`<span class="nothing">${t('emptyText')}</span>`;

/** Reads this many times more characters than it shows, because runs of whitespace shrink to one space. */
const READ_FACTOR = 16;

/** The beginning of a text, on one line. */
export function shortened(text: string, max = MAX_SHOWN): string {
  const trimmed = text.trim();
  const isLong = trimmed.length > READ_FACTOR * max;
  const line = trimmed.slice(0, READ_FACTOR * max).replace(/\s+/g, ' ');
  const characters = [...line.slice(0, 2 * max + 1)]; // a character is one or two UTF-16 units
  return characters.length > max || isLong ? `${characters.slice(0, max).join('').toWellFormed()}…` : line;
}

/** Maximum length of a code that stays on one line (characters). */
const LONGEST_CODE = 24;

/** The beginning of a text. A short code, such as an article number, does not break at its hyphens. */
function inOneLine(text: string, max?: number): Html | string {
  const shown = shortened(text, max);
  const isCode = shown.length <= LONGEST_CODE && /^[^\s-]+(-[^\s-]+)+$/.test(shown);
  return isCode ? html`<span class="whole">${shown}</span>` : shown;
}

/** A shorter text for which `shortened` gives the same result. */
export function cutForShortening(text: string, max: number): string {
  const read = READ_FACTOR * max;
  if (text.length <= read) return text;
  const trimmed = text.trim();
  return trimmed.length <= read ? trimmed || ' ' : `${trimmed.slice(0, read)}…`;
}

/** Whether the column's values are right-aligned as numbers. A foreign key shows a label instead. */
export const isNumeric = ({ type, references }: Column): boolean => type.bounded === true && !references;

/** What people see for a value that may be one of the choices of a column. */
export const choiceLabel = ({ choiceLabels }: Column, text: string, unlabeled = text): string =>
  choiceLabels?.get(text) ?? unlabeled;

/** A choice with a tone. Its class adds a symbol, so that the tone is more than a color. */
const badge = (tone: Tone, label: string): Html => html`<span class="badge tone-${tone}">${label}</span>`;

/** A value for display. @param max characters; without it the text is not shortened */
export function shownValue(column: Column, text: string | null, max?: number): Html | string {
  if (text === null) return nothing();
  const { control } = column.type.input;
  const isBoolean = control === 'checkbox';
  const written = isBoolean ? t(text === 'true' ? 'yes' : 'no') : shownText(column, text, pageWriting());
  const label = choiceLabel(column, text, written);
  const tone = column.tones?.get(text);
  if (tone) return badge(tone, shortened(label || t('emptyText')));
  if (isBoolean) return label;
  if (control === 'date' || control === 'datetime-local') return moment(text);
  const shown = column.type.element ? arrayInWords(text, column) : label;
  return max === undefined ? shown : inOneLine(shown, max);
}

/** The choices of a record that have a tone, for its title; false without any. */
export function badgesOf({ fields }: LabeledRecord, columns: readonly Column[]): Html | false {
  const badges = columns.flatMap((column) => {
    const text = textOfColumn(fields, column);
    return text !== null && column.tones?.has(text) ? [html`${shownValue(column, text)} `] : [];
  });
  return badges.length > 0 && html`${badges}`;
}

/** The elements of an array separated by commas or semicolons, if that is clear; otherwise its JSON. */
function arrayInWords(source: string, column: Column): string {
  const { element } = column.type;
  const shown = (line: string): string =>
    element ? shownText(elementOf(column, element), line, pageWriting()) : line;
  const lines = linesOf(source)?.map((line) => choiceLabel(column, line, shown(line)));
  const mark = [', ', t('separator')].find((one) => !lines?.some((line) => line.includes(one.trim())));
  return lines && lines.length > 0 && mark !== undefined ? lines.join(mark) : source;
}

const SOURCES = { api: 'api', admin: 'adminArea', command: 'commandLine' } as const;
const ACTIONS = { create: 'added', update: 'changed', delete: 'deleted' } as const;

const labelsOf = (codes: Readonly<Record<string, PlainCode>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(codes).map(([name, code]) => [name, t(code)]));

/** Labels for the source of a change (`SOURCE_COLUMN`) and for its action. */
export const sourceLabels = () => labelsOf(SOURCES);
export const actionLabels = () => labelsOf(ACTIONS);

export const sourceLabel = (source: string): string => sourceLabels()[source] ?? source;
export const actionLabel = (action: string): string => actionLabels()[action] ?? action;

/** A column of a record for display. A foreign key shows the label of the related record. */
export function shownColumn(record: LabeledRecord, column: Column, max: number = MAX_SHOWN): Html | string {
  const text = column.parts ? keyIn(record, column) : textOfColumn(record.fields, column);
  if (!column.references || text === null) return shownValue(column, text, max);
  const label = record.labels[column.key];
  return label ? inOneLine(label, max) : `#${text}`;
}
