// `vitrine serve`: runs the service until a signal stops it.
import { withBasePath } from '../http/message/base-path.ts';
import { randomBytes } from 'node:crypto';
import { readSettings, type Settings } from '../config.ts';
import { StartError } from '../errors.ts';
import { listensOnceReady, openListener, takePassedSocket, type Listener } from '../http/server/listener.ts';
import { loadSamples } from './samples.ts';
import type { UserManagement } from '../resources/records/user-management.ts';
import type { Prepared } from '../service.ts';
import { isForeignWorker, isWorker } from '../processes.ts';
import { createLogger, type Logger } from '../http/observability/logger.ts';
import { memoryWarning } from '../http/load/overload.ts';
import { MAY_FORK, superviseWorkers } from '../workers/supervisor.ts';
import { joinParent, type WorkerLink } from '../workers/worker-link.ts';
import { openEmbedded, refuseArguments, parse, print, type Io } from './command.ts';
import { open, refusal, type RunningService } from './running-service.ts';
import { INHERITED } from './env-file.ts';
import { serveWatching, WATCHED_BY_PARENT } from './watch.ts';

/** Fills a new embedded database: creates an admin, and sample records when the registry is the shipped one. */
async function fillNewDatabase(
  { users, resources, operations }: Prepared,
  { resources: registry, minPassword }: Settings,
): Promise<void> {
  if (!users || (await users.list()).length > 0) return;
  const password = randomBytes(Math.max(12, minPassword))
    .toString('base64url')
    .slice(0, Math.max(16, minPassword));
  try {
    await users.add('admin', password, true);
  } catch (error) {
    const reason = refusal(error);
    if (!(reason instanceof StartError)) throw error;
    return print(
      process,
      `could not create the user "admin": ${reason.message} Create an admin with: npx vitrine user add NAME --admin`,
    );
  }
  // Before the samples, which may fail: the password is not stored anywhere else.
  print(process, `created the user "admin" with the password ${password}`);
  if (registry === undefined) await loadSamples(resources, operations, users, minPassword);
}

/** Where the service listens, and where its parts are. Without PUBLIC_URL, a Unix socket has no addresses to open. */
function addressText({ name, url }: Listener, { admin }: Prepared, { publicUrl }: Settings): string {
  const [origin = url] = publicUrl;
  const parts = { API: '/api/', ...(admin && { 'admin area': '/admin/' }) };
  const lines = Object.entries(parts).map(
    ([part, path]) => `  ${part.padEnd(10)}  ${origin}${withBasePath(path)}`,
  );
  return [`listening on ${name}`, ...(origin.startsWith('http') ? lines : [])].join('\n');
}

/** Prints where the service listens, and reports that to PM2 and other parent processes that wait for it. */
function announce(text: string): void {
  print(process, text);
  process.send?.('ready');
}

/** Warns in the first of several processes that do not share their counts. PM2 numbers them. */
function warnIfForeign(logger: Logger): void {
  const { NODE_APP_INSTANCE: instance = '0' } = process.env;
  if (isForeignWorker && instance === '0')
    logger.warn({
      message:
        'each process of this cluster counts failed logins and RATE_LIMIT for itself; to count together, start one process with WORKERS',
    });
}

/** The single process ignores SIGHUP without a terminal, because a `systemctl reload` must not end it. */
function ignoreHangup(logger: Logger): void {
  if (process.stdin.isTTY) return;
  const message = 'SIGHUP: nothing is reloaded, because this needs WORKERS=2 or more';
  process.on('SIGHUP', () => logger.warn({ message }));
}

/** Warns when no user may open the admin area. */
async function warnWithoutAdmin(users: UserManagement, logger: Logger): Promise<void> {
  const hasAdmin = await users.hasAdmin().catch(() => true);
  if (!hasAdmin)
    logger.warn({
      message: 'no user may open the admin area; create one with: npx vitrine user add NAME --admin',
    });
}

/** What to do if another program uses the port. */
const otherPort = ({ port }: Settings): string =>
  ` To use another port: PORT=${port < 65535 ? port + 1 : 8000} npm start`;

