import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import { readSettings, SETTINGS, type Settings } from './config.ts';
import { startEmbedded, type EmbeddedDatabase } from './db/embedded.ts';
import { StartError } from './errors.ts';
import { createLogger, type Logger } from './http/logger.ts';
import { createHttpServer, listen, type RunningServer } from './http/server.ts';
import { UTF8_FATAL } from './http/text.ts';
import { loadResources } from './resources/load.ts';
import type { Panel } from './resources/panel.ts';
import type { Resource } from './resources/resource.ts';
import { loadSamples } from './resources/samples.ts';
import { createService, requireRegistry, type Prepared, type Service } from './service.ts';

const USAGE = `Usage: vitrine <command>

Commands
  serve                     start the service
  check                     compare the registry with the database, and change nothing
  user add NAME [--admin] [--set COLUMN=VALUE]...
                            create a user; the password comes from the terminal or standard input
  user password NAME        set a user's password, read likewise
  user list                 list the users

Options
  --help                    show this
  --version                 show the version

Settings (environment variables)
`;

/** A mistake on the command line: exit code 2. */
class UsageError extends Error {}

const print = (line: string): void => void process.stdout.write(`${line}\n`);

function help(): string {
  const rows = Object.entries(SETTINGS).map(
    ([name, { meaning, fallback }]) => `  ${name.padEnd(14)} ${meaning} (${fallback})`,
  );
  return `${USAGE}${rows.join('\n')}`;
}

