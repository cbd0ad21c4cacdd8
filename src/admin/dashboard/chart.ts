// Draws a series of numbers as an SVG bar chart or line chart.
import type { PanelSeries } from '../../resources/definition/panel.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { numberText, t } from '../web/language.ts';
import { language } from '../web/presentation.ts';
import { table } from '../web/widgets.ts';

/** SVG units, about equal to pixels in a narrow column, so that texts stay readable there. */
const WIDTH = 340;
const HEIGHT = 200;
const TOP = 24;
const BOTTOM = 28;
const RIGHT = 10;
const FONT = 12;
/** Approximate maximum width of a character of a label. */
const CHARACTER = 6.8;
/** Characters of a label below the chart. Its title has the full text. */
const LONGEST_LABEL = 12;
/** Approximate number of steps on the value axis. */
const STEPS = 4;
/** Larger values are clamped, and smaller ones drawn as zero: arithmetic on them overflows or underflows. */
const GREATEST = 1e100;
const LEAST = 1e-100;

const isExtreme = (value: number): boolean =>
  value !== 0 && (Math.abs(value) >= 1e15 || Math.abs(value) < 1e-6);

/** `1,234.5`; very large and very small numbers in scientific notation. */
export const formatNumber = (value: number): string =>
  isExtreme(value)
    ? new Intl.NumberFormat(language().tag, {
        notation: 'scientific',
        maximumSignificantDigits: 7,
      }).format(value)
    : numberText(value + 0);

/** A short label for a tick, with enough digits to differ from its neighbors. */
function tickText(value: number, step: number, greatest: number): string {
  if (value === 0) return '0';
  const digits = Math.floor(Math.log10(greatest)) - Math.floor(Math.log10(step)) + 1;
  const maximumSignificantDigits = Math.min(Math.max(digits, 1), 15);
  const notation = isExtreme(value) || isExtreme(step) ? 'scientific' : 'compact';
  return new Intl.NumberFormat(language().tag, { notation, maximumSignificantDigits }).format(value);
}

const bounded = (value: number): number =>
  Math.abs(value) < LEAST ? 0 : Math.min(Math.max(value, -GREATEST), GREATEST);

/** A step of 1, 2 or 5 times a power of ten, so that about `STEPS` of them cover the span. */
function niceStep(span: number): number {
  const power = 10 ** Math.floor(Math.log10(span / STEPS));
  const factor = [1, 2, 5].find((one) => one * power * STEPS >= span * 0.8) ?? 10;
  return factor * power;
}

/** The ticks of the value axis. All values lie between the first and the last one. */
function ticksOf(values: readonly number[], startsAtZero: boolean): { ticks: number[]; step: number } {
  let least = Math.min(...values, ...(startsAtZero ? [0] : []));
  let most = Math.max(...values, ...(startsAtZero ? [0] : []));
  // Nearly equal values are drawn relative to zero.
  if (most - least <= Math.max(Math.abs(most), Math.abs(least)) * 1e-9) {
    if (most === 0) most = 1;
    else [least, most] = [Math.min(least, 0), Math.max(most, 0)];
  }
  const step = niceStep(most - least);
  const [first, last] = [Math.floor(least / step), Math.ceil(most / step)];
  return { ticks: Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step), step };
}

const fixed = (value: number): string => String(Math.round(value * 100) / 100);

/** The beginning of a long label. */
function shortLabel(label: string): string {
  const characters = [...label];
  return characters.length > LONGEST_LABEL ? `${characters.slice(0, LONGEST_LABEL - 1).join('')}…` : label;
}

interface Point {
  readonly x: number;
  readonly y: number;
  readonly label: string;
  readonly value: number;
}

const withUnit = (text: string, unit: string | undefined): string => (unit ? `${text} ${unit}` : text);

/** The tooltip of a bar or a point. */
const tooltip = ({ label, value }: Point, unit: string | undefined): Html =>
  html`<title>${label}: ${withUnit(formatNumber(value), unit)}</title>`;

function bars(points: readonly Point[], zero: number, slot: number, unit: string | undefined): Content {
  const width = Math.max(slot * 0.7, 1);
  return points.map((point) => {
    const { x, y, value } = point;
    // At least one unit high, so that every value but zero is visible.
    const height = value === 0 ? 0 : Math.max(Math.abs(zero - y), 1);
    const top = value < 0 ? zero : zero - height;
    const box = { x: fixed(x - width / 2), y: fixed(top), width: fixed(width), height: fixed(height) };
    return html`<rect class="bar" ${attributes(box)}>${tooltip(point, unit)}</rect>`;
  });
}

function line(points: readonly Point[], unit: string | undefined): Content {
  const coordinates = points.map(({ x, y }) => `${fixed(x)},${fixed(y)}`).join(' ');
  const radius = points.length > 40 ? 1.5 : 3;
  return html`<polyline class="line" fill="none" stroke="currentColor" points="${coordinates}" />
    ${points.map(
      (point) =>
        html`<circle class="point" ${attributes({ cx: fixed(point.x), cy: fixed(point.y), r: radius })}>
          ${tooltip(point, unit)}
        </circle>`,
    )}`;
}

