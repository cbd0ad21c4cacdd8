// Date-times in the time zone of the pages. Everything behind the pages is in UTC.
import type { Column } from '../../db/schema/model.ts';
import { parseDateTime } from '../../db/types/dates.ts';
import { eitherOr, t } from './language.ts';
import { timeZone } from './presentation.ts';

export const isDateTime = ({ references, type }: Column): boolean =>
  !references && type.input.control === 'datetime-local';

const DAY = 86_400_000;
const PLAIN = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/;
/** A local time that is not one moment of its zone, as `utcOf` gives it. */
const UNRESOLVED = /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?!BC$)([A-Z].*)$/i;

const timeOf = (text: string): number => Date.parse(`${text.replace(' ', 'T')}Z`);
const textOf = (time: number): string => new Date(time).toISOString().slice(0, 19).replace('T', ' ');

/** Whether the text is a date-time that has a local time with the same form. */
const hasLocal = (text: string): boolean =>
  timeZone() !== 'UTC' && PLAIN.test(text) && text > '0002' && text < '9998' && !Number.isNaN(timeOf(text));

const formats = new Map<string, Intl.DateTimeFormat>();

/** Milliseconds by which local time is ahead of UTC. */
function offsetAt(time: number): number {
  const zone = timeZone();
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

const withOffset = (time: number): string => textOf(time + offsetAt(time)) + offsetText(offsetAt(time));

/** What a local time may mean: by the offset before and by the offset after a change of the clocks near it. */
function readings(local: string): { readonly all: readonly number[]; readonly right: readonly number[] } {
  const time = timeOf(local);
  const all = [...new Set([-DAY, DAY].map((shift) => time - offsetAt(time + shift)))].sort((a, b) => a - b);
  return { all, right: all.filter((one) => one + offsetAt(one) === time) };
}

/** The local time of a date-time of the database, for a form. It has an offset where it would be ambiguous. */
export function localText(text: string): string {
  const [, unresolved] = UNRESOLVED.exec(text) ?? [];
  if (unresolved !== undefined || !hasLocal(text)) return unresolved ?? text;
  const local = textOf(timeOf(text) + offsetAt(timeOf(text)));
  return readings(local).right.length > 1 ? withOffset(timeOf(text)) : local;
}

/** The local time of a date-time of the database, for display. @param utc what follows if that is UTC */
export const shownTime = (text: string, utc = ''): string =>
  hasLocal(text) ? withOffset(timeOf(text)).replace(/(?=[+-]\d\d:\d\d$)/, ' ') : text + utc;

/** A typed local time in UTC, or with its zone if it is not one moment there. Other texts stay as they are. */
export function utcOf(typed: string): string {
  const { value } = parseDateTime(typed);
  if (timeZone() === 'UTC' || value === undefined) return typed;
  const isLocal = /^[\d-]+( [\d:.]+)?$/.test(typed) && hasLocal(value);
  if (!isLocal) return value;
  const [only, ...others] = readings(value).right;
  return only === undefined || others.length > 0 ? `${value} ${timeZone()}` : textOf(only);
}

/** Why a text of `utcOf` is no moment, and the two that may be meant. */
export function zoneFault(text: string): string | undefined {
  const [, local = '', zone] = UNRESOLVED.exec(text) ?? [];
  if (zone === undefined || zone !== timeZone()) return undefined;
  const { all, right } = readings(local);
  const meant = eitherOr(all.map(withOffset).sort());
  return t(right.length > 1 ? 'occursTwice' : 'doesNotOccur', { zone, meant });
}

/** A value of a form as text that does not depend on the zone. */
export const exactText = (column: Column, text: string): string =>
  isDateTime(column) && hasLocal(text) ? `${text}Z` : text;

/** The first moment of a local day, as filters take it. */
export function startOfDay(day: string): string {
  if (!hasLocal(`${day} 00:00:00`)) return day;
  const { all, right } = readings(`${day} 00:00:00`);
  return textOf(right[0] ?? all[0] ?? timeOf(`${day} 00:00:00`));
}

/** The present local day. */
export const today = (): string => localText(textOf(Date.now())).slice(0, 10);

/** The local day that starts at this value of a filter; undefined if none does. */
export function dayStartingAt(value: string): string | undefined {
  const [day = ''] = localText(value).split(' ');
  return startOfDay(day) === value ? day : undefined;
}
