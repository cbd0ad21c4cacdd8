// A process that sends requests: the load of the benchmark, the honest client of the siege, its floods and its slow clients.
import { once, setMaxListeners } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { loop, prepare, type Answer, type Shape } from './client.ts';
import { median, quantile } from './table.ts';

/** Connections that each send their requests in turn for a time, measured after a warm-up. */
export interface Load {
  readonly kind: 'load';
  readonly port: number;
  readonly seconds: number;
  readonly groups: readonly Group[];
  /** Whether the last requests are answered, and not cut off. */
  readonly isWhole?: boolean;
}

export interface Group {
  /** The requests of each connection. */
  readonly requests: readonly (readonly Shape[])[];
  /** The expected status of every answer. */
  readonly status: number;
  /** Milliseconds between an answer and the next request. */
  readonly pause?: number;
  /** The p99 is the median of the p99 in so many parts of the time. */
  readonly parts?: number;
}

/** Milliseconds; rates per second. */
export interface Measured {
  /** Answers within the measured time, and in all. */
  readonly count: number;
  readonly all: number;
  readonly rate: number;
  readonly p50: number;
  readonly p99: number;
  /** The share of answers that were not as expected, from 0 to 1, and the head of the first of them. */
  readonly failures: number;
  readonly fault?: string;
}

export interface LoadReport {
  readonly groups: readonly Measured[];
  /** Processor time of this process, microseconds. */
  readonly cpu: number;
}

interface Attack {
  readonly port: number;
  readonly connections: number;
  /** The client addresses, which the requests of a flood take in turn. */
  readonly from?: readonly string[];
  /** Milliseconds after which refusals are timed: until then, making connections takes processor time. */
  readonly timedAfter?: number;
}

/** Connections that each send the next request after the answer to the one before. */
export interface Flood extends Attack {
  readonly kind?: 'flood';
  readonly requests: readonly Shape[];
  /** Whether each connection keeps one address. */
  readonly keepsAddress?: boolean;
  /** Milliseconds between an answer and the next request, and between the first requests of two connections. */
  readonly pause?: number;
  readonly stagger?: number;
  /** Milliseconds after which it disconnects instead of waiting for the answer. */
  readonly abandonAfter?: number;
}

/** Connections that send and read in ways that no browser does. */
export interface SlowClients extends Attack {
  readonly kind: 'slow';
  /** Each connection sends this request, so many times at once; or these bytes. */
  readonly request: Shape | string;
  readonly times?: number;
  /** A request before these. */
  readonly first?: Shape;
  /** So many last bytes are sent later, by all connections at the same moment; again and again. */
  readonly withheld?: number;
  /** Whether a connection that is closed is replaced. */
  readonly reopens?: boolean;
  /** Bytes per second that are read; else all. */
  readonly rate?: number;
  /** What is sent behind the requests once they are being answered, and after that without end. */
  readonly behind?: string;
  readonly endless?: string;
  /** The address of this machine that the connections come from. */
  readonly localAddress?: string;
}

export type Job = Load | Flood | SlowClients;

export interface AttackReport {
  readonly sent: number;
  /** Answers by their status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Connections that the service closed. */
  readonly closed: number;
  /** Milliseconds from a request to the answer that refused it (429 or 503). */
  readonly refusals: readonly number[];
  /** Bytes of the largest body of an answer. */
  readonly largest: number;
}

export const ATTACKER = '203.0.113.1';
/** Connections that are opened at once, and the milliseconds until the next ones. */
const [ROUND, PAUSE] = [64, 25];
/** Milliseconds for which the last bytes are withheld, and for which the answers are awaited. */
const [WITHHELD, ANSWERED] = [500, 1500];
/** Milliseconds between two reads of a slow reader, and after the service has closed a connection of a flood. */
const [STEP, AFTER_CLOSE] = [250, 100];
/** The part of a load that comes before the measured time: connections are made, credentials verified, code compiled. */
const WARM_UP = 0.15;
const MAX_TIMES = 50_000;
/** Milliseconds after which a request that was cut off counts as failed. */
const MAX_WAIT = 5000;
const STATUS = Buffer.from('HTTP/1.1 ');

