import type { Column } from '../../db/schema/model.ts';
import type { RecordEntry } from '../../resources/records/record-entry.ts';
import { textOfColumn } from '../../resources/records/record-entry.ts';
import { html, type Html } from './html.ts';

/** How much of a long text a list shows (characters). */
const MOST_SHOWN = 100;

/** `1,234` */
export const grouped = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ',');

/** `1 record`, `1,234 records` */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${grouped(count)} ${count === 1 ? one : many}`;

/** The one form in which dates and times are shown: as the API has them, in UTC. */
export const moment = (text: string): Html =>
  html`<time datetime="${text.replace(' ', 'T')}${text.includes(' ') && 'Z'}">${text}</time>`;

export const NOTHING = html`<span class="nothing" title="no value">—</span>`;

export const EMPTY_TEXT = html`<span class="nothing">empty text</span>`;

/** How many times more characters are read than are shown: whitespace takes less room on the page. */
const READ = 16;

/** A long text cut to its beginning, on one line. */
export function shortened(text: string, most = MOST_SHOWN): string {
  const trimmed = text.trim();
  const isLong = trimmed.length > READ * most;
  const line = trimmed.slice(0, READ * most).replace(/\s+/g, ' ');
  const signs = [...line.slice(0, 2 * most + 1)]; // a sign is one or two of JavaScript's characters
  return signs.length > most || isLong ? `${signs.slice(0, most).join('').toWellFormed()}…` : line;
}

/** Whether people read the column's values as numbers, which stand to the right. */
export const isNumeric = ({ type, references }: Column): boolean => type.bounded === true && !references;

/** A value as people read it. */
export function shownValue(column: Column, text: string | null, most?: number): Html | string {
  if (text === null) return NOTHING;
  const { control } = column.type.input;
  if (control === 'checkbox') return text === 'true' ? 'Yes' : 'No';
  if (control === 'date' || control === 'datetime-local') return moment(text);
  return most === undefined ? text : shortened(text, most);
}

/** Where a change was made, and what was done, in the words of people. */
export const DOORS: Readonly<Record<string, string>> = {
  api: 'API',
  admin: 'Admin area',
  command: 'Command line',
};
export const DONE: Readonly<Record<string, string>> = {
  create: 'added',
  update: 'changed',
  delete: 'deleted',
};

export const doorText = (door: string): string => DOORS[door] ?? door;
export const doneText = (action: string): string => DONE[action] ?? action;

/** A column of a record as people read it; a foreign key by what the related record is called. */
export function shownColumn(entry: RecordEntry, column: Column, most: number = MOST_SHOWN): Html | string {
  const text = textOfColumn(entry.members, column);
  if (!column.references || text === null) return shownValue(column, text, most);
  const label = entry.labels[column.key];
  return label ? shortened(label, most) : `#${text}`;
}
