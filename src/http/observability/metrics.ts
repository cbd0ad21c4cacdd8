import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { Histogram } from '../../db/histogram.ts';
import { watchEventLoop } from '../load/event-loop-delay.ts';
import { Exposition, EXPOSITION_TYPE, type Labels, type Sample } from './metrics-exposition.ts';
import type { Reply } from '../message/message.ts';
import type { Pressure } from '../load/pressure.ts';
import { methodNotAllowed, type Route } from '../api/api-routes.ts';
import type { ThrottleCounts } from '../auth/login-throttle.ts';

/** What is measured elsewhere, and asked for when somebody reads it. */
export interface Measured {
  readonly database: Pick<Database, 'pools' | 'classes'>;
  readonly logins: () => ThrottleCounts;
  readonly pressure: Pressure;
}

/** Counts what the service does. Counting is cheap; all that takes work is done when somebody reads. */
export interface Metrics {
  readonly begin: () => void;
  /** @param route its pattern, one of a bounded number */
  readonly end: (route: string, method: string, status: number, seconds: number) => void;
  /** Counts what was refused before it was a request. */
  readonly unreadable: (status: number) => void;
  /** The answer to a request for all of it. @throws Problem 405 */
  readonly reply: (method: string) => Reply;
  readonly close: () => void;
}

/** The address of the metrics, on the service's own port as well as on one of theirs. */
export const METRICS_PATH = '/metrics';

/** The label of each kind of route. */
export const PATTERNS: Readonly<Record<Route['kind'], string>> = {
  health: '/healthz',
  ready: '/readyz',
  index: '/api/',
  openapi: '/api/openapi.json',
  collection: '/api/{model}/',
  record: '/api/{model}/{id}/',
  asset: '/api/-/{file}',
};
/** The label of requests that lead nowhere, or whose page is not known while the service starts. */
export const NOWHERE = 'other';
/** Clients choose the method; what is none of these has one label. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** What has been answered on one route to one method. */
interface Meter {
  readonly labels: Labels;
  readonly byStatus: Map<number, number>;
  readonly durations: Histogram;
}

function versionOf(): string {
  try {
    const file = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
    return (JSON.parse(file) as { version: string }).version;
  } catch {
    return 'unknown'; // the code was bundled
  }
}

const increment = (counts: Map<number, number>, key: number): unknown =>
  counts.set(key, (counts.get(key) ?? 0) + 1);

const byStatus = (counts: ReadonlyMap<number, number>, labels: Labels): Sample[] =>
  [...counts].map(([status, count]) => [{ ...labels, status: String(status) }, count]);

function writeProcess(page: Exposition): void {
  const { user, system } = process.cpuUsage();
  const { rss, heapTotal, heapUsed, external } = process.memoryUsage();
  const started = Math.round(performance.timeOrigin) / 1000;
  page.counter('process_cpu_user_seconds_total', 'CPU time spent in this program.', user / 1e6);
  page.counter('process_cpu_system_seconds_total', 'CPU time spent in the system for it.', system / 1e6);
  page.counter('process_cpu_seconds_total', 'CPU time, both together.', (user + system) / 1e6);
  page.gauge('process_start_time_seconds', 'When the process started, in seconds of Unix time.', started);
  page.gauge('process_resident_memory_bytes', 'Memory that the process has.', rss);
  page.gauge('nodejs_heap_size_total_bytes', 'Memory that the heap of JavaScript has.', heapTotal);
  page.gauge('nodejs_heap_size_used_bytes', 'Memory that objects on that heap take.', heapUsed);
  page.gauge(
    'nodejs_external_memory_bytes',
    'Memory of buffers and the like, outside of the heap.',
    external,
  );
}

function writePressure(page: Exposition, { overload, unsent, bodies }: Pressure): void {
  const shortage = overload.shortage();
  page.gauge('vitrine_overload', 'Whether requests are refused for a lack of it.', [
    [{ resource: 'event-loop' }, shortage === 'event-loop' ? 1 : 0],
    [{ resource: 'memory' }, shortage === 'memory' ? 1 : 0],
  ]);
  page.gauge('vitrine_memory_used_ratio', 'Share of the memory limit that is used.', overload.memory());
  page.gauge('vitrine_request_bodies_bytes', 'Memory that large request bodies take.', bodies());
  page.gauge('vitrine_unsent_answers_bytes', 'Answers that clients have not taken yet.', unsent.bytes());
}