function version(): string {
  const file = new URL('../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/** Everything that a command works with, opened together and closed together. */
interface Session {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly resources: readonly Resource[];
  readonly service: Service;
  readonly embedded: EmbeddedDatabase | undefined;
  readonly close: () => Promise<void>;
}

async function open(settings: Settings): Promise<Session> {
  const logger = createLogger(settings.logLevel);
  const { registry, panels } = await loadResources(settings.resources);
  const resources = requireRegistry(registry, settings, panels);
  const embedded = settings.databaseUrl === undefined ? await startEmbedded(resolve('.data')) : undefined;
  const databaseUrl = settings.databaseUrl ?? embedded?.url ?? '';
  const service = createService(settings, resources, databaseUrl, logger, panels as readonly Panel[]);
  const close = async (): Promise<void> => {
    await service.close();
    await embedded?.stop();
    logger.flush();
  };
  return { settings, logger, resources, service, embedded, close };
}

/** Runs a command on a prepared service, and leaves nothing open. */
async function withService(settings: Settings, work: (prepared: Prepared) => Promise<void>): Promise<void> {
  const session = await open(settings);
  try {
    await work(await session.service.prepare({ waits: false }));
  } finally {
    await session.close();
  }
}

/** What makes a first look worthwhile: a user to log in with, and records of the shipped registry. */
async function welcome({ users, resources, operations }: Prepared, isShipped: boolean): Promise<void> {
  if (!users || (await users.list()).length > 0) return;
  const password = randomBytes(12).toString('base64url');
  try {
    await users.add('admin', password, true);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return print(
      `no user "admin" could be created: ${error.message} Create one with: vitrine user add NAME --admin`,
    );
  }
  print(`created the user "admin" with the password ${password}`); // at once: nobody else knows it
  if (isShipped) await loadSamples(resources, operations, users);
}

async function serve(settings: Settings): Promise<void> {
  let session: Session | undefined;
  let server: RunningServer | undefined;
  let welcoming: Promise<void> | undefined;
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
    process.removeAllListeners(signal); // see bin/vitrine.js
    process.on(signal, () => {
      if (!isStopping) session?.logger.info({ message: `${signal}: shutting down` });
      isStopping = true;
      // A database that is being started must be there before it can be stopped.
      if (session) void exit();
    });
  }
  try {
    session = await open(settings);
    if (isStopping) return await exit();
    const { service, embedded, logger } = session;
    const { host, port } = settings;
    server = await listen(createHttpServer(service.handler, logger), host, port).catch((error: Error) => {
      throw new StartError(`Cannot listen on ${host}:${port}: ${error.message}`);
    });
    const prepared = await service.prepare();
    if (embedded) welcoming = welcome(prepared, settings.resources === undefined);
    await welcoming;
  } catch (error) {
    if (isStopping) return exit();
    await shutDown();
    throw error;
  }
  if (!isStopping) print(`listening on ${server.url}`);
}

/** Reads a password: typed twice without echo on a terminal, else all of standard input but the last line break. */
async function readPassword(): Promise<string> {
  if (!process.stdin.isTTY) {
    const chunks: Buffer[] = [];
    for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
    try {
      return UTF8_FATAL.decode(Buffer.concat(chunks)).replace(/\r?\n$/, '');
    } catch {
      throw new StartError('The password is not UTF-8.');
    }
  }
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const ask = async (prompt: string): Promise<string> => {
    process.stderr.write(prompt);
    const terminal = createInterface({ input: process.stdin, output: silent, terminal: true });
    const answer = await terminal.question('').catch(() => {
      throw new StartError('No password was given.'); // Ctrl-C or Ctrl-D
    });
    terminal.close();
    process.stderr.write('\n');
    return answer;
  };
  const password = await ask('Password: ');
  if ((await ask('Again: ')) !== password) throw new StartError('The two passwords differ.');
  return password;
}

function parseSets(sets: readonly string[]): Map<string, string> {
  return new Map(
    sets.map((set) => {
      const equals = set.indexOf('=');
      if (equals < 1) throw new UsageError(`--set ${set}: give COLUMN=VALUE`);
      return [set.slice(0, equals), set.slice(equals + 1)];
    }),
  );
}

async function user(
  settings: Settings,
  words: readonly string[],
  admin: boolean,
  sets: readonly string[],
): Promise<void> {
  const [action = '', name, ...rest] = words;
  const takesName = action === 'add' || action === 'password';
  if (!takesName && action !== 'list') throw new UsageError('vitrine user takes add, password or list');
  if (takesName ? name === undefined || rest.length > 0 : name !== undefined) {
    throw new UsageError(
      takesName ? `vitrine user ${action} takes one NAME` : 'vitrine user list takes no name',
    );
  }
  if (action !== 'add' && (admin || sets.length > 0))
    throw new UsageError('--admin and --set belong to vitrine user add');
  const values = parseSets(sets);
  const password = takesName ? await readPassword() : '';
  await withService(settings, async ({ users }) => {
    if (!users) throw new StartError('The registry has no user model.');
    if (action === 'list') {
      for (const { name: found, active, admin: isAdmin } of await users.list()) {
        print([found, ...(isAdmin ? ['admin'] : []), ...(active ? [] : ['inactive'])].join(' '));
      }
    } else if (action === 'add') await users.add(name ?? '', password, admin, values);
    else await users.setPassword(name ?? '', password);
  });
}

async function check(settings: Settings): Promise<void> {
  await withService({ ...settings, schema: 'check' }, ({ resources }) => {
    print(`the registry (${resources.size} resources) fits the database`);
    return Promise.resolve();
  });
}

async function main(parameters: readonly string[]): Promise<void> {
  const { values, positionals } = parseArguments(parameters);
  if (values.help) return print(help());
  if (values.version) return print(version());
  const [command, ...words] = positionals;
  if (command !== 'user' && (words.length > 0 || values.admin || values.set)) {
    throw new UsageError(`vitrine ${command ?? ''} takes no more words and options`);
  }
  if (command === 'serve') return serve(readSettings(process.env));
  if (command === 'check') return check(readSettings(process.env));
  if (command === 'user')
    return user(readSettings(process.env), words, values.admin === true, values.set ?? []);
  throw new UsageError(command === undefined ? 'name a command' : `there is no command ${command}`);
}

function parseArguments(parameters: readonly string[]) {
  try {
    return parseArgs({
      args: [...parameters],
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean' },
        admin: { type: 'boolean' },
        set: { type: 'string', multiple: true },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

// Whoever read our output may be gone (`vitrine --help | head`): no reason to die of it.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

main(process.argv.slice(2)).catch((error: unknown) => {
  const isExpected = error instanceof StartError || error instanceof UsageError;
  const text = isExpected ? error.message : ((error as Error)?.stack ?? String(error));
  process.stderr.write(`vitrine: ${text}\n${error instanceof UsageError ? 'Try vitrine --help.\n' : ''}`);
  process.exit(error instanceof UsageError ? 2 : 1);
});
