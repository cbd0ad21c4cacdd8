import { readSettings } from '../config.ts';
import { startError, StartError } from '../errors.ts';
import { checkRegistry } from '../resources/check.ts';
import { loadResources } from '../resources/load.ts';
import { printMatrix } from '../resources/matrix.ts';
import { checkPanels } from '../resources/panel.ts';
import { examine, type Fault, type Report } from '../resources/report.ts';
import type { Resource } from '../resources/resource.ts';
import { noWords, parse, print, tell, withSettingsDatabase } from './command.ts';

const HELP = `
Usage: vitrine check [--matrix | --json] [--strict]

Tells what is wrong, with which the service does not start, and what is dangerous; changes nothing.
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

interface Outcome extends Report {
  readonly count: number;
}

const failed = (kind: Fault['kind'], faults: readonly string[]): Outcome => ({
  errors: faults.map((text) => ({ kind, text })),
  warnings: [],
  matrix: [],
  count: 0,
});

async function examineAll(): Promise<Outcome> {
  const settings = readSettings(process.env);
  const { registry, panels } = await loadResources(settings.resources);
  const faults = [...checkRegistry(registry, settings), ...checkPanels(panels)];
  if (faults.length > 0) return failed('registry', faults);
  const resources = registry as readonly Resource[];
  const report = await withSettingsDatabase(settings, (database) =>
    examine(database, resources, settings, settings.databaseUrl === undefined),
  );
  return { ...report, count: resources.length };
}

/** For people: what is wrong in one message, and each danger in one. */
function printForPeople({ errors, warnings, matrix, count }: Outcome, withMatrix: boolean): void {
  const [first] = errors;
  const texts = errors.map(({ text }) => text);
  if (first?.kind === 'registry') tell(startError('The registry cannot be used', texts).message);
  else if (first) tell(startError('The database does not fit the registry', texts).message);
  for (const { text } of warnings) tell(`warning: ${text}`);
  if (withMatrix && matrix.length > 0) print(`${printMatrix(matrix)}\n`);
  if (!first) print(`the registry (${count} ${count === 1 ? 'resource' : 'resources'}) fits the database`);
}

/** `vitrine check`: everything that is wrong or dangerous, before anything listens. */
export async function check(words: readonly string[]): Promise<number> {
  const given = parse(words, OPTIONS, HELP);
  if (!given) return 0;
  noWords('check', given.positionals);
  const { matrix, json, strict } = given.values;
  const outcome = await examineAll().catch((error: unknown) => {
    if (!json || !(error instanceof StartError)) throw error;
    return failed('start', [error.message]);
  });
  const { errors, warnings } = outcome;
  if (json) print(JSON.stringify({ errors, warnings, matrix: outcome.matrix }, null, 2));
  else printForPeople(outcome, matrix === true);
  if (errors.length > 0) return 1;
  return strict && warnings.length > 0 ? 2 : 0;
}
