// A strict reader of Prometheus's text form 0.0.4: what it takes, any scraper takes.
import assert from 'node:assert/strict';

export interface Family {
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary';
  readonly help: string;
  /** Values by name and labels as they are written. */
  readonly samples: Map<string, number>;
  /** The names of the labels, those of buckets and quantiles left out. */
  readonly labels: Set<string>;
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf)|NaN)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/gy;
const SUFFIXES = {
  counter: [''],
  gauge: [''],
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count'],
};

function labelsOf(text: string): [name: string, value: string][] {
  if (text === '') return [];
  const found = [...text.matchAll(LABEL)];
  assert.equal(found.map(([whole]) => whole).join(''), text, `labels: ${text}`);
  return found.map(([, name = '', value = '']) => [name, value]);
}

/** Each series has rising buckets up to `+Inf`, whose count is the series' own. */
function checkHistogram(name: string, { samples }: Family): void {
  const series = new Map<string, [end: number, count: number][]>();
  for (const [key, count] of samples) {
    const [, inside, end = ''] = /_bucket\{(.*?),?le="([^"]*)"\}$/.exec(key) ?? [];
    if (inside === undefined) continue;
    const buckets = series.get(inside) ?? [];
    series.set(inside, buckets);
    const before = buckets.at(-1) ?? [-Infinity, 0];
    const upper = end === '+Inf' ? Infinity : Number(end);
    assert.ok(upper > before[0] && count >= before[1], key);
    buckets.push([upper, count]);
  }
  for (const [inside, buckets] of series) {
    const labels = inside === '' ? '' : `{${inside}}`;
    assert.deepEqual(buckets.at(-1), [Infinity, samples.get(`${name}_count${labels}`)], inside);
    assert.ok(samples.has(`${name}_sum${labels}`), inside);
  }
}

/** Reads a document, and holds it to the form and to Prometheus's conventions for names. */
export function readExposition(text: string): Map<string, Family> {
  assert.ok(text.endsWith('\n'), 'the last line is ended, too');
  const families = new Map<string, Family>();
  const lines = text.slice(0, -1).split('\n');
  let name = '';
  for (let at = 0; at < lines.length;) {
    const [, found = '', help = ''] = /^# HELP (\S+) (\S.*)$/.exec(lines[at] ?? '') ?? [];
    assert.ok(found, `a HELP line: ${lines[at]}`);
    const [, typed, type] =
      /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(lines[at + 1] ?? '') ?? [];
    assert.equal(typed, found, `a TYPE line for it: ${lines[at + 1]}`);
    assert.ok(!families.has(found), `${found} is there once`);
    name = found;
    const family: Family = { type: type as Family['type'], help, samples: new Map(), labels: new Set() };
    families.set(name, family);
    for (at += 2; at < lines.length && !lines[at]?.startsWith('#'); at += 1) {
      const line = lines[at] ?? '';
      const [, sample = '', inside = '', value = ''] = SAMPLE.exec(line) ?? [];
      assert.ok(sample, `a sample: ${line}`);
      assert.ok(
        SUFFIXES[family.type].some((suffix) => sample === name + suffix),
        `${line} below ${name}`,
      );
      for (const [label] of labelsOf(inside))
        if (label !== 'le' && label !== 'quantile') family.labels.add(label);
      const key = inside === '' ? sample : `${sample}{${inside}}`;
      assert.ok(!family.samples.has(key), `${key} is there once`);
      family.samples.set(key, Number(value.replace('Inf', 'Infinity')));
    }
    if (family.type === 'histogram') checkHistogram(name, family);
    assert.equal(name.endsWith('_total'), family.type === 'counter', `${name} is a ${family.type}`);
    assert.match(name, /^(?:vitrine|process|nodejs)_[a-z_]+$/);
    assert.doesNotMatch(name, /_(?:ms|milliseconds|kb|mb|percent)(?:_|$)/, 'base units');
  }
  return families;
}

/** All that may only grow: counters, and what histograms and summaries have counted. */
export function growing(families: ReadonlyMap<string, Family>): Map<string, number> {
  const found = new Map<string, number>();
  for (const { type, samples } of families.values()) {
    for (const [key, value] of samples) {
      if (type === 'gauge' || (type === 'summary' && key.includes('quantile='))) continue;
      found.set(key, value);
    }
  }
  return found;
}

export type Families = ReadonlyMap<string, Family>;

/** The value of one sample; 0 for one that is not there yet. */
export const valueOf = (families: Families, key: string): number =>
  families.get(key.replace(/\{.*/, ''))?.samples.get(key) ?? 0;

/** The key of the count of these responses. */
export const answered = (route: string, method: string, status: number): string =>
  `vitrine_http_requests_total{route="${route}",method="${method}",status="${status}"}`;
