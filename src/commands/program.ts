// Runs a command, and turns its errors into messages and exit codes.
import { readFileSync } from 'node:fs';
import { SETTINGS, withoutFileValues } from '../config.ts';
import { Problem, StartError } from '../errors.ts';
import { refuseArguments, parse, print, UsageError, type Io } from './command.ts';

const USAGE = `Usage: vitrine <command>

Commands
  serve [--watch]           start the service
  init [FOLDER]             create a project: a registry, settings, a systemd unit
  introspect                print a registry for the tables of an existing database
  check                     report errors and risky settings without starting the service or changing the database
  schema                    print the SQL that creates the tables, or the grants for a role
  user add NAME [--admin] [--set COLUMN=VALUE]... [--link]
                            create a user; the password comes from the terminal or standard input
  user password NAME        set a user's password, read in the same way
  user link NAME            print a link with which the user sets the password
  user sessions NAME [--end]
                            list or end a user's sessions of the admin area
  user mfa NAME --reset     remove a user's second factor
  user list                 list the users
  token add USER [--resources NAME,...] [--methods METHOD,...] [--expires DAYS] [--label TEXT]
                            make a token of the API, and print it
  token list [USER]         list the tokens
  token revoke ID           revoke a token
  history verify            check the sealed history
  history export            print it as lines of JSON

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
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/**
 * The commands by name. Each gets the arguments after its name, and returns an exit code unless that is 0. Imports are dynamic,
 * because most commands need little of the program.
 */
const COMMANDS: Readonly<Record<string, (args: readonly string[], io: Io) => Promise<number | void>>> = {
  serve: async (args, io) => (await import('./serve.ts')).serve(args, io, help()),
  init: async (args, io) => (await import('./init.ts')).init(args, io),
  introspect: async (args, io) => (await import('./introspect-command.ts')).introspectCommand(args, io),
  check: async (args, io) => (await import('./check-command.ts')).checkCommand(args, io),
  schema: async (args, io) => (await import('./schema.ts')).schema(args, io),
  user: async (args, io) => (await import('./users.ts')).users(args, io),
  history: async (args, io) => (await import('./history.ts')).history(args, io),
  token: async (args, io) => (await import('./tokens.ts')).tokens(args, io),
};

const isCommand = (name = ''): boolean => Object.hasOwn(COMMANDS, name);

/** Turns `vitrine help` and `vitrine help COMMAND` into `--help`. */
function expandHelp(args: readonly string[]): readonly string[] {
  const [first, command = ''] = args;
  if (first !== 'help') return args;
  return isCommand(command) ? [command, '--help'] : ['--help'];
}

async function dispatch([command, ...args]: readonly string[], io: Io): Promise<number | void> {
  if (isCommand(command)) return COMMANDS[command ?? '']?.(args, io);
  const options = command?.startsWith('-') ? [command, ...args] : [];
  const parsed = parse(options, { version: { type: 'boolean', short: 'v' } }, help(), io);
  if (!parsed) return;
  if (parsed.values.version) {
    refuseArguments(parsed.positionals);
    return print(io, version());
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

/**
 * Runs `vitrine` with these arguments.
 * @returns the exit code
 * @throws what `reportError` reports
 */
export async function runProgram(args: readonly string[], io: Io): Promise<number> {
  return (await dispatch(expandHelp(args), io)) ?? 0;
}

/**
 * Prints the message for an error of `runProgram`.
 * @returns the exit code: 2 for a mistake on the command line, else 1
 */
export function reportError(error: unknown, args: readonly string[], { stderr, env }: Io): number {
  stderr.write(withoutFileValues(errorMessage(error, expandHelp(args)[0]), env));
  return error instanceof UsageError ? 2 : 1;
}
