import { randomBytes } from 'node:crypto';
import { readSettings, type Settings } from '../config.ts';
import { StartError } from '../errors.ts';
import { isSocketInherited, openListener, takePassedSocket, type Listener } from '../http/server/listener.ts';
import { loadSamples } from './samples.ts';
import type { Prepared } from '../service.ts';
import { noWords, parse, print } from './command.ts';
import { open, refusal, type Session } from './session.ts';

/** What makes a first look worthwhile: a user to log in with, and records of the shipped registry. */
async function welcome(
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
      `no user "admin" could be created: ${reason.message} Create one with: vitrine user add NAME --admin`,
    );
  }
  print(`created the user "admin" with the password ${password}`); // at once: nobody else knows it
  if (registry === undefined) await loadSamples(resources, operations, users, minPassword);
}

async function run(settings: Settings): Promise<void> {
  let session: Session | undefined;
  let server: Listener | undefined;
  let welcoming: Promise<void> | undefined;
  let isLoaded = false;
  let isStopping = false;
  let ending: Promise<void> | undefined;
  const shutDown = (): Promise<void> =>
    (ending ??= (async () => {
      session?.service.drain();
      await server?.close();
      await welcoming?.catch(() => undefined);
      await session?.close();
    })());
  const exit = (): Promise<never> =>
    shutDown().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const early = process.listeners(signal); // those of bin/vitrine.js
    process.on(signal, () => {
      if (!isStopping) session?.logger.info({ message: `${signal}: shutting down` });
      isStopping = true;
      if (!isLoaded) process.exit(0);
      // A database that is being started must be there before it can be stopped.
      if (session) void exit();
    });
    // Not before: where nobody listens Node forgets a signal that has come and is not told yet.
    for (const listener of early) process.off(signal, listener);
  }
  try {
    const passed = takePassedSocket(); // before anything is started that would take it for its own
    session = await open(settings, () => (isLoaded = true));
    if (isStopping) return await exit();
    const { service, embedded, logger } = session;
    const listen = (): Promise<Listener> => openListener(service, settings, logger, passed);
    if (!isSocketInherited(passed)) server = await listen();
    const prepared = await service.prepare();
    logger.flush(); // the password is to stand below what was done to the schema
    if (embedded) welcoming = welcome(prepared, settings);
    await welcoming;
    if (!server && !isStopping) server = await listen();
  } catch (error) {
    if (isStopping) return exit();
    await shutDown();
    throw error;
  }
  if (isStopping || !server) return;
  print(`listening on ${server.name}`);
  process.send?.('ready'); // to PM2, or whoever else has started this process and waits for it
}

const HELP = `
Usage: vitrine serve

Starts the service. It ends with SIGTERM or SIGINT, once it has answered what it was asked.
It takes no options but --help; the settings below say what it serves, and where.
`;

/**
 * `vitrine serve`: the service, until a signal ends it.
 * @param general the help of the whole program, which lists the settings
 */
export async function serve(words: readonly string[], general: string): Promise<void> {
  const given = parse(words, {}, `${HELP}\n${general}`);
  if (!given) return;
  noWords(given.positionals);
  await run(readSettings(process.env));
}
