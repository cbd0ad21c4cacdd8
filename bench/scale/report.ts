// The tables and plots of `npm run bench:scale`.
import { cpus, totalmem, type } from 'node:os';
import { markdown, whole } from '../tables.ts';
import type { Axis, Findings, Line, Plot, Point } from './axis.ts';
import { plotSvg } from './plot.ts';

export interface Result {
  readonly axis: Axis;
  readonly findings?: Findings;
  /** Why there are no findings. */
  readonly fault?: string;
}

export interface Run {
  readonly rounds: number;
  readonly seconds: number;
  readonly minutes: number;
  readonly postgres: string;
  /** Processes that wanted to run just before. */
  readonly loadBefore: number;
}

/** The cost of each kind of request at each place of an axis. */
export function costTable(unit: string, points: readonly Point[]): string {
  const requests = [...new Set(points.map(({ request }) => request))];
  const body = requests.flatMap((request) =>
    points
      .filter((point) => point.request === request)
      .map(({ x, rate, p50, p99, cpu, databaseCpu }) => [
        request,
        whole(x),
        whole(rate),
        p50.toFixed(2),
        p99.toFixed(2),
        whole(cpu),
        whole(databaseCpu),
      ]),
  );
  const head = ['request', unit, 'requests/s', 'p50 ms', 'p99 ms', 'server µs', 'PostgreSQL µs'];
  return markdown(head, body, 1);
}

const COSTS = [
  { key: 'p50', name: 'latency', title: 'Median latency, ms' },
  { key: 'cpu', name: 'server', title: 'Processor time of the service per request, µs' },
  { key: 'databaseCpu', name: 'postgresql', title: 'Processor time of PostgreSQL per request, µs' },
] as const;

/** The plots of the costs of requests, and those that the axis adds. */
export function plotsOf(unit: string, { points, plots = [] }: Findings): readonly Plot[] {
  const requests = [...new Set(points.map(({ request }) => request))];
  const lines = (key: (typeof COSTS)[number]['key']): Line[] =>
    requests.map((request) => ({
      name: request,
      points: points.filter((point) => point.request === request).map((point) => [point.x, point[key]]),
    }));
  return [
    ...COSTS.map(({ key, name, title }) => ({ name, title, xLabel: unit, lines: lines(key) })),
    ...plots,
  ];
}

/** The plots of an axis as files: the name, and the SVG. */
export const filesOf = ({ axis, findings }: Result): (readonly [name: string, svg: string])[] =>
  (findings ? plotsOf(axis.unit, findings) : []).flatMap((plot) => {
    const svg = plotSvg(plot);
    return svg ? [[`scale-${axis.name}-${plot.name}.svg`, svg] as const] : [];
  });

/** The section of one axis. */
export function section(result: Result): string {
  const { axis, findings, fault } = result;
  const { points = [], facts, notes = [] } = findings ?? {};
  const images = filesOf(result).map(([name]) => `![${name}](images/${name})`);
  return [
    `## ${axis.title}`,
    axis.text,
    ...(fault ? [`Not measured: ${fault}.`] : []),
    ...notes,
    ...(images.length > 0 ? [images.join('\n')] : []),
    ...(points.length > 0 ? [costTable(axis.unit, points)] : []),
    ...(facts && facts.body.length > 0 ? [markdown(facts.head, facts.body, axis.name === 'exports' ? 2 : 0)] : []), // prettier-ignore
  ].join('\n\n');
}

/** The whole page. */
export function report(results: readonly Result[], run: Run): string {
  const processors = cpus();
  return `# Scale

How the cost of a request grows with rows, models, columns, connections and workers, on logarithmic axes: a flat line is a cost that does not
grow, and a straight line that rises by one decade over each decade is a cost in proportion.

Each rate, latency and processor time is the median of ${run.rounds} rounds of ${run.seconds} s after a warm-up; times of starts, memory and exports are single readings,
but for the median of 3 starts with many models. "server µs" and "PostgreSQL µs" are the processor time of one request, of the service and of
its PostgreSQL sessions; other work on the machine disturbs them less than the rates and latencies.

${results.map(section).join('\n\n')}

## The machine

- ${processors[0]?.model.trim()}, ${processors.length} cores, ${(totalmem() / 2 ** 30).toFixed(0)} GB of memory, ${type()}. The load generator, the service and PostgreSQL share it.
- load average before the run: ${run.loadBefore.toFixed(1)} (a machine with other work to do gives noisy numbers)
- Node ${process.versions.node}, PostgreSQL ${run.postgres}

## How to run it

\`npm run bench:scale\` took ${Math.ceil(run.minutes)} minutes, and writes this page and its images. It needs about 5 GB of disk space. \`npm run bench:scale -- --short\` tries small
sizes, and \`npm run bench:scale -- rows models\` measures some axes; both only print the tables. \`BENCH_ROUNDS\` (here ${run.rounds}) and
\`BENCH_SECONDS\` (here ${run.seconds}) set how long it measures. \`BENCH_DATABASE_URL\` names a server to make and drop databases on; without it an embedded PostgreSQL is used. PostgreSQL µs need a server on this machine.
`;
}
