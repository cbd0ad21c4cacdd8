// Links above a list that narrow it to a year, a month or a day.
import type { Column } from '../../db/schema/model.ts';
import type { Selection } from '../../query/selection.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { loadOptional } from '../fields/optional-part.ts';
import { html, type Html } from '../web/html.ts';
import { dayStartingAt, isDateTime, localText, startOfDay } from '../web/time-zone.ts';
import { links, type LinkParameters } from '../web/admin-links.ts';

/** A year `2024`, a month `2024-05` or a day `2024-05-31`. */
type Period = string;

const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December']; // prettier-ignore
/** With more years than this, there are no links. */
const MAX_YEARS = 40;

/** Maximum links to longer periods: all dates, the year, the month. */
const MAX_ABOVE = 3;

const pad = (number: number, width = 2): string => String(number).padStart(width, '0');

/** The first day of a period, and the first day after it, which can be 10000-01-01; undefined if the period is invalid. */
export function daysOf(period: Period): readonly [string, string] | undefined {
  const [year = 0, month, day] = period.split('-').map(Number);
  // `Date.UTC` takes the years 0 to 99 for 1900 to 1999, so the year is set afterwards.
  const start = new Date(Date.UTC(2000, (month ?? 1) - 1, day ?? 1));
  start.setUTCFullYear(year, (month ?? 1) - 1, day ?? 1);
  const end = new Date(start);
  if (day !== undefined) end.setUTCDate(end.getUTCDate() + 1);
  else if (month !== undefined) end.setUTCMonth(end.getUTCMonth() + 1);
  else end.setUTCFullYear(end.getUTCFullYear() + 1);
  const text = (date: Date): string =>
    `${pad(date.getUTCFullYear(), 4)}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}`;
  return text(start).startsWith(period) ? [text(start), text(end)] : undefined;
}

/** The names of the filters that delimit a period. */
const boundNames = ({ name }: Column): readonly [string, string] => [`${name}__gte`, `${name}__lt`];

/** The period that the URL selects, if it is a whole year, month or day. */
function chosenPeriod(parameters: LinkParameters, column: Column): Period | undefined {
  const [from, to] = boundNames(column).map((name) => {
    const value = parameters.get(name);
    return value === undefined || !isDateTime(column) ? value : dayStartingAt(value);
  });
  if (from === undefined || to === undefined || !/^\d{4}-\d\d-\d\d$/.test(from)) return undefined;
  return [from.slice(0, 4), from.slice(0, 7), from].find((period) => {
    const days = daysOf(period);
    return days?.[0] === from && days[1] === to;
  });
}

/** The parameters with another period, or with none. */
function withPeriod(parameters: LinkParameters, column: Column, period: Period | undefined): LinkParameters {
  const [from, to] = boundNames(column);
  const unfiltered = parameters.without(from, to, 'page');
  const days = period === undefined ? undefined : daysOf(period);
  const [first, next] = days?.map((day) => (isDateTime(column) ? startOfDay(day) : day)) ?? [];
  return first === undefined || next === undefined ? unfiltered : unfiltered.with(from, first).with(to, next);
}

const titleOf = (period: Period): string => {
  const [year = '', month, day] = period.split('-');
  if (day !== undefined) return String(Number(day));
  return month === undefined ? year : (MONTHS[Number(month) - 1] ?? month);
};

/** The month, else the year, that contains both times. Links to longer periods would offer only one choice. */
function commonPeriod(first: string, last: string): Period | undefined {
  return [first.slice(0, 7), first.slice(0, 4)].find((period) => last.startsWith(period) && daysOf(period));
}

/** The year, the month and the day that contain a period, as far as it has them. The last one is the period itself. */
function periodsDownTo(period: Period): Period[] {
  const parts = period.split('-');
  return parts.map((_, index) => parts.slice(0, index + 1).join('-'));
}

/** The years, months or days within a period, from the first to the last record. */
function periodsWithin(period: Period | undefined, first: string, last: string): Period[] {
  const length = period === undefined ? 4 : period.length + 3;
  const [from, to] = [first.slice(0, length), last.slice(0, length)];
  const numbers = (min: number, max: number): number[] =>
    Array.from({ length: Math.max(0, max - min + 1) }, (_, index) => min + index);
  const all =
    period === undefined
      ? numbers(Number(from), Number(to)).map((year) => pad(year, 4))
      : numbers(1, period.length === 4 ? 12 : 31).map((number) => `${period}-${pad(number)}`);
  return all.filter((one) => one >= from && one <= to && daysOf(one) !== undefined);
}

/**
 * Links to the periods between the first and the last record of a list.
 * @param isLarge whether the table may be too large to read every row: then the column needs an index
 * @returns undefined if the resource has no column for date links, if a large table has no index on it, if reading the dates takes
 * too long, if there is nothing to choose, or if a long query in each link would make the page huge
 */
export async function dateLinks(
  context: ResourceContext,
  parameters: LinkParameters,
  selection: Selection,
  isLarge: boolean,
): Promise<Html | undefined> {
  const { browsing, resource } = context;
  const { dates: column, name } = resource;
  if (!column || (isLarge && !column.indexed)) return undefined;
  const reading = browsing.bounds(resource, selection, column);
  const stored = await loadOptional(context, `the date links of ${name}`, reading);
  const period = chosenPeriod(parameters, column);
  if (!stored) return undefined;
  const [first, last] = stored.map((text) => (isDateTime(column) ? localText(text) : text));
  const bounds = [first ?? '', last ?? ''] as const;
  const within = period ?? commonPeriod(...bounds);
  const finer = period?.length === 10 ? [] : periodsWithin(within, ...bounds);
  if (period === undefined && (finer.length < 2 || finer.length > MAX_YEARS)) return undefined;
  if (!parameters.mayRepeat(finer.length + MAX_ABOVE)) return undefined;
  const link = (to: Period | undefined, text: string): Html =>
    html`<li><a href="${links.list(name, withPeriod(parameters, column, to))}">${text}</a></li>`;
  return html`<nav class="dates" aria-label="${column.title}">
    <span class="what">${column.title}</span>
    <ul>
      ${period !== undefined && link(undefined, 'All dates')}
      ${(within === undefined ? [] : periodsDownTo(within)).map((one) => {
        if (period === undefined) return html`<li><span>${titleOf(one)}</span></li>`;
        return one === period ? html`<li aria-current="true">${titleOf(one)}</li>` : link(one, titleOf(one));
      })}
      ${finer.map((one) => link(one, titleOf(one)))}
    </ul>
  </nav>`;
}
