import type { PanelSeries } from '../../resources/definition/panel.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';

/** The drawing's own units: about the pixels of a panel in a narrow column, so that its texts stay readable there. */
const WIDTH = 340;
const HEIGHT = 200;
const TOP = 24;
const BOTTOM = 28;
const RIGHT = 10;
const FONT = 12;
/** How wide a character of a label is at most, nearly always. */
const CHARACTER = 6.8;
/** Characters of a label below the drawing; the whole of it is in its title. */
const LONGEST_LABEL = 12;
/** How many steps the axis of the values has, about. */
const STEPS = 4;
/** What lies beyond is drawn as if it were this: arithmetic ends there, and so does what a drawing can tell. */
const GREATEST = 1e100;
const LEAST = 1e-100;

const PLAIN = new Intl.NumberFormat('en', { maximumFractionDigits: 6 });
const SCIENTIFIC = new Intl.NumberFormat('en', { notation: 'scientific', maximumSignificantDigits: 7 });

const isExtreme = (value: number): boolean =>
  value !== 0 && (Math.abs(value) >= 1e15 || Math.abs(value) < 1e-6);

/** `1,234.5`; numbers too large or too small to be read like this in powers of ten. */
export const formatNumber = (value: number): string => (isExtreme(value) ? SCIENTIFIC : PLAIN).format(value + 0);

/** A number of the axis, short, and with as many digits as tell it from its neighbours. */
function tickText(value: number, step: number, greatest: number): string {
  if (value === 0) return '0';
  const digits = Math.floor(Math.log10(greatest)) - Math.floor(Math.log10(step)) + 1;
  const maximumSignificantDigits = Math.min(Math.max(digits, 1), 15);
  const notation = isExtreme(value) || isExtreme(step) ? 'scientific' : 'compact';
  return new Intl.NumberFormat('en', { notation, maximumSignificantDigits }).format(value);
}

const bounded = (value: number): number =>
  Math.abs(value) < LEAST ? 0 : Math.min(Math.max(value, -GREATEST), GREATEST);

/** 1, 2 or 5 times a power of ten, so that about STEPS of them make the span. */
function niceStep(span: number): number {
  const power = 10 ** Math.floor(Math.log10(span / STEPS));
  const factor = [1, 2, 5].find((one) => one * power * STEPS >= span * 0.8) ?? 10;
  return factor * power;
}

/** The numbers at the axis of the values: the first and the last one are its ends, and all values lie between them. */
function ticksOf(values: readonly number[], startsAtZero: boolean): { ticks: number[]; step: number } {
  let least = Math.min(...values, ...(startsAtZero ? [0] : []));
  let most = Math.max(...values, ...(startsAtZero ? [0] : []));
  // Values that hardly differ are drawn as equal ones, seen from zero.
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

interface Place {
  readonly x: number;
  readonly y: number;
  readonly label: string;
  readonly value: number;
}

const withUnit = (text: string, unit: string | undefined): string => (unit ? `${text} ${unit}` : text);

/** What a pointer that rests on a bar or a point is told. */
const hint = ({ label, value }: Place, unit: string | undefined): Html =>
  html`<title>${label}: ${withUnit(formatNumber(value), unit)}</title>`;

function bars(places: readonly Place[], zero: number, slot: number, unit: string | undefined): Content {
  const width = Math.max(slot * 0.7, 1);
  return places.map((place) => {
    const { x, y, value } = place;
    // What is not zero can be seen, however small it is.
    const height = value === 0 ? 0 : Math.max(Math.abs(zero - y), 1);
    const top = value < 0 ? zero : zero - height;
    const box = { x: fixed(x - width / 2), y: fixed(top), width: fixed(width), height: fixed(height) };
    return html`<rect class="bar" ${attributes(box)}>${hint(place, unit)}</rect>`;
  });
}

function line(places: readonly Place[], unit: string | undefined): Content {
  const points = places.map(({ x, y }) => `${fixed(x)},${fixed(y)}`).join(' ');
  const radius = places.length > 40 ? 1.5 : 3;
  return html`<polyline class="line" fill="none" stroke="currentColor" points="${points}" /> ${places.map(
      (place) =>
        html`<circle class="point" ${attributes({ cx: fixed(place.x), cy: fixed(place.y), r: radius })}>
          ${hint(place, unit)}
        </circle>`,
    )}`;
}

/** The labels below the drawing: as many as have room, always the first one. */
function labels(places: readonly Place[], left: number): Content {
  const shown = places.map(({ label }) => shortLabel(label));
  const widest = Math.max(...shown.map((label) => [...label].length)) * CHARACTER + 10;
  const every = Math.max(1, Math.ceil((places.length * widest) / (WIDTH - left - RIGHT)));
  return places.map(({ x, label }, index) => {
    if (index % every > 0) return null;
    const text = shown[index] ?? '';
    const half = ([...text].length * CHARACTER) / 2;
    // A label at the edge stays inside of the drawing.
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

/** In words what the drawing shows. */
function description({ series, unit, kind }: PanelSeries): string {
  const [first, ...rest] = series;
  if (!first) return '';
  const low = rest.reduce((one, other) => (other.value < one.value ? other : one), first);
  const high = rest.reduce((one, other) => (other.value > one.value ? other : one), first);
  const told = (one: typeof first): string => `${one.label}, ${withUnit(formatNumber(one.value), unit)}`;
  const what = kind === 'line' ? 'Line chart' : 'Bar chart';
  const points = series.length === 1 ? '1 value' : `${series.length} values`;
  return low.value === high.value
    ? `${what} of ${points}, all of them ${withUnit(formatNumber(low.value), unit)}.`
    : `${what} of ${points}. The least: ${told(low)}. The greatest: ${told(high)}.`;
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
  const places = series.map(({ label, value }, index) => ({
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
    ${kind === 'line' ? line(places, unit) : bars(places, base, slot, unit)}
    <line class="axis" stroke="currentColor" ${attributes({ ...across, y1: fixed(base), y2: fixed(base) })} />
    ${labels(places, left)}
  </svg>`;
}

/** The same numbers to be read one by one. */
const numbers = ({ series, unit }: PanelSeries, title: string): Html =>
  html`<details>
    <summary>The numbers<span class="hidden"> of ${title}</span></summary>
    <table class="records">
      <thead>
        <tr>
          <th scope="col">Label</th>
          <th scope="col" class="number">${unit ? `Value (${unit})` : 'Value'}</th>
        </tr>
      </thead>
      <tbody>
        ${series.map(
          ({ label, value }) =>
            html`<tr>
              <th scope="row" data-label="Label">${label}</th>
              <td class="number" data-label="Value">${formatNumber(value)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </details>`;

/**
 * A series as a drawing that needs no script, with its numbers as a table below.
 * @param id begins the ids of its elements, so no other chart of the page may have it
 */
export function chart(content: PanelSeries, title: string, id: string): Html {
  if (content.series.length === 0) return html`<p class="empty">There are no values yet.</p>`;
  return html`${drawing(content, title, id)}${numbers(content, title)}`;
}