async function load(
  { port, seconds, groups, isWhole = false }: Load,
  stopped: AbortSignal,
): Promise<LoadReport> {
  const cpu = process.cpuUsage();
  const from = performance.now() + (isWhole ? seconds * WARM_UP * 1000 : 0);
  const until = from + seconds * 1000;
  const run = async ({ requests, status, pause = 0, parts = 1 }: Group): Promise<Measured> => {
    const times = Array.from({ length: parts }, (): number[] => []);
    let [all, good] = [0, 0];
    let fault: string | undefined;
    const drive = (shapes: readonly Shape[]): Promise<void> => {
      const prepared = shapes.map(prepare);
      let turn = 0;
      const next = (): Buffer | undefined =>
        isWhole && performance.now() >= until ? undefined : prepared[turn++ % prepared.length]!();
      return loop({
        port,
        next,
        pause,
        stopped,
        ...(!isWhole && { until }),
        took: ({ sent, time, answer, isCutOff }) => {
          all += 1;
          // What is cut off at the end counts as failed if it has waited for long.
          const isGood = isCutOff ? time < MAX_WAIT : answer?.status === status;
          if (!isGood) fault ??= answer?.head ?? 'no answer';
          const at = isWhole ? sent + time : sent;
          if (at < from || at >= until) return;
          good += isGood ? 1 : 0;
          times[Math.floor(((at - from) / (until - from)) * parts)]?.push(time);
        },
      });
    };
    await Promise.all(requests.map(drive));
    const flat = times.flat();
    return {
      count: flat.length,
      all,
      rate: good / seconds,
      p50: quantile(flat, 0.5),
      p99: median(times.map((part) => quantile(part, 0.99)).filter((p99) => p99 >= 0)),
      failures: 1 - good / Math.max(1, flat.length),
      ...(fault !== undefined && { fault }),
    };
  };
  const measured = await Promise.all(groups.map(run));
  const { user, system } = process.cpuUsage(cpu);
  return { groups: measured, cpu: user + system };
}

/** Counts what happens to the requests of an attack. */
class Tally {
  readonly #timedAfter: number;
  sent = 0;
  closed = 0;
  largest = 0;
  readonly statuses: Record<string, number> = {};
  readonly refusals: number[] = [];

  constructor(timedAfter = 0) {
    this.#timedAfter = performance.now() + timedAfter;
  }

  answered({ status, size }: Pick<Answer, 'status' | 'size'>, milliseconds = 0): void {
    this.statuses[status] = (this.statuses[status] ?? 0) + 1;
    this.largest = Math.max(this.largest, size);
    const isRefused = status === 429 || status === 503;
    const isTimed = performance.now() - milliseconds >= this.#timedAfter && this.refusals.length < MAX_TIMES;
    if (isRefused && isTimed) this.refusals.push(milliseconds);
  }
}

async function flood(job: Flood, tally: Tally, stopped: AbortSignal): Promise<void> {
  const { port, from = [ATTACKER], keepsAddress, stagger = 0, pause = 0, abandonAfter } = job;
  const prepared = job.requests.map(prepare);
  let count = 0;
  const drive = async (index: number): Promise<void> => {
    await sleep(stagger * index, undefined, { signal: stopped });
    const next = (): Buffer => {
      const n = count++;
      tally.sent += 1;
      return prepared[(index + n) % prepared.length]!(from[(keepsAddress ? index : n) % from.length]);
    };
    const took = ({ answer, time }: { readonly answer: Answer | undefined; readonly time: number }): void => {
      if (answer) tally.answered(answer, time);
      else if (abandonAfter === undefined && !stopped.aborted) tally.closed += 1;
    };
    await loop({
      port,
      next,
      took,
      stopped,
      pause,
      afterClose: AFTER_CLOSE,
      ...(abandonAfter && { abandonAfter }),
    });
  };
  await Promise.all(
    Array.from({ length: job.connections }, (_, index) => drive(index).catch(() => undefined)),
  );
}

