// The metrics of the service at `/metrics`, and who may read them.
import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { Histogram } from '../../db/histogram.ts';
import { watchEventLoop } from '../load/event-loop-delay.ts';
import { MetricsText, EXPOSITION_TYPE, type Labels, type Sample } from './metrics-exposition.ts';
import type { Reply } from '../message/message.ts';
import type { Pressure } from '../load/pressure.ts';
import { methodNotAllowed, type Route } from '../api/api-routes.ts';
import type { ThrottleCounts } from '../auth/login-throttle.ts';

/** Values that other parts measure. They are read on each request for the metrics. */
export interface MetricSources {
  readonly database: Pick<Database, 'pools' | 'classes'>;
  readonly logins: () => ThrottleCounts;
  readonly pressure: Pressure;
}

/** The metrics of the service. Counting is cheap: totals and text are computed only on a request for the metrics. */
export interface Metrics {
  readonly begin: () => void;
  /** @param route the pattern of the route, since labels must be few */
  readonly end: (route: string, method: string, status: number, seconds: number) => void;
  /** Counts input that was not a valid HTTP request. */
  readonly unreadable: (status: number) => void;
  /** The response with all metrics. @throws Problem 405 */
  readonly reply: (method: string) => Reply;
  readonly close: () => void;
}

/** The path of the metrics, on the service's port and on the separate metrics port. */
export const METRICS_PATH = '/metrics';

/** The label `route` of each kind of route. */
export const ROUTE_PATTERNS: Readonly<Record<Route['kind'], string>> = {
  health: '/healthz',
  ready: '/readyz',
  index: '/api/',
  openapi: '/api/openapi.json',
  collection: '/api/{model}/',
  record: '/api/{model}/{id}/',
  asset: '/api/-/{file}',
};
/** The label `route` of unknown paths, and of pages while the service starts. */
export const OTHER_ROUTE = 'other';
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

const increment = (counts: Map<number, number>, key: number): unknown =>
  counts.set(key, (counts.get(key) ?? 0) + 1);

const byStatus = (counts: ReadonlyMap<number, number>, labels: Labels): Sample[] =>
  [...counts].map(([status, count]) => [{ ...labels, status: String(status) }, count]);

function writeProcess(output: MetricsText): void {
  const { user, system } = process.cpuUsage();
  const { rss, heapTotal, heapUsed, external } = process.memoryUsage();
  const started = Math.round(performance.timeOrigin) / 1000;
  output.counter('process_cpu_user_seconds_total', 'User CPU time of the process.', user / 1e6);
  output.counter('process_cpu_system_seconds_total', 'System CPU time of the process.', system / 1e6);
  output.counter(
    'process_cpu_seconds_total',
    'User and system CPU time of the process.',
    (user + system) / 1e6,
  );
  output.gauge('process_start_time_seconds', 'Start time of the process, in Unix seconds.', started);
  output.gauge('process_resident_memory_bytes', 'Resident memory of the process.', rss);
  output.gauge('nodejs_heap_size_total_bytes', 'Allocated JavaScript heap.', heapTotal);
  output.gauge('nodejs_heap_size_used_bytes', 'Used JavaScript heap.', heapUsed);
  output.gauge(
    'nodejs_external_memory_bytes',
    'Memory of buffers and other objects outside the JavaScript heap.',
    external,
  );
}

function writePressure(output: MetricsText, { overload, unsent, bodies }: Pressure): void {
  const shortage = overload.shortage();
  output.gauge('vitrine_overload', '1 while requests are refused because this resource is short.', [
    [{ resource: 'event-loop' }, shortage === 'event-loop' ? 1 : 0],
    [{ resource: 'memory' }, shortage === 'memory' ? 1 : 0],
  ]);
  output.gauge('vitrine_memory_used_ratio', 'Share of the memory limit that is used.', overload.memory());
  output.gauge('vitrine_request_bodies_bytes', 'Memory reserved for large request bodies.', bodies());
  output.gauge(
    'vitrine_unsent_answers_bytes',
    'Response bytes that clients have not received yet.',
    unsent.bytes(),
  );
}

function writeDatabase(output: MetricsText, database: MetricSources['database']): void {
  const prefix = 'vitrine_database';
  const states = Object.entries(database.pools());
  const byPool = (value: (state: (typeof states)[number][1]) => number): Sample[] =>
    states.map(([pool, state]) => [{ pool }, value(state)]);
  output.gauge(
    `${prefix}_connections_max`,
    'Maximum connections of a pool.',
    byPool(({ connections }) => connections),
  );
  output.gauge(
    `${prefix}_statements_running`,
    'Statements that PostgreSQL has not answered yet.',
    byPool(({ running }) => running),
  );
  output.counter(
    `${prefix}_statements_abandoned_total`,
    'Statements abandoned because no answer came.',
    byPool(({ abandoned }) => abandoned),
  );
  output.counter(
    `${prefix}_statements_canceled_total`,
    'Statements canceled because the client left or they timed out.',
    byPool(({ canceled }) => canceled),
  );
  output.histogram(
    `${prefix}_statement_duration_seconds`,
    'Time from sending a statement to its result.',
    states.map(([pool, { durations }]) => [{ pool }, durations]),
  );
  const classes = Object.entries(database.classes());
  const byClass = (value: (state: (typeof classes)[number][1]) => number): Sample[] =>
    classes.map(([name, state]) => [{ class: name }, value(state)]);
  output.gauge(
    `${prefix}_statements_waiting`,
    'Statements that wait for a connection.',
    byClass(({ waiting }) => waiting),
  );
  output.counter(
    `${prefix}_statements_refused_total`,
    'Statements refused because they would have waited too long.',
    byClass(({ refused }) => refused),
  );
}

