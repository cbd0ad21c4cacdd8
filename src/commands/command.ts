// What the commands share: arguments, output, and access to the database.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs, parseEnv, type ParseArgsConfig } from 'node:util';
import { readSettings, variablesOf, type Settings } from '../config.ts';
import { openDatabase, type Database } from '../db/connection/database.ts';
import { startEmbedded } from './embedded.ts';
import type { EmbeddedDatabase } from '../processes.ts';
import { databaseFault } from '../db/connection/database-errors.ts';
import { StartError } from '../errors.ts';
import { readSettingsFile } from '../setting-values.ts';
import { ENV_FILE } from './env-file.ts';

/** A mistake on the command line: exit code 2. The message leaves out the command's name. */
export class UsageError extends Error {}

/** The variables, the input and the output of a command: those of `process`, or of a test. */
export interface Io {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly stdout: { readonly write: (text: string) => unknown };
  readonly stderr: NodeJS.WritableStream;
}

/** Prints a result to standard output. */
export const print = ({ stdout }: Io, text: string): void => void stdout.write(`${text}\n`);

/** Prints a message for the user to standard error. */
export const printMessage = ({ stderr }: Io, text: string): void => void stderr.write(`vitrine: ${text}\n`);

type Options = NonNullable<ParseArgsConfig['options']>;

/** The arguments after the name of a command. */
type ParsedArguments<Known extends Options> = Pick<
  ReturnType<typeof parseArgs<{ readonly options: Known; readonly allowPositionals: true }>>,
  'values' | 'positionals'
>;

/**
 * Parses the arguments of a command.
 * @returns undefined for `--help`, after printing the help
 * @throws UsageError for an unknown option
 */
export function parse<Known extends Options>(
  args: readonly string[],
  options: Known,
  help: string,
  io: Io,
): ParsedArguments<Known> | undefined {
  const all = { ...options, help: { type: 'boolean', short: 'h' } } as const;
  try {
    const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options: all });
    if (!(values as { help?: boolean }).help) return { values, positionals };
  } catch (error) {
    // The further sentences are advice that does not apply here.
    const [mistake = ''] = (error as Error).message.split('. ');
    throw new UsageError(mistake);
  }
  print(io, help.trim());
  return undefined;
}

/** @throws UsageError for any argument that is not an option */
export function refuseArguments(args: readonly string[]): void {
  if (args.length > 0) throw new UsageError(`Unexpected argument ${JSON.stringify(args[0])}`);
}

/**
 * The DATABASE_URL, for commands that need an existing database.
 * @throws StartError when it is not set
 */
export function requireDatabaseUrl(command: string, { env }: Io): string {
  const { databaseUrl } = readSettings(variablesOf('DATABASE_URL', env));
  if (databaseUrl === undefined) {
    throw new StartError(
      `vitrine ${command} needs an existing database: set DATABASE_URL=postgres://user:password@host:port/name.`,
    );
  }
  return databaseUrl;
}

/** Runs the work with a connected database, and closes it afterwards. */
export async function withDatabase<T>(url: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = openDatabase(url);
  try {
    return await work(database);
  } catch (error) {
    throw databaseFault(error);
  } finally {
    await database.close();
  }
}

/** Whether a file with settings names a registry. That of another program does not. */
function namesRegistry(file: string): boolean {
  try {
    const { RESOURCES, RESOURCES_FILE } = parseEnv(readSettingsFile(file));
    return Boolean(RESOURCES) || Boolean(RESOURCES_FILE);
  } catch {
    return false;
  }
}

/**
 * Starts the embedded PostgreSQL of the current folder. It says so first where this creates a database.
 * @throws StartError in a project that has not been started: without its settings, the new database would be for other models
 */
export async function openEmbedded(): Promise<EmbeddedDatabase> {
  const folder = resolve('.data');
  const { RESOURCES = '', RESOURCES_FILE = '' } = process.env;
  const hasRegistry = existsSync(ENV_FILE) || RESOURCES !== '' || RESOURCES_FILE !== '';
  if (!existsSync(folder) && !hasRegistry && namesRegistry(`${ENV_FILE}.example`))
    throw new StartError(
      `This folder has ${ENV_FILE}.example but no ${ENV_FILE}, so the settings are missing. Copy it: cp ${ENV_FILE}.example ${ENV_FILE}`,
    );
  return startEmbedded(folder, [], () =>
    process.stderr.write(`vitrine: DATABASE_URL is not set: creating an embedded PostgreSQL in ${folder}\n`),
  );
}

/** Runs the work with the database of the settings, or else with the embedded PostgreSQL, which it starts and stops. */
export async function withSettingsDatabase<T>(
  { databaseUrl }: Settings,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const embedded = databaseUrl === undefined ? await openEmbedded() : undefined;
  try {
    return await withDatabase(databaseUrl ?? embedded?.url ?? '', work);
  } finally {
    await embedded?.stop();
  }
}