async function sendWithoutEnd(socket: Socket, { behind = '', endless }: SlowClients): Promise<void> {
  socket.setNoDelay(true).write(behind);
  while (endless !== undefined && !socket.destroyed) {
    if (socket.writableNeedDrain) await once(socket, 'drain');
    socket.write(endless);
    await nextTurn();
  }
}

async function beSlow(job: SlowClients, tally: Tally, stopped: AbortSignal): Promise<void> {
  const {
    port,
    connections,
    request,
    times = 1,
    first,
    withheld = 0,
    reopens = false,
    rate,
    localAddress,
  } = job;
  const from = job.from ?? [ATTACKER];
  const sockets = new Set<Socket>();
  let sentAt = performance.now();
  const wait = (milliseconds: number): Promise<unknown> =>
    sleep(milliseconds, undefined, { signal: stopped }).catch(() => undefined);
  const bytesOf = (address: string | undefined): Buffer => {
    const one = typeof request === 'string' ? Buffer.from(request) : prepare(request)(address);
    const all = Buffer.alloc(one.length * times, one);
    return first ? Buffer.concat([prepare(first)(address), all]) : all;
  };
  const known = new Map(from.map((address) => [address, bytesOf(address)]));

  function noteStatuses(chunk: Buffer): void {
    for (let at = chunk.indexOf(STATUS); at >= 0; at = chunk.indexOf(STATUS, at + 1)) {
      const status = Number(chunk.toString('latin1', at + STATUS.length, at + STATUS.length + 3));
      tally.answered({ status, size: 0 }, withheld > 0 ? performance.now() - sentAt : 0);
    }
  }

  function open(bytes: Buffer): void {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true, ...(localAddress && { localAddress }) });
    sockets.add(socket);
    tally.sent += 1;
    socket.write(withheld > 0 ? bytes.subarray(0, -withheld) : bytes);
    // `read` takes no more than this from the socket's buffer, so the rest stays with the system and then the service.
    const read = (): void => {
      const chunk = socket.read(
        Math.min(socket.readableLength, ((rate ?? 0) * STEP) / 1000),
      ) as Buffer | null;
      if (chunk) noteStatuses(chunk);
    };
    const reading = rate === undefined ? undefined : setInterval(read, STEP);
    if (rate === undefined) socket.on('data', noteStatuses);
    if (job.behind !== undefined)
      setTimeout(() => void sendWithoutEnd(socket, job).catch(() => undefined), STEP);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearInterval(reading);
      sockets.delete(socket);
      if (!stopped.aborted) tally.closed += 1;
    });
  }

  let opened = 0;
  do {
    const bytes = known.get(from[0]!)!;
    if (withheld > 0) for (const socket of sockets) socket.write(bytes.subarray(0, -withheld));
    while (sockets.size < connections && (reopens || opened < connections) && !stopped.aborted) {
      open(known.get(from[opened % from.length]!)!);
      opened += 1;
      if (opened % ROUND === 0) await wait(PAUSE);
    }
    if (withheld > 0) {
      await wait(WITHHELD);
      sentAt = performance.now();
      for (const socket of sockets) socket.write(bytes.subarray(-withheld));
      await wait(ANSWERED);
    } else await wait(PAUSE);
  } while (!stopped.aborted);
  for (const socket of sockets) socket.destroy();
}

async function run(job: Job, stopped: AbortSignal): Promise<LoadReport | AttackReport> {
  if (job.kind === 'load') return load(job, stopped);
  const tally = new Tally(job.timedAfter);
  await (job.kind === 'slow' ? beSlow(job, tally, stopped) : flood(job, tally, stopped));
  return { ...tally };
}

let stopping = new AbortController();
process.on('message', (message: Job | 'stop') => {
  if (message === 'stop') return stopping.abort();
  stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  void run(message, stopping.signal).then((report) => process.send?.(report));
});
process.on('disconnect', () => process.exit());