/** The labels below the chart: every nth one, so that they fit, starting with the first. */
function labels(points: readonly Point[], left: number): Content {
  const shown = points.map(({ label }) => shortLabel(label));
  const widest = Math.max(...shown.map((label) => [...label].length)) * CHARACTER + 10;
  const every = Math.max(1, Math.ceil((points.length * widest) / (WIDTH - left - RIGHT)));
  return points.map(({ x, label }, index) => {
    if (index % every > 0) return null;
    const text = shown[index] ?? '';
    const half = ([...text].length * CHARACTER) / 2;
    // Keeps a label at the edge inside the chart.
    const middle = Math.min(Math.max(x, half), WIDTH - half);
    return html`<text
      class="label"
      font-size="${FONT}"
      text-anchor="middle"
      ${attributes({ x: fixed(middle), y: HEIGHT - 8 })}
      >${text}${text !== label && html`<title>${label}</title>`}</text
    >`;
  });
}

/** Describes the chart in words, for screen readers. */
function description({ series, unit, kind }: PanelSeries): string {
  const [first, ...rest] = series;
  if (!first) return '';
  const lowest = rest.reduce((one, other) => (other.value < one.value ? other : one), first);
  const highest = rest.reduce((one, other) => (other.value > one.value ? other : one), first);
  const pointText = (point: typeof first): string =>
    `${point.label}, ${withUnit(formatNumber(point.value), unit)}`;
  const isLine = kind === 'line';
  const count = series.length;
  if (lowest.value === highest.value) {
    const value = withUnit(formatNumber(lowest.value), unit);
    return t(isLine ? 'lineChartOfSame' : 'barChartOfSame', { count, value });
  }
  const ends = { lowest: pointText(lowest), highest: pointText(highest) };
  return t(isLine ? 'lineChart' : 'barChart', { count, ...ends });
}

function drawing(content: PanelSeries, title: string, id: string): Html {
  const { series, unit, kind } = content;
  const values = series.map(({ value }) => bounded(value));
  const { ticks, step } = ticksOf(values, kind !== 'line');
  const [least = 0, most = 1] = [ticks[0], ticks.at(-1)];
  const greatest = Math.max(Math.abs(least), Math.abs(most));
  const texts = ticks.map((tick) => tickText(tick, step, greatest));
  const left = Math.max(...texts.map(({ length }) => length)) * CHARACTER + 10;
  const heightOf = (value: number): number =>
    TOP + ((most - value) / (most - least)) * (HEIGHT - TOP - BOTTOM);
  const slot = (WIDTH - left - RIGHT) / series.length;
  const points = series.map(({ label, value }, index) => ({
    label,
    value,
    x: left + slot * (index + 0.5),
    y: heightOf(values[index] ?? 0),
  }));
  const base = heightOf(Math.min(Math.max(0, least), most));
  const across = { x1: fixed(left), x2: WIDTH - RIGHT };
  return html`<svg
    class="chart"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
    role="img"
    aria-labelledby="${id}-name ${id}-description"
    fill="currentColor"
  >
    <title id="${id}-name">${title}</title>
    <desc id="${id}-description">${description(content)}</desc>
    ${unit && html`<text class="label" x="0" y="${FONT}" font-size="${FONT}">${unit}</text>`}
    ${ticks.map((tick, index) => {
      const y = heightOf(tick);
      return html`<line
          class="grid"
          stroke="currentColor"
          stroke-opacity="0.2"
          ${attributes({ ...across, y1: fixed(y), y2: fixed(y) })}
        />
        <text
          class="label"
          font-size="${FONT}"
          text-anchor="end"
          x="${fixed(left - 6)}"
          y="${fixed(y + FONT / 3)}"
          >${texts[index]}</text
        >`;
    })}
    ${kind === 'line' ? line(points, unit) : bars(points, base, slot, unit)}
    <line class="axis" stroke="currentColor" ${attributes({ ...across, y1: fixed(base), y2: fixed(base) })} />
    ${labels(points, left)}
  </svg>`;
}

/** The values as a table. */
const dataTable = ({ series, unit }: PanelSeries, title: string): Html =>
  html`<details>
    <summary>${t('showData')}<span class="hidden"> ${t('dataOf', { title })}</span></summary>
    ${table(
      [t('label'), unit ? t('valueIn', { unit }) : t('value')],
      series.map(({ label, value }) => [label, formatNumber(value)]),
      { numeric: [false, true] },
    )}
  </details>`;

/**
 * A chart that needs no script, with a table of its values.
 * @param id the prefix of its element ids; unique on the page
 */
export function chart(content: PanelSeries, title: string, id: string): Html {
  if (content.series.length === 0) return html`<p class="empty">${t('noDataYet')}</p>`;
  return html`${drawing(content, title, id)}${dataTable(content, title)}`;
}