function writeDatabase(page: Exposition, database: Measured['database']): void {
  const prefix = 'vitrine_database';
  const states = Object.entries(database.pools());
  const each = (value: (state: (typeof states)[number][1]) => number): Sample[] =>
    states.map(([pool, state]) => [{ pool }, value(state)]);
  page.gauge(
    `${prefix}_connections_max`,
    'Connections that a pool may have.',
    each(({ connections }) => connections),
  );
  page.gauge(
    `${prefix}_statements_running`,
    'Statements that were sent and have no answer yet.',
    each(({ running }) => running),
  );
  page.counter(
    `${prefix}_statements_abandoned_total`,
    'Statements abandoned because no answer came.',
    each(({ abandoned }) => abandoned),
  );
  page.counter(
    `${prefix}_statements_canceled_total`,
    'Statements canceled because their client left or their time was over.',
    each(({ canceled }) => canceled),
  );
  page.histogram(
    `${prefix}_statement_duration_seconds`,
    'Time from sending a statement to its answer.',
    states.map(([pool, { durations }]) => [{ pool }, durations]),
  );
  const queues = Object.entries(database.classes());
  const ofClass = (value: (state: (typeof queues)[number][1]) => number): Sample[] =>
    queues.map(([name, state]) => [{ class: name }, value(state)]);
  page.gauge(
    `${prefix}_statements_waiting`,
    'Statements that wait for a connection.',
    ofClass(({ waiting }) => waiting),
  );
  page.counter(
    `${prefix}_statements_refused_total`,
    'Statements refused because they would have waited too long.',
    ofClass(({ refused }) => refused),
  );
}

/** Starts counting. */
export function createMetrics({ database, logins, pressure }: Measured): Metrics {
  const routes = new Map<string, Map<string, Meter>>();
  const unreadable = new Map<number, number>();
  const eventLoop = watchEventLoop();
  const build = { version: versionOf(), node: process.version };
  let inFlight = 0;

  function meterOf(route: string, given: string): Meter {
    const method = METHODS.has(given) ? given : 'other';
    let methods = routes.get(route);
    if (!methods) {
      methods = new Map<string, Meter>();
      routes.set(route, methods);
    }
    let meter = methods.get(method);
    if (!meter) {
      meter = { labels: { route, method }, byStatus: new Map(), durations: new Histogram() };
      methods.set(method, meter);
    }
    return meter;
  }

  function writeRequests(page: Exposition): void {
    const meters = [...routes.values()].flatMap((methods) => [...methods.values()]);
    const shed = meters
      .filter(({ labels }) => labels['route'] !== PATTERNS.ready) // there a 503 is an answer like any other
      .reduce((sum, meter) => sum + (meter.byStatus.get(503) ?? 0), 0);
    page.counter(
      'vitrine_http_requests_total',
      'Requests that were answered.',
      meters.flatMap((meter) => byStatus(meter.byStatus, meter.labels)),
    );
    page.histogram(
      'vitrine_http_request_duration_seconds',
      'Time from the head of a request to the end of its answer.',
      meters.map(({ labels, durations }) => [labels, durations]),
    );
    page.gauge('vitrine_http_requests_in_flight', 'Requests that have no answer yet.', inFlight);
    page.counter('vitrine_http_requests_shed_total', 'Requests turned away with a 503.', shed);
    page.counter(
      'vitrine_http_unreadable_requests_total',
      'What came in and was no request.',
      byStatus(unreadable, {}),
    );
  }

  function write(): string {
    const page = new Exposition();
    page.gauge('vitrine_build_info', 'The version of the service and of Node.js.', [[build, 1]]);
    writeRequests(page);
    const { failed, throttled } = logins();
    page.counter('vitrine_logins_failed_total', 'Logins with wrong credentials.', failed);
    page.counter('vitrine_logins_throttled_total', 'Logins refused after too many failures.', throttled);
    writeDatabase(page, database);
    const { quantiles, sum, count } = eventLoop.read();
    page.summary('vitrine_event_loop_delay_seconds', 'By how much the event loop is late.', {
      quantiles: quantiles.map(([quantile, value]) => [{ quantile: String(quantile) }, value]),
      sum,
      count,
    });
    writePressure(page, pressure);
    writeProcess(page);
    return page.text;
  }

  return {
    begin: () => {
      inFlight += 1;
    },
    end: (route, method, status, seconds) => {
      inFlight -= 1;
      const meter = meterOf(route, method);
      increment(meter.byStatus, status);
      meter.durations.observe(seconds);
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

/** What proxies add to the requests that they pass on. */
const FORWARDED = ['x-forwarded-for', 'x-forwarded-proto', 'x-real-ip', 'forwarded', 'via'];

/**
 * Whether a request was made on this machine. A proxy's requests come from this machine as well, so nothing may say that one
 * was passed on; and a page of elsewhere that has made its own name lead here does not name this machine.
 */
function isLocal({ headers, socket }: IncomingMessage): boolean {
  const [, inBrackets, name = inBrackets ?? ''] =
    /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(headers.host ?? 'localhost') ?? [];
  return (
    isLoopback(socket.remoteAddress ?? '') &&
    FORWARDED.every((header) => headers[header] === undefined) &&
    (name.toLowerCase() === 'localhost' || isLoopback(name))
  );
}

/**
 * Whether the service's own port shows the metrics to this request. The processes of a cluster share that port, so that
 * a reader would get the counts of now one and now another.
 */
export const isShown = (request: IncomingMessage, { metrics }: Settings): boolean =>
  metrics === 'loopback' && !cluster.isWorker && isLocal(request);
