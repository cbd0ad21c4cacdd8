// The metrics of the service.
import { readFileSync } from 'node:fs';
import { Histogram } from '../../db/histogram.ts';
import type { LaneState } from '../../db/lanes/lane.ts';
import type { ReplicaState } from '../../db/replicas/replica.ts';
import { watchEventLoop } from './event-loop-delay.ts';
import { MetricsText, EXPOSITION_TYPE, type Labels, type Metric, type Sample } from './metrics-exposition.ts';
import type { Reply } from '../message/message.ts';
import { increment } from '../../db/counts.ts';
import type { Siblings } from '../../processes.ts';
import type { LoadLimits } from '../load/load-limits.ts';
import { loopTurns } from '../load/loop-turns.ts';
import { methodNotAllowed, patternOf } from '../api/api-routes.ts';
import { unavailable } from '../../errors.ts';
import type { Throttle } from '../auth/login-throttle.ts';
import { messageOf } from '../../messages.ts';
import { unreadableEntries } from '../../query/statements/history-entries.ts';

/** Values that other parts measure. They are read on each request for the metrics. */
interface MetricSources {
  readonly lanes: () => Readonly<Record<string, LaneState & { readonly durations?: Histogram }>>;
  readonly replicas: () => readonly ReplicaState[];
  readonly logins: Throttle['counts'];
  readonly loadLimits: LoadLimits;
  readonly isHistoryBroken: () => boolean;
  /** The other processes of the service, if there are any: then the metrics are those of all processes. */
  readonly siblings?: Siblings | undefined;
}

export const METRICS_METHODS = 'GET, HEAD, OPTIONS';

/** The label `route` of the files of the admin area. */
export const ADMIN_ASSET = '/admin/-/{file}';
/** All other methods share one label: clients could invent any number of them. */
const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** The responses of one route to one method. */
interface RouteCounter {
  readonly labels: Labels;
  readonly byStatus: Map<number, number>;
  readonly durations: Histogram;
}

function readVersion(): string {
  try {
    const file = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
    return (JSON.parse(file) as { version: string }).version;
  } catch {
    return 'unknown'; // a bundle has no package.json
  }
}

const byStatus = (counts: ReadonlyMap<number, number>, labels: Labels): Sample[] =>
  [...counts].map(([status, count]) => [{ ...labels, status: String(status) }, count]);

/** What every process measures about itself. */
export function processMetrics(): Metric[] {
  const { user, system } = process.cpuUsage();
  const { rss, heapTotal, heapUsed, external } = process.memoryUsage();
  const started = Math.round(performance.timeOrigin) / 1000;
  const cpu = (user + system) / 1e6;
  const buffers = 'Memory of buffers and other objects outside the JavaScript heap.';
  return [
    ['counter', 'process_cpu_user_seconds_total', 'User CPU time of the process.', user / 1e6],
    ['counter', 'process_cpu_system_seconds_total', 'System CPU time of the process.', system / 1e6],
    ['counter', 'process_cpu_seconds_total', 'User and system CPU time of the process.', cpu],
    ['gauge', 'process_start_time_seconds', 'Start time of the process, in Unix seconds.', started],
    ['gauge', 'process_resident_memory_bytes', 'Resident memory of the process.', rss],
    ['gauge', 'nodejs_heap_size_total_bytes', 'Allocated JavaScript heap.', heapTotal],
    ['gauge', 'nodejs_heap_size_used_bytes', 'Used JavaScript heap.', heapUsed],
    ['gauge', 'nodejs_external_memory_bytes', buffers, external],
  ];
}

/** @param restarts counted by the process that starts the others */
export const restartMetric = (restarts: number): Metric => [
  'counter',
  'vitrine_process_restarts_total',
  'Processes that replaced one that had ended unexpectedly.',
  restarts,
];

