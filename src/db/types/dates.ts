// Parses dates, times and date-times of filters and bodies.
import type { ColumnType, Facts, Parsed } from './column-type.ts';
import { messageOf, type Message } from '../../messages.ts';

const DATE = /^(\d{4,7})-(\d\d)-(\d\d)( BC)?$/;
const TIME = /^(\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?$/;
const DATE_TIME =
  /^(\d{4,6}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d(?::?\d\d)?)?)?( BC)?$/i;
const LOST_PLUS = / (?=\d\d(?::?\d\d)?$)/;
const MINUTE = 60_000;

const fault = (message: Message): Parsed => ({ fault: message });

const isLeap = (year: number): boolean => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;

function daysIn(year: number, month: number): number {
  if (month === 2) return isLeap(year) ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}

/**
 * Checks a date against the calendar and PostgreSQL's range, which starts at 4714-11-24 BC. Existing tables may have years
 * past 9999 and BC.
 */
function calendarDate(text: string, lastYear: number): string | undefined {
  const match = DATE.exec(text);
  if (!match) return undefined;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  const astronomical = match[4] ? 1 - year : year;
  if (year < 1 || year > lastYear || month < 1 || month > 12) return undefined;
  if (astronomical < -4713 || (astronomical === -4713 && (month < 11 || (month === 11 && day < 24))))
    return undefined;
  return day >= 1 && day <= daysIn(astronomical, month) ? text : undefined;
}

/** Normalizes a time of day to 'HH:MM:SS': adds missing seconds and drops fractions. */
function clockTime(text: string): string | undefined {
  const match = TIME.exec(text);
  if (!match) return undefined;
  const [hours, minutes, seconds] = [match[1] ?? '', match[2] ?? '', match[3] ?? '00'];
  const inDay = Number(hours) < 24 && Number(minutes) < 60 && Number(seconds) < 60;
  return inDay ? `${hours}:${minutes}:${seconds}` : undefined;
}

const pad = (number: number, width: number): string => String(number).padStart(width, '0');

/** Converts a date and time with an offset to UTC. Undefined for an invalid offset and outside of the years 1 to 9999. */
function toUtc(date: string, time: string, offset: string): string | undefined {
  const match = /^([+-])(\d\d):?(\d\d)?$/.exec(offset);
  const [hours, minutes] = [Number(match?.[2] ?? 0), Number(match?.[3] ?? 0)];
  if (hours > 15 || minutes > 59) return undefined;
  const shift = (match?.[1] === '-' ? 1 : -1) * (hours * 60 + minutes) * MINUTE;
  const moment = new Date(`${date}T${time}Z`);
  moment.setTime(moment.getTime() + shift);
  const year = moment.getUTCFullYear();
  if (Number.isNaN(year) || year < 1 || year > 9999) return undefined;
  const day = `${pad(year, 4)}-${pad(moment.getUTCMonth() + 1, 2)}-${pad(moment.getUTCDate(), 2)}`;
  return `${day} ${pad(moment.getUTCHours(), 2)}:${pad(moment.getUTCMinutes(), 2)}:${pad(moment.getUTCSeconds(), 2)}`;
}

/** Parses `YYYY-MM-DD HH:MM:SS`. Also accepts `T`, `Z` or an offset, and a missing time or missing seconds. */
export function parseDateTime(text: string): Parsed {
  const match = DATE_TIME.exec(text);
  // In a query string and in a form, an unencoded `+` is a space.
  if (!match && DATE_TIME.test(text.replace(LOST_PLUS, '+'))) return fault(messageOf('lostPlus'));
  if (!match) return fault(messageOf('notDateTime'));
  const era = match[4] ? ' BC' : '';
  const date = calendarDate(`${match[1]}${era}`, 294_276);
  const time = clockTime(match[2] ?? '00:00');
  if (!date || !time) return fault(messageOf('invalidDateTime'));
  const offset = match[3]?.toUpperCase() ?? 'Z';
  if (offset === 'Z') return { value: `${match[1]} ${time}${era}` };
  const utc = era ? undefined : toUtc(date, time, offset);
  return utc ? { value: utc } : fault(messageOf('notUtc'));
}

/** Parses `YYYY-MM-DD`. */
export function parseDate(text: string): Parsed {
  if (!DATE.test(text)) return fault(messageOf('notDate'));
  const date = calendarDate(text, 5_874_897);
  return date ? { value: date } : fault(messageOf('invalidDate'));
}

/** Parses `HH:MM:SS`, with optional seconds. PostgreSQL also has the time 24:00:00. */
export function parseTime(text: string): Parsed {
  const time = text === '24:00:00' ? text : clockTime(text);
  return time ? { value: time } : fault(messageOf('notTime'));
}

/** Whether a bound of dates and times depends on the time of the write: `now`, `today` (UTC), `today in Europe/Zurich`. */
export const isRelative = (bound: string): boolean => /^(now|today)\b/.test(bound);

const dayFormats = new Map<string, Intl.DateTimeFormat>();

/** The day of a moment in a time zone, as `YYYY-MM-DD`. */
function dayIn(zone: string, time: number): string {
  const format = dayFormats.get(zone) ?? new Intl.DateTimeFormat('sv', { timeZone: zone });
  dayFormats.set(zone, format);
  return format.format(time).padStart(10, '0');
}

const inUtc = (time: number): string => new Date(time).toISOString().slice(0, 19).replace('T', ' ');

/** The present moment in the form of a date of a time zone, or of a time or a date-time (UTC). */
export const presentMoment = (form: string, zone: string): string =>
  form === 'date' ? dayIn(zone, Date.now()) : inUtc(Date.now()).slice(form === 'time' ? -8 : 0);

/** Whether the default of a column is the moment of the write. */
export const isPresent = (initial: unknown, { now }: Pick<ColumnType, 'now'>): initial is string =>
  now !== undefined && typeof initial === 'string' && isRelative(initial);

/** The time zone of `today in Europe/Zurich`; of other moments UTC. */
export const zoneOf = (moment: string): string => moment.split(' ')[2] ?? 'UTC';

/** A bound and a value in a form in which they can be compared. All dates and times have a fixed length. */
function comparable(bound: string, value: string): readonly [bound: string, value: string] {
  if (!isRelative(bound)) return [bound, value];
  const [word] = bound.split(' ');
  const zone = zoneOf(bound);
  const now = Date.now();
  if (value.length === '2024-05-31'.length) return [dayIn(zone, now), value];
  const time = Date.parse(`${value.replace(' ', 'T')}Z`);
  if (word === 'today') return [dayIn(zone, now), Number.isNaN(time) ? value : dayIn(zone, time)];
  return [inUtc(now).slice(-value.length), value];
}

/** Checks a date, a time or a date-time of a body against the bounds of its column. */
export const withinBounds =
  (fromJson: (value: unknown, source: string, facts: Facts) => Parsed) =>
  (value: unknown, source: string, facts: Facts): Parsed => {
    const parsed = fromJson(value, source, facts);
    if (parsed.fault !== undefined) return parsed;
    const { earliest: min, latest: max } = facts;
    const [earliest = '', afterIt = ''] = min === undefined ? [] : comparable(min, parsed.value);
    if (afterIt < earliest) return { ...parsed, fault: messageOf('tooEarly', { min: String(min) }) };
    const [latest = '', beforeIt = ''] = max === undefined ? [] : comparable(max, parsed.value);
    if (beforeIt > latest) return { ...parsed, fault: messageOf('tooLate', { max: String(max) }) };
    return parsed;
  };
