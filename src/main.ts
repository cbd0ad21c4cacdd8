import { readFileSync } from 'node:fs';
import { noWords, parse, print, UsageError } from './commands/command.ts';
import { SETTINGS } from './config.ts';
import { Problem, StartError } from './errors.ts';

const USAGE = `Usage: vitrine <command>

Commands
  serve                     start the service
  init [FOLDER]             make a project: a registry, settings, a systemd unit
  introspect                print a registry that serves the tables of a database as they are
  check                     tell what is wrong or dangerous before anything listens, and change nothing in the database
  schema                    print the SQL that creates the tables, or the grants of a role
  user add NAME [--admin] [--set COLUMN=VALUE]...
                            create a user; the password comes from the terminal or standard input
  user password NAME        set a user's password, read likewise
  user list                 list the users

Options
  --help                    show this, or the help of a command (also -h and help)
  --version                 show the version (also -v)

Settings (environment variables)
`;

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

/**
 * Each takes the words behind its name, and gives an exit code where it is not 0. Only what is asked for is loaded: most
 * commands need little of the program.
 */
const COMMANDS: Readonly<Record<string, (words: readonly string[]) => Promise<number | void>>> = {
  serve: async (words) => (await import('./commands/serve.ts')).serve(words, help()),
  init: async (words) => (await import('./commands/init.ts')).init(words),
  introspect: async (words) => (await import('./commands/introspect-command.ts')).introspectCommand(words),
  check: async (words) => (await import('./commands/check-command.ts')).checkCommand(words),
  schema: async (words) => (await import('./commands/schema.ts')).schema(words),
  user: async (words) => (await import('./commands/users.ts')).users(words),
};

const isCommand = (word = ''): boolean => Object.hasOwn(COMMANDS, word);

/** `vitrine help` and `vitrine help COMMAND` do what `--help` does. */
function withoutHelp(words: readonly string[]): readonly string[] {
  const [first, command = ''] = words;
  if (first !== 'help') return words;
  return isCommand(command) ? [command, '--help'] : ['--help'];
}

async function main([command, ...words]: readonly string[]): Promise<number | void> {
  if (isCommand(command)) return COMMANDS[command ?? '']?.(words);
  const options = command?.startsWith('-') ? [command, ...words] : [];
  const given = parse(options, { version: { type: 'boolean', short: 'v' } }, help());
  if (!given) return;
  if (given.values.version) {
    noWords(given.positionals);
    return print(version());
  }
  throw new UsageError(
    command === undefined ? 'Expected a command' : `Unknown command ${JSON.stringify(command)}`,
  );
}

/** What a setting is set by, for those who try an option: `--port 9000` is meant as `PORT=9000`. */
function settingFor(text: string): string {
  const name = /^Unknown option '--([a-z-]+)'/.exec(text)?.[1]?.toUpperCase().replaceAll('-', '_') ?? '';
  return Object.hasOwn(SETTINGS, name) ? `. Settings are environment variables: ${name}=… vitrine serve` : '';
}

/** One message for standard error. */
function describe(error: unknown, word: string | undefined): string {
  const isExpected = [StartError, Problem].some((kind) => error instanceof kind);
  if (!(error instanceof UsageError)) {
    const text = isExpected ? (error as Error).message : ((error as Error)?.stack ?? String(error));
    return `vitrine: ${text}\n`;
  }
  const command = isCommand(word) ? `vitrine ${word}` : 'vitrine';
  const hint = word === 'serve' ? settingFor(error.message) : '';
  return `${command}: ${error.message}${hint}\nTry ${command} --help.\n`;
}

// Whoever read our output may be gone (`vitrine --help | head`): no reason to die of it.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const parameters = withoutHelp(process.argv.slice(2));

/** Nothing is left that could happen, and the command is not done. */
const unfinished = (): void => {
  process.stderr.write(
    'vitrine: The command cannot be finished: it waits for something that never comes. Look at what the registry file awaits.\n',
  );
  process.exitCode = 1;
};
process.once('beforeExit', unfinished);

main(parameters).then(
  (code) => {
    process.off('beforeExit', unfinished);
    if (code) process.exitCode = code;
  },
  (error: unknown) => {
    process.stderr.write(describe(error, parameters[0]));
    process.exit(error instanceof UsageError ? 2 : 1);
  },
);