function loadMetrics({ overload, unsent, budget }: LoadLimits): Metric[] {
  const shortages = (['event-loop', 'memory'] as const).map((resource): Sample => [
    { resource },
    overload.shortage() === resource ? 1 : 0,
  ]);
  const [memory, unread] = [overload.memory(), unsent.bytes()];
  const bodies = budget.used - unread;
  return [
    ['gauge', 'vitrine_overload', '1 while requests are refused because this resource is short.', shortages],
    ['gauge', 'vitrine_memory_used_ratio', 'Share of the memory limit that is used.', memory],
    [
      'gauge',
      'vitrine_loop_waiting',
      'Requests and long work that wait for the event loop.',
      loopTurns.waiting,
    ],
    ['gauge', 'vitrine_request_bodies_bytes', 'Memory reserved for bodies and pipelined requests.', bodies],
    ['gauge', 'vitrine_unsent_answers_bytes', 'Response bytes that clients have not received yet.', unread],
  ];
}

/** Metrics by lane: the type, the end of the name, the key of the state, the description. */
const LANE_METRICS = [
  ['gauge', 'running', 'running', 'Statements that PostgreSQL has not answered yet.'],
  ['gauge', 'waiting', 'waiting', 'Statements that wait for a connection.'],
  ['counter', 'refused_total', 'refused', 'Statements refused because too many waited, or for too long.'],
  ['counter', 'moved_total', 'moved', 'Reads that were not short and went on in another lane.'],
] as const;

function writeLanes(
  output: MetricsText,
  lanes: [string, ReturnType<MetricSources['lanes']>[string]][],
): void {
  for (const [type, name, key, help] of LANE_METRICS)
    output.add([type, `vitrine_lane_${name}`, help, lanes.map(([lane, state]) => [{ lane }, state[key]])]);
  output.histogram(
    'vitrine_lane_statement_duration_seconds',
    'Time from sending a statement to its result.',
    lanes.flatMap(([lane, state]) => (state.durations ? [[{ lane }, state.durations] as const] : [])),
  );
}

function replicaMetrics(states: readonly ReplicaState[]): Metric[] {
  const samples = (read: (state: ReplicaState) => number | undefined): Sample[] =>
    states.map((state) => [{ replica: state.name }, read(state) ?? NaN]);
  const [inRotation, bytes] = [
    '1 while the replica answers reads.',
    'Log that the replica has not replayed.',
  ];
  const [seconds, failed] = ["Age of the replica's state.", 'Reads that the primary took over.'];
  return [
    ['gauge', 'vitrine_replica_in_rotation', inRotation, samples((state) => Number(state.isInRotation))],
    ['gauge', 'vitrine_replica_lag_bytes', bytes, samples(({ lagBytes }) => lagBytes)],
    ['gauge', 'vitrine_replica_lag_seconds', seconds, samples(({ lag }) => lag && lag / 1000)],
    ['counter', 'vitrine_replica_reads_total', 'Reads on the replica.', samples(({ reads }) => reads)],
    ['counter', 'vitrine_replica_failed_reads_total', failed, samples(({ failures }) => failures)],
  ];
}

export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Starts counting, and watching the event loop. Call `close` to stop. Counting is cheap: totals and text are computed only on a
 * request for the metrics.
 */
