// The `vitrine` program: runs a command and turns errors into messages and exit codes.
import { readFileSync } from 'node:fs';
import { refuseArguments, parse, print, UsageError } from './commands/command.ts';
import { SETTINGS } from './config.ts';
import { Problem, StartError } from './errors.ts';

const USAGE = `Usage: vitrine <command>

Commands
  serve                     start the service
  init [FOLDER]             create a project: a registry, settings, a systemd unit
  introspect                print a registry for the tables of an existing database
  check                     report errors and risky settings without starting the service or changing the database
  schema                    print the SQL that creates the tables, or the grants for a role
  user add NAME [--admin] [--set COLUMN=VALUE]...
                            create a user; the password comes from the terminal or standard input
  user password NAME        set a user's password, read in the same way
  user list                 list the users

Options
  --help                    show this help, or the help of a command (also -h and help)
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
 * The commands by name. Each gets the arguments after its name, and returns an exit code unless that is 0. Imports are dynamic,
 * because most commands need little of the program.
 */
const COMMANDS: Readonly<Record<string, (args: readonly string[]) => Promise<number | void>>> = {
  serve: async (args) => (await import('./commands/serve.ts')).serve(args, help()),
  init: async (args) => (await import('./commands/init.ts')).init(args),
  introspect: async (args) => (await import('./commands/introspect-command.ts')).introspectCommand(args),
  check: async (args) => (await import('./commands/check-command.ts')).checkCommand(args),
  schema: async (args) => (await import('./commands/schema.ts')).schema(args),
  user: async (args) => (await import('./commands/users.ts')).users(args),
};

const isCommand = (name = ''): boolean => Object.hasOwn(COMMANDS, name);

/** Turns `vitrine help` and `vitrine help COMMAND` into `--help`. */
function expandHelp(args: readonly string[]): readonly string[] {
  const [first, command = ''] = args;
  if (first !== 'help') return args;
  return isCommand(command) ? [command, '--help'] : ['--help'];
}

async function main([command, ...args]: readonly string[]): Promise<number | void> {
  if (isCommand(command)) return COMMANDS[command ?? '']?.(args);
  const options = command?.startsWith('-') ? [command, ...args] : [];
  const parsed = parse(options, { version: { type: 'boolean', short: 'v' } }, help());
  if (!parsed) return;
  if (parsed.values.version) {
    refuseArguments(parsed.positionals);
    return print(version());
  }
  throw new UsageError(
    command === undefined ? 'Expected a command' : `Unknown command ${JSON.stringify(command)}`,
  );
}

/** A hint for an option that is the name of a setting: `--port 9000` means `PORT=9000`. */
function settingHint(text: string): string {
  const name = /^Unknown option '--([a-z-]+)'/.exec(text)?.[1]?.toUpperCase().replaceAll('-', '_') ?? '';
  return Object.hasOwn(SETTINGS, name) ? `. Settings are environment variables: ${name}=… vitrine serve` : '';
}

/** The message for standard error, with a stack only for unexpected errors. */
function errorMessage(error: unknown, firstArgument: string | undefined): string {
  const isExpected = [StartError, Problem].some((kind) => error instanceof kind);
  if (!(error instanceof UsageError)) {
    const text = isExpected ? (error as Error).message : ((error as Error)?.stack ?? String(error));
    return `vitrine: ${text}\n`;
  }
  const command = isCommand(firstArgument) ? `vitrine ${firstArgument}` : 'vitrine';
  const hint = firstArgument === 'serve' ? settingHint(error.message) : '';
  return `${command}: ${error.message}${hint}\nTry ${command} --help.\n`;
}

// A closed pipe (`vitrine --help | head`) must not crash the process.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const commandLine = expandHelp(process.argv.slice(2));

/** Runs when the event loop is empty before the command has finished, for example because of a promise that never settles. */
const reportStall = (): void => {
  process.stderr.write(
    'vitrine: The command cannot finish: it waits for something that never happens. Check what the registry file awaits.\n',
  );
  process.exitCode = 1;
};
process.once('beforeExit', reportStall);

main(commandLine).then(
  (code) => {
    process.off('beforeExit', reportStall);
    if (code) process.exitCode = code;
  },
  (error: unknown) => {
    process.stderr.write(errorMessage(error, commandLine[0]));
    process.exit(error instanceof UsageError ? 2 : 1);
  },
);
