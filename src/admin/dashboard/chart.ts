// Draws a series of numbers as an SVG bar chart or line chart.
import type { PanelSeries } from '../../resources/definition/panel.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { shortened } from '../web/display-text.ts';
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
/** Characters of a label below the chart, before its `…`. Its title has the full text. */
const LONGEST_LABEL = 11;
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

const bounded = (value: number): number =>
  Math.abs(value) < LEAST ? 0 : Math.min(Math.max(value, -GREATEST), GREATEST);

/** A step of 1, 2 or 5 times a power of ten, so that about `STEPS` of them cover the span. */
function niceStep(span: number): number {
  const power = 10 ** Math.floor(Math.log10(span / STEPS));
  const factor = [1, 2, 5].find((one) => one * power * STEPS >= span * 0.8) ?? 10;
  return factor * power;
}

/** The ticks of the value axis, with enough digits to differ. All values lie between the first and the last one. */
function ticksOf(values: readonly number[]): readonly { readonly value: number; readonly text: string }[] {
  let [least, most] = [Math.min(...values), Math.max(...values)];
  // Nearly equal values are drawn relative to zero.
  if (most - least <= Math.max(Math.abs(most), Math.abs(least)) * 1e-9)
    [least, most] = most === 0 ? [0, 1] : [Math.min(least, 0), Math.max(most, 0)];
  const step = niceStep(most - least);
  const [first, last] = [Math.floor(least / step), Math.ceil(most / step)];
  const digits = Math.floor(Math.log10(Math.max(-first, last) * step)) - Math.floor(Math.log10(step)) + 1;
  const maximumSignificantDigits = Math.min(Math.max(digits, 1), 15);
  return Array.from({ length: last - first + 1 }, (_, index) => {
    const value = (first + index) * step + 0;
    const notation = value !== 0 && (isExtreme(value) || isExtreme(step)) ? 'scientific' : 'compact';
    const format = new Intl.NumberFormat(language().tag, { notation, maximumSignificantDigits });
    return { value, text: format.format(value) };
  });
}

const fixed = (value: number): string => String(Math.round(value * 100) / 100);

/** A point of the series where it is drawn. */
interface Point {
  readonly x: number;
  readonly y: number;
  readonly label: string;
  readonly value: number;
}

const valueText = (value: number, unit: string | undefined): string =>
  unit ? `${formatNumber(value)} ${unit}` : formatNumber(value);

/** The tooltip of a bar or a point. */
const tooltip = ({ label, value }: Point, unit: string | undefined): Html =>
  html`<title>${t('labeled', { label, value: valueText(value, unit) })}</title>`;

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
  const r = points.length > 40 ? 1.5 : 3;
  const dots = points.map((point) => {
    const center = attributes({ cx: fixed(point.x), cy: fixed(point.y), r });
    return html`<circle class="point" ${center}>${tooltip(point, unit)}</circle>`;
  });
  return html`<polyline class="line" fill="none" stroke="currentColor" points="${coordinates}" />${dots}`;
}

/** The labels below the chart: every nth one, so that they fit, starting with the first. */
function labels(points: readonly Point[], left: number): Content {
  const shown = points.map(({ label }) => shortened(label, LONGEST_LABEL));
  const widths = shown.map((text) => [...text].length * CHARACTER);
  const every = Math.ceil((points.length * (Math.max(...widths) + 10)) / (WIDTH - left - RIGHT));
  return points.map(({ x, label }, index) => {
    if (index % every > 0) return null;
    const [text, width = 0] = [shown[index], widths[index]];
    // Keeps a label at the edge inside the chart.
    const middle = Math.min(Math.max(x, width / 2), WIDTH - width / 2);
    const place = attributes({ 'text-anchor': 'middle', x: fixed(middle), y: HEIGHT - 8 });
    return html`<text class="label" ${place}
      >${text}${text !== label && html`<title>${label}</title>`}</text
    >`;
  });
}

/** Describes the chart in words, for screen readers. */
function description({ series, unit, kind }: PanelSeries): string {
  const sorted = series.toSorted((one, other) => one.value - other.value);
  const [lowest, highest] = [sorted[0], sorted.at(-1)];
  if (!lowest || !highest) return '';
  const isLine = kind === 'line';
  const count = series.length;
  const textOf = ({ label, value }: typeof lowest): string => `${label}, ${valueText(value, unit)}`;
  return lowest.value === highest.value
    ? t(isLine ? 'lineChartOfSame' : 'barChartOfSame', { count, value: valueText(lowest.value, unit) })
    : t(isLine ? 'lineChart' : 'barChart', { count, lowest: textOf(lowest), highest: textOf(highest) });
}

function drawing(content: PanelSeries, title: string, id: string): Html {
  const { series, unit, kind } = content;
  const isLine = kind === 'line';
  const values = series.map(({ value }) => bounded(value));
  const ticks = ticksOf(isLine ? values : [0, ...values]);
  const [least = 0, most = 1] = [ticks[0]?.value, ticks.at(-1)?.value];
  const left = Math.max(...ticks.map(({ text }) => text.length)) * CHARACTER + 10;
  const heightOf = (value: number): number =>
    TOP + ((most - value) / (most - least)) * (HEIGHT - TOP - BOTTOM);
  const slot = (WIDTH - left - RIGHT) / series.length;
  const points = series.map(({ label, value }, index): Point => {
    return { label, value, x: left + slot * (index + 0.5), y: heightOf(values[index] ?? 0) };
  });
  const base = heightOf(Math.min(Math.max(0, least), most));
  const across = (className: string, y: number, opacity: number): Html =>
    html`<line${attributes({ class: className, x1: fixed(left), x2: WIDTH - RIGHT, y1: fixed(y), y2: fixed(y), stroke: 'currentColor', 'stroke-opacity': opacity })} />`;
  const tick = ({ value, text }: (typeof ticks)[number]): Html => {
    const y = heightOf(value);
    const place = attributes({ 'text-anchor': 'end', x: fixed(left - 6), y: fixed(y + FONT / 3) });
    return html`${across('grid', y, 0.2)}<text class="label" ${place}>${text}</text>`;
  };
  return html`<svg
    class="chart"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
    role="img"
    aria-labelledby="${id}-name ${id}-description"
    fill="currentColor"
    font-size="${FONT}"
  >
    <title id="${id}-name">${title}</title>
    <desc id="${id}-description">${description(content)}</desc>
    ${unit && html`<text class="label" x="0" y="${FONT}">${unit}</text>`} ${ticks.map(tick)}
    ${isLine ? line(points, unit) : bars(points, base, slot, unit)} ${across('axis', base, 1)}
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
export const chart = (content: PanelSeries, title: string, id: string): Html =>
  content.series.length === 0
    ? html`<p class="empty">${t('noDataYet')}</p>`
    : html`${drawing(content, title, id)}${dataTable(content, title)}`;
