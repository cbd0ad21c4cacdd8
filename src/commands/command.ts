import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { readSettings, type Settings } from '../config.ts';
import { openDatabase, type Database } from '../db/connection/database.ts';
import { startEmbedded } from '../db/connection/embedded.ts';
import { isDatabaseError, reasonOf } from '../db/connection/database-errors.ts';
import { StartError } from '../errors.ts';

/** A mistake on the command line, said without the name of the command: exit code 2. */
export class UsageError extends Error {}

/** A result, on standard output. */
export const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** A message for whoever sits there, on standard error. */
export const tell = (text: string): void => void process.stderr.write(`vitrine: ${text}\n`);

interface Option {
  readonly type: 'string' | 'boolean';
  readonly multiple?: boolean;
  readonly short?: string;
}
type Options = Readonly<Record<string, Option>>;

/** What was given of the options: a text, several of them, or true. */
type Values<Given extends Options> = {
  readonly [Name in keyof Given]?: Given[Name] extends { readonly multiple: true }
    ? string[]
    : Given[Name] extends { readonly type: 'string' }
      ? string
      : boolean;
};

/** What stands behind a command's name. */
export interface GivenWords<Given extends Options> {
  readonly values: Values<Given>;
  readonly positionals: readonly string[];
}

/**
 * The options and words of a command.
 * @returns undefined where only the command's help was asked for, which is printed
 * @throws UsageError for an option that the command does not have
 */
export function parse<Given extends Options>(
  words: readonly string[],
  options: Given,
  help: string,
): GivenWords<Given> | undefined {
  const all = { ...options, help: { type: 'boolean', short: 'h' } } as const;
  try {
    const { values, positionals } = parseArgs({ args: [...words], allowPositionals: true, options: all });
    if (!(values as { help?: boolean }).help) return { values, positionals };
  } catch (error) {
    // Behind the first sentence Node tells of things that no command here takes.
    const [what = ''] = (error as Error).message.split('. ');
    throw new UsageError(what);
  }
  print(help.trim());
  return undefined;
}

/** @throws UsageError for a word that the command does not take */
export function noWords(words: readonly string[]): void {
  if (words.length > 0) throw new UsageError(`Unexpected argument ${JSON.stringify(words[0])}`);
}

/**
 * The address of a database that must be there already.
 * @throws StartError without one
 */
export function requireDatabaseUrl(command: string): string {
  const { databaseUrl } = readSettings({ DATABASE_URL: process.env['DATABASE_URL'] });
  if (databaseUrl === undefined) {
    throw new StartError(
      `vitrine ${command} reads a database: set DATABASE_URL=postgres://user:password@host:port/name.`,
    );
  }
  return databaseUrl;
}

/** Works with a database, and leaves nothing open. */
export async function withDatabase<T>(url: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = openDatabase(url);
  try {
    return await work(database);
  } catch (error) {
    throw isDatabaseError(error) ? new StartError(`The database cannot be used: ${reasonOf(error)}`) : error;
  } finally {
    await database.close();
  }
}

/** The database of the settings; where they name none, the embedded PostgreSQL runs for as long as the work takes. */
export async function withSettingsDatabase<T>(
  { databaseUrl }: Settings,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const embedded = databaseUrl === undefined ? await startEmbedded(resolve('.data')) : undefined;
  try {
    return await withDatabase(databaseUrl ?? embedded?.url ?? '', work);
  } finally {
    await embedded?.stop();
  }
}
