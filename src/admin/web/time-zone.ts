// Date-times in the time zone of the pages. Everything behind the pages is in UTC.
import type { Column } from '../../db/schema/model.ts';
import { parseDateTime } from '../../db/types/dates.ts';
import { eitherOr, t } from './language.ts';
import { timeZone } from './presentation.ts';

export const isDateTime = ({ references, type }: Column): boolean =>
  !references && type.input.control === 'datetime-local';

const DAY = 86_400_000;
const PLAIN = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/;
const timeOf = (text: string): number => Date.parse(`${text.replace(' ', 'T')}Z`);
const textOf = (time: number): string => new Date(time).toISOString().slice(0, 19).replace('T', ' ');

/** Whether the text is a date-time that has a local time with the same form. */
const hasLocal = (text: string, zone: string): boolean =>
  zone !== 'UTC' && PLAIN.test(text) && text > '0002' && text < '9998' && !Number.isNaN(timeOf(text));

const formats = new Map<string, Intl.DateTimeFormat>();

/** Milliseconds by which local time is ahead of UTC. */
function offsetAt(time: number, zone: string): number {
  let format = formats.get(zone);
  if (!format) {
    const [numeric, digits] = ['numeric', '2-digit'] as const;
    const fields = {
      year: numeric,
      month: digits,
      day: digits,
      hour: digits,
      minute: digits,
      second: digits,
    };
    format = new Intl.DateTimeFormat('en-US', { ...fields, timeZone: zone, hourCycle: 'h23' });
    formats.set(zone, format);
  }
  const parts = new Map(format.formatToParts(time).map(({ type, value }) => [type, value]));
  const [year, ...rest] = (['year', 'month', 'day', 'hour', 'minute', 'second'] as const).map(
    (name) => parts.get(name) ?? '',
  );
  const [month, day, hour, minute, second] = rest;
  const text = `${year?.padStart(4, '0')}-${month}-${day} ${hour}:${minute}:${second}`;
  return timeOf(text) - Math.floor(time / 1000) * 1000;
}

function offsetText(offset: number): string {
  const minutes = Math.round(Math.abs(offset) / 60_000);
  const pad = (number: number): string => String(number).padStart(2, '0');
  return `${offset < 0 ? '-' : '+'}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
}

const withOffset = (time: number, zone: string): string =>
  textOf(time + offsetAt(time, zone)) + offsetText(offsetAt(time, zone));

/** What a local time may mean: by the offset before and by the offset after a change of the clocks near it. */
function readings(local: string, zone: string): { readonly all: number[]; readonly right: number[] } {
  const time = timeOf(local);
  const offsets = [-DAY, DAY].map((shift) => time - offsetAt(time + shift, zone));
  const all = [...new Set(offsets)].sort((a, b) => a - b);
  return { all, right: all.filter((one) => one + offsetAt(one, zone) === time) };
}

/** The local time of a date-time of the database, for a form. It has an offset where it would be ambiguous. */
export function localText(text: string, zone = timeZone()): string {
  if (!hasLocal(text, zone)) return text;
  const local = textOf(timeOf(text) + offsetAt(timeOf(text), zone));
  return readings(local, zone).right.length > 1 ? withOffset(timeOf(text), zone) : local;
}

/** The local time of a date-time of the database, for display. @param utc what follows if that is UTC */
export const shownTime = (text: string, utc = ''): string =>
  hasLocal(text, timeZone())
    ? withOffset(timeOf(text), timeZone()).replace(/(?=[+-]\d\d:\d\d$)/, ' ')
    : text + utc;

/** A local time in UTC, or why it is not one moment in its zone. Other texts stay as they are. */
export function utcOf(typed: string, zone: string): { readonly text: string } | { readonly fault: string } {
  const { value } = parseDateTime(typed);
  if (zone === 'UTC' || value === undefined) return { text: typed };
  if (!/^[\d-]+( [\d:.]+)?$/.test(typed) || !hasLocal(value, zone)) return { text: value };
  const { all, right } = readings(value, zone);
  const [only, other] = right;
  if (only !== undefined && other === undefined) return { text: textOf(only) };
  const meant = eitherOr(all.map((time) => withOffset(time, zone)).sort());
  return { fault: t(other === undefined ? 'doesNotOccur' : 'occursTwice', { zone, meant }) };
}

/** A date-time of the database as text that does not depend on the zone. */
export const withZone = (text: string): string => (hasLocal(text, timeZone()) ? `${text}Z` : text);

/** The first moment of a local day, as filters take it. A day may lack its midnight, or be skipped as a whole. */
export function startOfDay(day: string): string {
  const [midnight, zone] = [`${day} 00:00:00`, timeZone()];
  if (!hasLocal(midnight, zone)) return day;
  const { all, right } = readings(midnight, zone);
  let [before = 0, after = 0] = [all[0], all.at(-1)];
  // Between both, the clocks are set forward, over midnight.
  while (right.length === 0 && after - before > 1000) {
    const middle = Math.ceil((before + after) / 2000) * 1000;
    if (middle + offsetAt(middle, zone) < timeOf(midnight)) before = middle;
    else if (middle === after) break;
    else after = middle;
  }
  return textOf(right[0] ?? after);
}

/** The present local day. */
export const today = (): string => localText(textOf(Date.now())).slice(0, 10);

/** The local day that starts at this value of a filter; undefined if none does. */
export function dayStartingAt(value: string): string | undefined {
  const [day = ''] = localText(value).split(' ');
  return startOfDay(day) === value ? day : undefined;
}
