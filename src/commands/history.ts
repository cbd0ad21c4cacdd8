// `vitrine history`: checks and exports the sealed history.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readSettings, variablesOf } from '../config.ts';
import type { Database } from '../db/connection/database.ts';
import { StartError } from '../errors.ts';
import { counted } from '../messages.ts';
import { existingTables } from '../query/statements/seal-statements.ts';
import { SEAL } from '../resources/definition/system-tables.ts';
import { readKey, SEALED_TABLES, type SealContent } from '../resources/history/seals.ts';
import {
  lineOf,
  partsIn,
  partsInFile,
  verifyHistory,
  witnessedIn,
  type Findings,
  type Part,
} from '../resources/history/verify-history.ts';
import { parse, print, UsageError, withSettingsDatabase, type Io } from './command.ts';

const HELP = `
Usage: vitrine history verify [--file FILE] [--key FILE]... [--witness FILE] [--from NUMBER]
       vitrine history export

"verify" checks the history against the checkpoints that the service has made with HISTORY_KEY, and names the first entries that
were changed, removed, reordered or added. The exit code is 1 if there are any. "export" prints the entries, events and
checkpoints, one line of JSON each.

Options
  --file FILE       check an export instead of the database
  --key FILE        a key with which checkpoints are signed, public or private, in PEM (HISTORY_KEY)
  --witness FILE    the witness, or its folder (HISTORY_WITNESS), or a log of the service
  --from NUMBER     older entries than those of this checkpoint may be missing
  --help            show this help
`;

const OPTIONS = {
  file: { type: 'string' },
  key: { type: 'string', multiple: true },
  witness: { type: 'string' },
  from: { type: 'string' },
} as const;

async function withParts<T>(
  io: Io,
  isWhole: boolean,
  work: (parts: AsyncIterable<Part>) => Promise<T>,
): Promise<T> {
  const settings = readSettings(variablesOf('DATABASE_URL', io.env));
  return withSettingsDatabase(settings, async (database: Database) => {
    const tables = [...SEALED_TABLES, SEAL.model].map((name) => ({ name, table: name }));
    return work(partsIn(database, await database.run(existingTables(tables), 'read'), isWhole));
  });
}

/** The lines of a witness: a file, or those of a folder. */
function readWitness(path: string): string[] {
  try {
    const files = statSync(path).isDirectory()
      ? readdirSync(path)
          .sort()
          .map((name) => join(path, name))
      : [path];
    return files.flatMap((file) => readFileSync(file, 'utf8').split('\n'));
  } catch (error) {
    throw new StartError(`The witness ${path} cannot be read: ${(error as Error).message}`);
  }
}

const endOf = ({ number, at, tables }: SealContent): string => {
  const ends = Object.entries(tables).map(([table, span]) => `${table} up to ${span?.last}`);
  return `checkpoint ${number} (${at}): ${ends.join(', ')}`;
};

/** What the checks have found, and what they cannot prove. */
function reportOf(found: Findings, hasKeys: boolean, hasWitness: boolean): string[] {
  const { faults, count, checkpoints, entries, last, lastWitnessed, unsealed } = found;
  const more = count - faults.length;
  const unproven = [
    ...(hasKeys
      ? []
      : ['Without a key, signatures were not checked: anyone could have made the checkpoints.']),
    ...(!hasWitness
      ? ['Without a witness, checkpoints at the end could be missing, with their entries.']
      : lastWitnessed === undefined
        ? ['The witness has none of the checkpoints.']
        : last === lastWitnessed
          ? []
          : [`The witness has not seen what follows its last checkpoint: ${endOf(lastWitnessed)}.`]),
    ...(unsealed > 0 ? [`${counted(unsealed, 'entry is', 'entries are')} not sealed yet.`] : []),
  ];
  return [
    ...faults,
    ...(more > 0 ? [`and ${counted(more, 'more fault')}`] : []),
    `${count === 0 ? 'intact' : 'BROKEN'}: ${counted(checkpoints, 'checkpoint')} with ${counted(entries, 'entry', 'entries')}`,
    ...(last ? [`sealed: ${endOf(last)}`] : ['There are no checkpoints, so nothing is proven.']),
    ...unproven.map((text) => `not proven: ${text}`),
  ];
}

/** `vitrine history` */
export async function history(args: readonly string[], io: Io): Promise<number | void> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return;
  const { values, positionals } = parsed;
  const [action = '', ...rest] = positionals;
  if (!['verify', 'export'].includes(action) || rest.length > 0)
    throw new UsageError('Expected verify or export');
  const [option] = Object.keys(values);
  if (action === 'export' && option !== undefined)
    throw new UsageError(`--${option} is only for "history verify"`);
  if (action === 'export')
    return withParts(io, true, async (parts) => {
      for await (const part of parts) print(io, lineOf(part));
    });
  const { historyKey, historyWitness } = readSettings({
    ...variablesOf('HISTORY_KEY', io.env),
    ...variablesOf('HISTORY_WITNESS', io.env),
  });
  const { file, from = '1' } = values;
  if (!/^\d{1,18}$/.test(from)) throw new UsageError('--from must be the number of a checkpoint');
  const witness = values.witness ?? historyWitness;
  const keys = values.key
    ? values.key.map((file) => readKey(file, 'public', `--key ${file}`))
    : [historyKey].flatMap((given) => (given === undefined ? [] : readKey(given, 'public')));
  const witnessed = witness === undefined ? [] : witnessedIn(readWitness(witness));
  const check = (parts: AsyncIterable<Part>): Promise<Findings> =>
    verifyHistory(parts, { keys, witnessed, from: BigInt(from) });
  const found = await (file === undefined ? withParts(io, false, check) : check(partsInFile(file)));
  for (const line of reportOf(found, keys.length > 0, witness !== undefined)) print(io, line);
  return found.count > 0 || found.checkpoints === 0 ? 1 : 0;
}