export function createMetrics({
  lanes,
  replicas,
  logins,
  loadLimits,
  isHistoryBroken,
  siblings,
}: MetricSources) {
  const routes = new Map<string, Map<string, RouteCounter>>();
  const unreadable = new Map<number, number>();
  const eventLoop = watchEventLoop();
  const build = { version: readVersion(), node: process.version };
  let inFlight = 0;
  let limited = 0;

  function counterOf(route: string, sentMethod: string): RouteCounter {
    const method = KNOWN_METHODS.has(sentMethod) ? sentMethod : 'other';
    let methods = routes.get(route);
    if (!methods) {
      methods = new Map<string, RouteCounter>();
      routes.set(route, methods);
    }
    let counter = methods.get(method);
    if (!counter) {
      counter = { labels: { route, method }, byStatus: new Map(), durations: new Histogram() };
      methods.set(method, counter);
    }
    return counter;
  }

  function writeRequests(output: MetricsText): void {
    const counters = [...routes.values()].flatMap((methods) => [...methods.values()]);
    const shed = counters
      .filter(({ labels }) => labels['route'] !== patternOf('ready')) // its 503 is a normal result
      .reduce((sum, counter) => sum + (counter.byStatus.get(503) ?? 0), 0);
    const completed = counters.flatMap((counter) => byStatus(counter.byStatus, counter.labels));
    output.add(['counter', 'vitrine_http_requests_total', 'Completed requests.', completed]);
    output.histogram(
      'vitrine_http_request_duration_seconds',
      'Time from the headers of a request until its response is handed to the network.',
      counters.map(({ labels, durations }) => [labels, durations]),
    );
    const [invalid, help] = [byStatus(unreadable, {}), 'Input that was not a valid HTTP request.'];
    output.add(
      ['gauge', 'vitrine_http_requests_in_flight', 'Requests in progress.', inFlight],
      ['counter', 'vitrine_http_requests_shed_total', 'Requests refused with status 503.', shed],
      ['counter', 'vitrine_http_requests_limited_total', 'Requests refused by RATE_LIMIT.', limited],
      ['counter', 'vitrine_http_unreadable_requests_total', help, invalid],
    );
  }

  function write(): string {
    const output = new MetricsText();
    output.add(
      ['gauge', 'vitrine_build_info', 'Version of the service and of Node.js.', [[build, 1]]],
      ['gauge', 'vitrine_processes', 'Processes that serve.', 1],
      restartMetric(0), // declares the counter: the supervisor adds the restarts
    );
    writeRequests(output);
    const { failed, throttled } = logins();
    output.add(
      ['counter', 'vitrine_logins_failed_total', 'Logins with wrong credentials.', failed],
      ['counter', 'vitrine_logins_throttled_total', 'Logins refused after too many failures.', throttled],
    );
    const broken = 'Whether a check of the sealed history has failed since the start.';
    output.add(['gauge', 'vitrine_history_broken', broken, Number(isHistoryBroken())]);
    const unreadableHelp = 'Entries of the history that were read without their values, which are too large.';
    output.add(['counter', 'vitrine_history_unreadable_total', unreadableHelp, unreadableEntries()]);
    writeLanes(output, Object.entries(lanes()));
    output.add(...replicaMetrics(replicas()));
    const { quantiles, sum, count } = eventLoop.read();
    output.summary('vitrine_event_loop_delay_seconds', 'Delay of the event loop.', {
      quantiles: quantiles.map(([quantile, value]) => [{ quantile: String(quantile) }, value]),
      sum,
      count,
    });
    output.add(...loadMetrics(loadLimits), ...processMetrics());
    return output.text;
  }

  siblings?.onQuestion('metrics', write);
  let collecting: Promise<string> | undefined;

  /** @throws Problem 503 if the other processes do not answer */
  async function collect(): Promise<string> {
    if (!siblings) return write();
    const [text] = await siblings.ask('metrics', write());
    if (typeof text === 'string') return text;
    throw unavailable(messageOf('processesSilent'));
  }

  return {
    begin: () => {
      inFlight += 1;
    },
    /** @param route the pattern of the route, since labels must be few */
    end: (route: string, method: string, status: number, seconds: number) => {
      inFlight -= 1;
      const counter = counterOf(route, method);
      increment(counter.byStatus, status);
      counter.durations.observe(seconds);
    },
    /** Counts a request that RATE_LIMIT refused. */
    limited: () => {
      limited += 1;
    },
    /** Counts input that was not a valid HTTP request. */
    unreadable: (status: number): void => increment(unreadable, status),
    /** The metrics of this process. */
    text: write,
    /** The response with all metrics. @throws Problem 405, 503 */
    reply: async (method: string): Promise<Reply> => {
      if (method === 'OPTIONS') return { status: 204, headers: { Allow: METRICS_METHODS }, body: '' };
      if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed(METRICS_METHODS);
      const headers = { 'Content-Type': EXPOSITION_TYPE, 'Cache-Control': 'no-store' };
      const body = await (collecting ??= collect().finally(() => (collecting = undefined)));
      return { status: 200, headers, body };
    },
    close: eventLoop.close,
  };
}
