// What a scenario has at hand: the database, a fresh service, the honest client and attackers, each a process of its own.
import { fork, type ChildProcess } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AttackReport, Job } from './jobs.ts';
import type { Probed, ProbeJob } from './probe.ts';
import { startService, type Service, type ServiceOptions } from './service.ts';
import type { World } from './world.ts';

export interface Attack {
  /** Resolves when the attack has begun, see `Flood.isGradual`. */
  readonly begun: Promise<void>;
  /** Ends the attack. A process that does not answer is killed, and its report is empty. */
  readonly stop: () => Promise<AttackReport & { readonly seconds: number }>;
  /** Resolves when the attacker has done all it was asked, or after so many seconds; false then. */
  readonly finished: (seconds: number) => Promise<boolean>;
}

export interface Stage {
  readonly world: World;
  /** The registry file of the service. */
  readonly registry: string;
  readonly isShort: boolean;
  /** How many processes the service has. */
  readonly processes: number;
  /** One of two numbers: of the full form, and of the short one. */
  readonly either: (full: number, short: number) => number;
  /** Starts the service, in place of the one before. */
  readonly service: (options?: Partial<ServiceOptions>) => Promise<Service>;
  readonly probe: (service: Service, seconds: number, rounds?: number) => Promise<Probed>;
  readonly attack: (job: Job) => Promise<Attack>;
  /** Starts the process of the honest client, and those of attackers, while something else is done. */
  readonly hire: (attackers: number) => void;
  /** Ends everything that the scenario has started. */
  readonly clear: () => Promise<void>;
}

export interface StageOptions {
  readonly world: World;
  /** The folder of the compiled programs of the siege. */
  readonly programs: string;
  /** Of every service that is started. */
  readonly settings: Readonly<Record<string, string>>;
  readonly isShort: boolean;
}

const NOTHING = { sent: 0, statuses: {}, closed: 0, refusals: [], largest: 0, seconds: 0 };
/** How long an attacker may take to report, milliseconds. */
const REPORT_LIMIT = 5000;
/** And to start. */
const START_LIMIT = 20_000;

/** Starts a compiled program and waits until it takes jobs. */
const start = async (file: string): Promise<ChildProcess> => {
  const child = fork(file, { execArgv: [] });
  await once(child, 'message', { signal: AbortSignal.timeout(START_LIMIT) });
  return child;
};

/** Prepares the stage for one scenario. */
export function createStage({ world, programs, settings, isShort }: StageOptions): Stage {
  const registry = join(programs, 'registry.js');
  const children = new Set<ChildProcess>();
  let running: Service | undefined;
  let isOver = false;
  /** A scenario that took too long must start nothing beside the next one. */
  const assertOpen = (): void => {
    if (isOver) throw new Error('the scenario is over');
  };
  let client: Promise<ChildProcess> | undefined;
  const hired: Promise<ChildProcess>[] = [];
  const program = (name: string): Promise<ChildProcess> => {
    const child = start(join(programs, name));
    child.catch(() => undefined); // the caller that awaits it gets the error
    return child;
  };
  const kill = (child: Promise<ChildProcess> | undefined): unknown =>
    child?.then((one) => one.kill('SIGKILL')).catch(() => undefined);

  return {
    world,
    registry,
    isShort,
    processes: Number(settings['WORKERS'] ?? 1),
    either: (full, short) => (isShort ? short : full),
    async service(options = {}) {
      assertOpen();
      await running?.stop();
      const started = await startService({
        databaseUrl: world.url,
        registry,
        gauge: join(programs, 'gauge.js'),
        ...options,
        settings: { ...settings, ...options.settings },
      });
      if (isOver) await started.stop();
      assertOpen();
      running = started;
      return started;
    },
    async probe({ port }, seconds, rounds = 1) {
      assertOpen();
      client ??= program('probe.js');
      const honest = await client;
      const job: ProbeJob = { port, seconds, rounds };
      honest.send(job);
      const [result] = (await once(honest, 'message', {
        signal: AbortSignal.timeout(seconds * 1000 + 20_000),
      })) as [Probed];
      return result;
    },
    hire(attackers) {
      client ??= program('probe.js');
      while (hired.length < attackers) hired.push(program('attacker.js'));
    },
    async attack(job) {
      assertOpen();
      const child = await (hired.pop() ?? program('attacker.js'));
      children.add(child);
      const seen = new EventEmitter<{ begun: []; report: [AttackReport & { seconds: number }] }>();
      const begun = once(seen, 'begun').then(() => undefined);
      const reported = once(seen, 'report').then(([report]) => report as AttackReport & { seconds: number });
      child.on('message', (message: 'begun' | (AttackReport & { seconds: number })) =>
        message === 'begun' ? seen.emit('begun') : seen.emit('report', message),
      );
      child.send(job);
      return {
        begun,
        finished: (seconds) => {
          const late = sleep(seconds * 1000, false, { ref: false });
          return Promise.race([reported.then(() => true), late]);
        },
        async stop() {
          if (child.connected) child.send('stop');
          const report = await Promise.race([reported, sleep(REPORT_LIMIT, NOTHING, { ref: false })]);
          child.kill('SIGKILL');
          children.delete(child);
          return report;
        },
      };
    },
    async clear() {
      isOver = true;
      for (const child of children) child.kill('SIGKILL');
      children.clear();
      for (const one of [client, ...hired]) kill(one);
      client = undefined;
      await running?.stop();
      running = undefined;
      // What the scenario has left running in the database must not disturb the next one.
      await world.sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'vitrine'`;
    },
  };
}

/** Statements of this service that PostgreSQL is running. */
export const running = async ({ world }: Stage): Promise<number> => {
  const [row] = await world.sql<{ count: number }[]>`
    select count(*)::int from pg_stat_activity
    where datname = current_database() and application_name = 'vitrine' and state = 'active'
      and backend_type = 'client backend'`;
  return row?.count ?? NaN;
};