/** Starts counting, and watching the event loop. Call `close` to stop. */
export function createMetrics({ database, logins, pressure }: MetricSources): Metrics {
  const routes = new Map<string, Map<string, RouteCounter>>();
  const unreadable = new Map<number, number>();
  const eventLoop = watchEventLoop();
  const build = { version: readVersion(), node: process.version };
  let inFlight = 0;

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
      .filter(({ labels }) => labels['route'] !== ROUTE_PATTERNS.ready) // its 503 is a normal result
      .reduce((sum, counter) => sum + (counter.byStatus.get(503) ?? 0), 0);
    output.counter(
      'vitrine_http_requests_total',
      'Completed requests.',
      counters.flatMap((counter) => byStatus(counter.byStatus, counter.labels)),
    );
    output.histogram(
      'vitrine_http_request_duration_seconds',
      'Time from the headers of a request to the end of its response.',
      counters.map(({ labels, durations }) => [labels, durations]),
    );
    output.gauge('vitrine_http_requests_in_flight', 'Requests in progress.', inFlight);
    output.counter('vitrine_http_requests_shed_total', 'Requests refused with status 503.', shed);
    output.counter(
      'vitrine_http_unreadable_requests_total',
      'Input that was not a valid HTTP request.',
      byStatus(unreadable, {}),
    );
  }

  function write(): string {
    const output = new MetricsText();
    output.gauge('vitrine_build_info', 'Version of the service and of Node.js.', [[build, 1]]);
    writeRequests(output);
    const { failed, throttled } = logins();
    output.counter('vitrine_logins_failed_total', 'Logins with wrong credentials.', failed);
    output.counter('vitrine_logins_throttled_total', 'Logins refused after too many failures.', throttled);
    writeDatabase(output, database);
    const { quantiles, sum, count } = eventLoop.read();
    output.summary('vitrine_event_loop_delay_seconds', 'Delay of the event loop.', {
      quantiles: quantiles.map(([quantile, value]) => [{ quantile: String(quantile) }, value]),
      sum,
      count,
    });
    writePressure(output, pressure);
    writeProcess(output);
    return output.text;
  }

  return {
    begin: () => {
      inFlight += 1;
    },
    end: (route, method, status, seconds) => {
      inFlight -= 1;
      const counter = counterOf(route, method);
      increment(counter.byStatus, status);
      counter.durations.observe(seconds);
    },
    unreadable: (status) => void increment(unreadable, status),
    reply: (method) => {
      const allow = 'GET, HEAD, OPTIONS';
      if (method === 'OPTIONS') return { status: 204, headers: { Allow: allow }, body: '' };
      if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed(allow);
      const headers = { 'Content-Type': EXPOSITION_TYPE, 'Cache-Control': 'no-store' };
      return { status: 200, headers, body: write() };
    },
    close: eventLoop.close,
  };
}

const isLoopback = (address: string): boolean =>
  isIP(address) !== 0 && /^(?:(?:::ffff:)?127\.|::1$)/i.test(address);

/** Headers that proxies add. */
const PROXY_HEADERS = ['x-forwarded-for', 'x-forwarded-proto', 'x-real-ip', 'forwarded', 'via'];

/**
 * Whether a client on this machine made the request. A proxy on this machine also connects from here, so proxy headers rule
 * it out. The `Host` must be local too, against web pages that point their own name here (DNS rebinding).
 */
function isLocal({ headers, socket }: IncomingMessage): boolean {
  const [, inBrackets, name = inBrackets ?? ''] =
    /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(headers.host ?? 'localhost') ?? [];
  return (
    isLoopback(socket.remoteAddress ?? '') &&
    PROXY_HEADERS.every((header) => headers[header] === undefined) &&
    (name.toLowerCase() === 'localhost' || isLoopback(name))
  );
}

/**
 * Whether the service's own port may serve the metrics to this request. Cluster workers share that port, so each request
 * would read the counts of a random worker.
 */
export const mayReadMetrics = (request: IncomingMessage, { metrics }: Settings): boolean =>
  metrics === 'loopback' && !cluster.isWorker && isLocal(request);
