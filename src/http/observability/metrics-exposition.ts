// Writes metrics in the text format of Prometheus, version 0.0.4.
import type { Histogram } from '../../db/histogram.ts';

export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export type Labels = Readonly<Record<string, string>>;
export type Sample = readonly [labels: Labels, value: number];
export type Metric = readonly [
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  samples: Iterable<Sample> | number,
];

const labelValue = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

function labelSet(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${labelValue(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

/** Builds a document, one metric at a time. */
export class MetricsText {
  #text = '';

  get text(): string {
    return this.#text;
  }

  /** Adds metrics that have one value for each set of labels. A number is a value without labels. */
  add(...metrics: readonly Metric[]): void {
    for (const [type, name, help, samples] of metrics) {
      this.#family(name, type, help);
      this.#samples(name, typeof samples === 'number' ? [[{}, samples]] : samples);
    }
  }

  histogram(name: string, help: string, histograms: Iterable<readonly [Labels, Histogram]>): void {
    this.#family(name, 'histogram', help);
    for (const [labels, { ends, counts, sum }] of histograms) {
      let total = 0;
      for (const [bucket, count] of counts.entries()) {
        total += count;
        const le = bucket < ends.length ? String(ends[bucket]) : '+Inf';
        this.#samples(`${name}_bucket`, [[{ ...labels, le }, total]]);
      }
      this.#samples(`${name}_sum`, [[labels, sum]]);
      this.#samples(`${name}_count`, [[labels, total]]);
    }
  }

  summary(
    name: string,
    help: string,
    { quantiles, sum, count }: { quantiles: readonly Sample[]; sum: number; count: number },
  ): void {
    this.#family(name, 'summary', help);
    this.#samples(name, quantiles);
    this.#samples(`${name}_sum`, [[{}, sum]]);
    this.#samples(`${name}_count`, [[{}, count]]);
  }

  #family(name: string, type: string, help: string): void {
    this.#text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
  }

  #samples(name: string, samples: Iterable<Sample>): void {
    for (const [labels, value] of samples) this.#text += `${name}${labelSet(labels)} ${value}\n`;
  }
}
