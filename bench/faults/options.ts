import { parseArgs } from 'node:util';
import type { Fault } from './stage.ts';

export interface Options {
  readonly faults: readonly Fault[];
  readonly rounds: number;
  /** How long a fault lasts, where it does not set this itself. */
  readonly seconds: number;
  readonly isShort: boolean;
  /** Processes of the service. */
  readonly workers: number;
  /** Whether a standby answers reads. */
  readonly hasReplica: boolean;
  readonly isJson: boolean;
  /** Whether this is the full run, whose table is kept. */
  readonly isFull: boolean;
}

const USAGE = `Usage: npm run faults -- [FAULT...] [--rounds N] [--seconds N] [--workers N] [--replica] [--short] [--json]

Runs the service under load, causes faults, and checks that no acknowledged write is lost. Without the name of a fault it runs
all of them, and writes the table to bench/faults.md. Exit code 1 where an invariant does not hold.

  --rounds N    rounds of each fault (3)
  --seconds N   how long a fault lasts (2)
  --workers N   processes of the service (1)
  --replica     a standby answers reads
  --short       one round of the faults that are quick to cause; prints counts only
  --json        prints the result as JSON
  FAULTS_POSTGRES_BIN  environment variable: the folder of PostgreSQL's programs, for another version than the embedded one

Faults: `;

function positive(name: string, text: string): number {
  const number = Number(text);
  if (!(number > 0)) throw new Error(`--${name} must be a number above 0 (got ${text})`);
  return number;
}

/**
 * Reads the command line.
 * @returns the text to print instead of a run, for `--help`
 * @throws Error for an unknown option or fault
 */
export function parseOptions(words: readonly string[], all: readonly Fault[]): Options | string {
  const { values, positionals } = parseArgs({
    args: [...words],
    allowPositionals: true,
    options: {
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      workers: { type: 'string', default: '1' },
      replica: { type: 'boolean', default: false },
      short: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const names = all.map(({ name }) => name);
  if (values.help) return `${USAGE}${names.join(', ')}\n`;
  const unknown = positionals.filter((name) => !names.includes(name));
  if (unknown.length > 0)
    throw new Error(`unknown fault ${unknown.join(', ')}; there are ${names.join(', ')}`);
  const isChosen = ({ name, isShort }: Fault): boolean =>
    positionals.length > 0 ? positionals.includes(name) : isShort || !values.short;
  return {
    faults: all.filter(isChosen),
    rounds: Math.ceil(positive('rounds', values.rounds ?? (values.short ? '1' : '3'))),
    seconds: positive('seconds', values.seconds ?? (values.short ? '1' : '2')),
    isShort: values.short,
    workers: positive('workers', values.workers),
    hasReplica: values.replica,
    isJson: values.json,
    isFull:
      positionals.length === 0 &&
      !values.short &&
      !values.replica &&
      values.workers === '1' &&
      values.rounds === undefined &&
      values.seconds === undefined,
  };
}
