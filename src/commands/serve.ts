// `vitrine serve`: runs the service until a signal stops it.
import { addressOf } from '../http/message/base-path.ts';
import { randomBytes } from 'node:crypto';
import { readSettings, type Settings } from '../config.ts';
import { StartError } from '../errors.ts';
import { isSocketInherited, openListener, takePassedSocket, type Listener } from '../http/server/listener.ts';
import { loadSamples } from './samples.ts';
import type { Logger } from '../http/observability/logger.ts';
import type { Users } from '../resources/users/users.ts';
import type { Prepared } from '../service.ts';
import { refuseArguments, parse, print, type Io } from './command.ts';
import { open, refusal, type RunningService } from './session.ts';
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

/** Prints where the service listens, and where its parts are. A Unix socket has no addresses to open. */
function printAddresses({ name, url }: Listener, { admin }: Prepared): void {
  const parts = { API: '/api/', ...(admin && { 'admin area': '/admin/' }) };
  const lines = Object.entries(parts).map(([part, path]) => `  ${part.padEnd(10)}  ${url}${addressOf(path)}`);
  print(process, [`listening on ${name}`, ...(url.startsWith('http') ? lines : [])].join('\n'));
}

/** Warns when no user may open the admin area. */
async function warnWithoutAdmin(users: Users, logger: Logger): Promise<void> {
  const hasAdmin = await users.hasAdmin().catch(() => true);
  if (!hasAdmin)
    logger.warn({
      message: 'no user may open the admin area; create one with: npx vitrine user add NAME --admin',
    });
}

/** What to do if another program uses the port. */
const otherPort = ({ port }: Settings): string =>
  ` To use another port: PORT=${port < 65535 ? port + 1 : 8000} npm start`;

async function run(settings: Settings): Promise<void> {
  let running: RunningService | undefined;
  let server: Listener | undefined;
  let site: Prepared | undefined;
  let filling: Promise<void> | undefined;
  let isLoaded = false;
  let isStopping = false;
  let ending: Promise<void> | undefined;
  const shutDown = (): Promise<void> =>
    (ending ??= (async () => {
      running?.service.drain();
      await server?.close();
      await filling?.catch(() => undefined);
      await running?.close();
    })());
  const exit = (): Promise<never> =>
    shutDown().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const earlyListeners = process.listeners(signal); // from bin/vitrine.js
    process.on(signal, () => {
      if (!isStopping) running?.logger.info({ message: `${signal}: shutting down` });
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
    const passed = takePassedSocket(); // first, so that child processes do not get its variables
    running = await open(settings, () => (isLoaded = true));
    if (isStopping) return await exit();
    const { service, embedded, logger } = running;
    const listen = (): Promise<Listener> =>
      openListener(service, settings, logger, passed, otherPort(settings));
    if (!isSocketInherited(passed)) server = await listen();
    site = await service.prepare();
    logger.flush(); // so that the password is printed after the schema's log lines
    if (embedded) filling = fillNewDatabase(site, settings);
    await filling;
    if (!server && !isStopping) server = await listen();
  } catch (error) {
    if (isStopping) return exit();
    await shutDown();
    throw error;
  }
  if (isStopping || !server) return;
  printAddresses(server, site);
  if (site.admin && site.users) void warnWithoutAdmin(site.users, running.logger);
  process.send?.('ready'); // for PM2 and other parent processes that wait for it
}

const HELP = `
Usage: vitrine serve [--watch]

Starts the service. SIGTERM and SIGINT stop it after the requests in progress are answered.
Configure the service with the settings below.

Options:
  --watch    start again when .env changes, or a script or JSON file in the folder of the registry or a subfolder
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
  if (parsed.values.watch) return serveWatching(process.argv[1] ?? '', io);
  await run(readSettings(io.env));
}
