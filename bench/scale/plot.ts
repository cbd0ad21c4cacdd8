// Log-log plots as SVG, readable on light and on dark pages.
import type { Plot } from './axis.ts';

const WIDTH = 600;
const HEIGHT = 320;
/** The right margin has the names of the lines. */
const MARGIN = { top: 36, right: 210, bottom: 44, left: 56 };
/** Minimum distance of two names. */
const NAME_HEIGHT = 15;
const LIGHT = ['#0969da', '#bc4c00', '#1a7f37', '#8250df', '#bf3989', '#57606a'];
const DARK = ['#58a6ff', '#f0883e', '#3fb950', '#bc8cff', '#f778ba', '#8b949e'];

type Scale = (value: number) => number;

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

const colors = (all: readonly string[]): string =>
  all.map((color, n) => `.l${n}{stroke:${color}}.f${n}{fill:${color}}`).join('');

const STYLE = `<style>text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:13px}.grid{stroke:#d1d9e0}path{fill:none;stroke-width:2}${colors(LIGHT)}@media (prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}${colors(DARK)}}</style>`;

/** 1, 2 or 5 times a power of ten, from the last one up to `low` to the first one from `high`. */
export function ticksOf(low: number, high: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const digit of [1, 2, 5]) ticks.push(Number(`${digit}e${power}`));
  const first = ticks.findLastIndex((tick) => tick <= low);
  const last = ticks.findIndex((tick) => tick >= high);
  const used = ticks.slice(first, Math.max(last, first + 1) + 1);
  // Over many powers of ten, only these fit.
  return used.length > 9 ? used.filter((tick, n) => isPower(tick) || n === 0 || n === used.length - 1) : used;
}

const isPower = (tick: number): boolean => Math.log10(tick) % 1 === 0;

const logScale = (from: number, to: number, start: number, end: number): Scale => {
  const [low, high] = [Math.log10(from), Math.log10(to)];
  return (value) =>
    low === high ? (start + end) / 2 : start + ((Math.log10(value) - low) / (high - low)) * (end - start);
};

const label = (tick: number): string => tick.toLocaleString('en', { notation: 'compact' });

/** Moves positions down until each has its distance from the one above. */
export function spread(positions: readonly number[], distance: number): number[] {
  const order = positions.map((_, index) => index).sort((one, other) => (positions[one] ?? 0) - (positions[other] ?? 0)); // prettier-ignore
  const moved = [...positions];
  let above = -Infinity;
  for (const index of order) {
    above = Math.max(positions[index] ?? 0, above + distance);
    moved[index] = above;
  }
  return moved;
}

/** An SVG of some lines over logarithmic axes; undefined if no point can be shown. Points that are not positive are left out. */
export function plotSvg({ title, xLabel, lines }: Plot): string | undefined {
  const shown = lines
    .map(({ name, points }) => ({ name, points: points.filter(([x, y]) => x > 0 && y > 0) }))
    .filter(({ points }) => points.length > 0);
  const all = shown.flatMap(({ points }) => points);
  if (all.length === 0) return undefined;
  const xs = [...new Set(all.map(([x]) => x))].sort((one, other) => one - other);
  const ys = all.map(([, y]) => y);
  const yTicks = ticksOf(Math.min(...ys), Math.max(...ys));
  const right = WIDTH - MARGIN.right;
  const bottom = HEIGHT - MARGIN.bottom;
  const x = logScale(xs[0] ?? 1, xs.at(-1) ?? 1, MARGIN.left, right);
  const y = logScale(yTicks[0] ?? 1, yTicks.at(-1) ?? 1, bottom, MARGIN.top);
  const at = (number: number): string => number.toFixed(1);
  const grid = [
    ...yTicks.map(
      (tick) =>
        `<line class="grid" x1="${MARGIN.left}" x2="${right}" y1="${at(y(tick))}" y2="${at(y(tick))}"/><text x="${MARGIN.left - 8}" y="${at(y(tick) + 4)}" text-anchor="end">${label(tick)}</text>`,
    ),
    ...xs.map(
      (tick) =>
        `<line class="grid" x1="${at(x(tick))}" x2="${at(x(tick))}" y1="${MARGIN.top}" y2="${bottom}"/><text x="${at(x(tick))}" y="${bottom + 18}" text-anchor="middle">${label(tick)}</text>`,
    ),
  ];
  const names = spread(
    shown.map(({ points }) => y(points.at(-1)?.[1] ?? 1)),
    NAME_HEIGHT,
  );
  const drawn = shown.flatMap(({ name, points }, n) => {
    const color = n % LIGHT.length;
    const places = points.map(([px, py]) => [at(x(px)), at(y(py))] as const);
    return [
      `<path class="l${color}" d="M${places.map((place) => place.join(' ')).join('L')}"/>`,
      ...places.map(([cx, cy]) => `<circle class="f${color}" cx="${cx}" cy="${cy}" r="3"/>`),
      `<text class="f${color}" x="${right + 10}" y="${at((names[n] ?? 0) + 4)}">${escape(name)}</text>`,
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escape(title)}">`,
    STYLE,
    `<text class="title" x="${MARGIN.left}" y="18">${escape(title)}</text>`,
    ...grid,
    `<text x="${(MARGIN.left + right) / 2}" y="${HEIGHT - 8}" text-anchor="middle">${escape(xLabel)}</text>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n');
}
