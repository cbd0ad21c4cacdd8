import type { Column } from '../../db/schema/model.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { Selection } from '../../resources/records/selection.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { html, type Html } from '../web/html.ts';
import { links, type Parameters } from '../web/admin-links.ts';

/** A stretch of time: a year `2024`, a month `2024-05`, a day `2024-05-31`. */
type Period = string;

const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December']; // prettier-ignore
/** More years than this are not listed one by one. */
const MOST_YEARS = 40;

const pad = (number: number, width = 2): string => String(number).padStart(width, '0');

/** The first day of a period, and the first day after it; undefined for a day that no calendar has, and from the year 10000 on. */
export function daysOf(period: Period): readonly [string, string] | undefined {
  const [year = 0, month, day] = period.split('-').map(Number);
  const start = new Date(Date.UTC(2000, (month ?? 1) - 1, day ?? 1));
  start.setUTCFullYear(year, (month ?? 1) - 1, day ?? 1);
  const end = new Date(start);
  if (day !== undefined) end.setUTCDate(end.getUTCDate() + 1);
  else if (month !== undefined) end.setUTCMonth(end.getUTCMonth() + 1);
  else end.setUTCFullYear(end.getUTCFullYear() + 1);
  if (end.getUTCFullYear() > 9999) return undefined;
  const text = (date: Date): string =>
    `${pad(date.getUTCFullYear(), 4)}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}`;
  return text(start).startsWith(period) ? [text(start), text(end)] : undefined;
}

const namesOf = ({ name }: Column): readonly [string, string] => [`${name}__gte`, `${name}__lt`];

/** The period that the address is narrowed to, if it is a whole year, month or day. */
function chosenPeriod(parameters: Parameters, column: Column): Period | undefined {
  const [from, to] = namesOf(column).map((name) => parameters.get(name));
  if (from === undefined || to === undefined || !/^\d{4}-\d\d-\d\d$/.test(from)) return undefined;
  return [from.slice(0, 4), from.slice(0, 7), from].find((period) => {
    const days = daysOf(period);
    return days?.[0] === from && days[1] === to;
  });
}

function narrowed(parameters: Parameters, column: Column, period: Period | undefined): Parameters {
  const [from, to] = namesOf(column);
  const wide = parameters.without(from, to, 'page');
  const days = period === undefined ? undefined : daysOf(period);
  return days ? wide.with(from, days[0]).with(to, days[1]) : wide;
}

const titleOf = (period: Period): string => {
  const [year = '', month, day] = period.split('-');
  if (day !== undefined) return String(Number(day));
  return month === undefined ? year : (MONTHS[Number(month) - 1] ?? month);
};

/** The finest period that has both moments, where that is no day: there is nothing to choose above it. */
function commonPeriod(first: string, last: string): Period | undefined {
  return [first.slice(0, 7), first.slice(0, 4)].find((period) => last.startsWith(period) && daysOf(period));
}

/** The periods one step finer than this one that lie between two moments. */
function periodsWithin(period: Period | undefined, first: string, last: string): Period[] {
  const length = period === undefined ? 4 : period.length + 3;
  const [from, to] = [first.slice(0, length), last.slice(0, length)];
  const numbers = (least: number, most: number): number[] =>
    Array.from({ length: Math.max(0, most - least + 1) }, (_, index) => least + index);
  const all =
    period === undefined
      ? numbers(Number(from), Number(to)).map((year) => pad(year, 4))
      : numbers(1, period.length === 4 ? 12 : 31).map((number) => `${period}-${pad(number)}`);
  return all.filter((one) => one >= from && one <= to && daysOf(one) !== undefined);
}

/**
 * Links that narrow the list to a year, a month, a day, as far as there are records; nothing where finding that out would take
 * a look at every row of a large table.
 * @param isLarge whether there are more records than can be counted in no time
 */
export async function drillDown(
  { browsing }: AdminContext,
  resource: AdminResource,
  parameters: Parameters,
  selection: Selection,
  isLarge: boolean,
): Promise<Html | undefined> {
  const { dates: column, name } = resource;
  if (!column || (isLarge && !column.indexed)) return undefined;
  const bounds = await browsing.bounds(resource, selection, column);
  const period = chosenPeriod(parameters, column);
  if (!bounds) return undefined;
  const within = period ?? commonPeriod(...bounds);
  const finer = period?.length === 10 ? [] : periodsWithin(within, ...bounds);
  if (period === undefined && (finer.length < 2 || finer.length > MOST_YEARS)) return undefined;
  const link = (to: Period | undefined, text: string): Html =>
    html`<li><a href="${links.list(name, narrowed(parameters, column, to))}">${text}</a></li>`;
  const way =
    within === undefined
      ? []
      : [within.slice(0, 4), within.slice(0, 7), within].slice(0, (within.length - 1) / 3);
  return html`<nav class="dates" aria-label="${column.title}">
    <span class="what">${column.title}</span>
    <ul>
      ${period !== undefined && link(undefined, 'All dates')}
      ${way.map((one) => {
        if (period === undefined) return html`<li><span>${titleOf(one)}</span></li>`;
        return one === period ? html`<li aria-current="true">${titleOf(one)}</li>` : link(one, titleOf(one));
      })}
      ${finer.map((one) => link(one, titleOf(one)))}
    </ul>
  </nav>`;
}
