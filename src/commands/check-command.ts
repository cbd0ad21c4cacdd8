import { readSettings } from '../config.ts';
import { startError, StartError } from '../errors.ts';
import { checkRegistry } from '../resources/check/check-registry.ts';
import { loadResources } from '../resources/load-registry.ts';
import { printMatrix } from './check/access-matrix.ts';
import { checkPanels } from '../resources/definition/panel.ts';
import { examine, type Fault, type RegistryReport } from './check/registry-report.ts';
import type { Resource } from '../resources/definition/resource.ts';
import { noWords, parse, print, tell, withSettingsDatabase } from './command.ts';

const HELP = `
Usage: vitrine check [--matrix | --json] [--strict]

Tells what is wrong, with which the service does not start (with SCHEMA=check; SCHEMA=apply creates what is
missing), and what is dangerous; changes nothing in the database. Without DATABASE_URL that is the embedded
one, which is made where there is none yet.
It looks at the settings, the registry (RESOURCES) and the database (DATABASE_URL).

Options
  --matrix  print who may read, join, filter and write each column, and where
  --json    print one document with errors, warnings and the matrix
  --strict  warnings end it with exit code 2
  --help    show this

Exit codes
  0  nothing is wrong; there may be warnings, unless --strict was given
  1  something is wrong
  2  there are warnings, and --strict was given; or a mistake on the command line
`;

const OPTIONS = {
  matrix: { type: 'boolean' },
  json: { type: 'boolean' },
  strict: { type: 'boolean' },
} as const;

interface Outcome extends RegistryReport {
  /** The errors as the start would say them; undefined where there are none. */
  readonly message: string | undefined;
  readonly count: number;
}

/** Looks at settings, registry and database in this order, and no further where one is wrong: each needs the one before. */
async function examineAll(): Promise<Outcome> {
  let kind: Fault['kind'] = 'settings';
  try {
    const settings = readSettings(process.env);
    kind = 'registry';
    const { registry, panels } = await loadResources(settings.resources);
    const faults = [...checkRegistry(registry, settings), ...checkPanels(panels)];
    if (faults.length > 0) throw startError('The registry cannot be used', faults);
    const resources = registry as readonly Resource[];
    kind = 'database';
    const report = await withSettingsDatabase(settings, (database) =>
      examine(database, resources, settings, settings.databaseUrl === undefined),
    );
    const texts = report.errors.map(({ text }) => text);
    const { message } = startError('The database does not fit the registry', texts);
    return { ...report, message: texts.length > 0 ? message : undefined, count: resources.length };
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    const errors = error.faults.map((text) => ({ kind, text }));
    return { errors, message: error.message, warnings: [], matrix: [], count: 0 };
  }
}

/** For people: what is wrong in one message, and each danger in one. */
function printForPeople({ message, warnings, matrix, count }: Outcome, withMatrix: boolean): void {
  if (message !== undefined) tell(message);
  for (const { text } of warnings) tell(`warning: ${text}`);
  if (withMatrix && matrix.length > 0) print(`${printMatrix(matrix)}\n`);
  if (message === undefined)
    print(`the registry (${count} ${count === 1 ? 'resource' : 'resources'}) fits the database`);
}

/** `vitrine check`: everything that is wrong or dangerous, before anything listens. */
export async function checkCommand(words: readonly string[]): Promise<number> {
  const given = parse(words, OPTIONS, HELP);
  if (!given) return 0;
  noWords(given.positionals);
  const { matrix, json, strict } = given.values;
  const outcome = await examineAll();
  const { errors, warnings } = outcome;
  if (json) print(JSON.stringify({ errors, warnings, matrix: outcome.matrix }, null, 2));
  else printForPeople(outcome, matrix === true);
  if (errors.length > 0) return 1;
  return strict && warnings.length > 0 ? 2 : 0;
}