async function run(settings: Settings, link?: WorkerLink): Promise<void> {
  let running: RunningService | undefined;
  let server: Listener | undefined;
  let site: Prepared | undefined;
  let filling: Promise<void> | undefined;
  let isLoaded = false;
  let isStopping = false;
  let ending: Promise<void> | undefined;
  const leads = !link || link.start.number === 1;
  const shutDown = (): Promise<void> =>
    (ending ??= (async () => {
      running?.service.drain();
      await server?.close();
      await filling?.catch(() => undefined);
      await running?.close();
      if (running) await link?.end(running.service.metrics.text());
    })());
  const exit = (): Promise<never> =>
    shutDown().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const earlyListeners = process.listeners(signal); // from bin/vitrine.js
    process.on(signal, () => {
      if (!isStopping && !link) running?.logger.info({ message: `${signal}: shutting down` });
      isStopping = true;
      if (!isLoaded) process.exit(0);
      // An embedded database that is starting can only be stopped after the start.
      if (running) void exit();
    });
    // Only after adding the new listener: Node.js drops pending signals that have no listener.
    for (const listener of earlyListeners) process.off(signal, listener);
  }
  if (process.env[WATCHED_BY_PARENT] !== undefined)
    process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  try {
    // First, so that child processes do not get its variables.
    const passed = link ? link.start.passed : takePassedSocket();
    running = await open(settings, () => (isLoaded = true), link);
    if (isStopping) return await exit();
    const { service, embedded, logger } = running;
    if (!link) ignoreHangup(logger);
    const listen = (): Promise<Listener> =>
      openListener(service, settings, logger, { passed, portHint: otherPort(settings), isFirst: leads });
    if (!listensOnceReady(passed, link?.start.isInitial)) server = await listen();
    warnIfForeign(logger);
    site = await service.prepare({ warns: leads });
    logger.flush(); // so that the password is printed after the schema's log lines
    if (embedded || (link?.start.isInitial && link.start.embeddedUrl))
      filling = fillNewDatabase(site, settings);
    await filling;
    if (!server && !isStopping) server = await listen();
  } catch (error) {
    if (isStopping) return exit();
    await shutDown();
    throw error;
  }
  if (isStopping || !server) return;
  const text = addressText(server, site, settings);
  if (link) link.ready(text);
  else announce(text);
  if (leads && site.admin && site.users) void warnWithoutAdmin(site.users, running.logger);
}

/** @throws StartError if this process cannot start others */
function assertMayFork(): void {
  if (isForeignWorker)
    throw new StartError(
      'WORKERS must be 1 in a process that another program has started as one of several, such as PM2 in cluster mode. Use the fork mode of PM2.',
    );
  const { permission } = process as { permission?: { has: (scope: string) => boolean } };
  if (permission && !permission.has('child'))
    throw new StartError(
      `WORKERS needs the flag ${MAY_FORK} of Node.js. bin/confined adds it if the variable WORKERS is set in the environment, not in .env or a file.`,
    );
}

/** Serves with several processes. @returns the exit code */
function runWorkers(settings: Settings): Promise<number> {
  assertMayFork();
  const passed = takePassedSocket();
  // Each process reads .env again, so that a reload takes its changes.
  for (const name of Object.keys(process.env)) if (!(name in INHERITED)) delete process.env[name];
  const logger = createLogger(settings.logLevel, undefined, settings.logFormat, { worker: 0 });
  const message = memoryWarning(settings);
  if (message !== undefined) logger.warn({ message });
  return superviseWorkers({
    settings,
    passed,
    logger,
    openEmbedded: settings.databaseUrl === undefined ? openEmbedded : undefined,
    onReady: announce,
  });
}

const HELP = `
Usage: vitrine serve [--watch]

Starts the service. SIGTERM and SIGINT stop it after the requests in progress are answered. With WORKERS, SIGHUP reloads it
without interruption.
Configure the service with the settings below.

Options:
  --watch    start again when the registry or a file that it imports changes (Node's --watch)
  --help     show this help
`;

/**
 * `vitrine serve`
 * @param generalHelp the help of the whole program, which lists the settings
 */
export async function serve(args: readonly string[], io: Io, generalHelp: string): Promise<number | void> {
  const parsed = parse(args, { watch: { type: 'boolean' } }, `${HELP}\n${generalHelp}`, io);
  if (!parsed) return;
  refuseArguments(parsed.positionals);
  if (parsed.values.watch) return serveWatching(process.argv[1] ?? '');
  const settings = readSettings(io.env);
  if (isWorker) return run(settings, joinParent(settings));
  // With --watch, the service is a single process, which is started again.
  if (settings.workers > 1 && process.env[WATCHED_BY_PARENT] === undefined) return runWorkers(settings);
  await run(settings);
}
