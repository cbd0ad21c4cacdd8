import { readSettings } from '../config.ts';
import { startError, StartError } from '../errors.ts';
import { checkRegistry } from '../resources/check/check-registry.ts';
import { loadResources } from '../resources/load-registry.ts';
import { printMatrix } from './check/access-matrix.ts';
import { checkPanels } from '../resources/definition/panel.ts';
import { examine, type Fault, type RegistryReport } from './check/registry-report.ts';
import type { Resource } from '../resources/definition/resource.ts';
import { refuseArguments, parse, print, printMessage, withSettingsDatabase, type Io } from './command.ts';

const HELP = `
Usage: vitrine check [--matrix | --json] [--strict]

Checks the settings, the registry (RESOURCES) and the database (DATABASE_URL), and changes nothing in the database.
Reports errors, with which the service does not start, and warnings about risky settings. Missing tables and columns
are errors here, although SCHEMA=apply creates them at the start.
Without DATABASE_URL it starts the embedded database, and creates it when it does not exist.

Options
  --matrix  print who may read, join, filter and write each column, in the API and in the admin area
  --json    print errors, warnings and the matrix as one JSON document
  --strict  exit with code 2 when there are warnings
  --help    show this help

Exit codes
  0  no errors; with --strict also no warnings
  1  errors
  2  only warnings, with --strict; or a mistake on the command line
`;

const OPTIONS = {
  matrix: { type: 'boolean' },
  json: { type: 'boolean' },
  strict: { type: 'boolean' },
} as const;

interface Outcome extends RegistryReport {
  /** The errors as the service reports them at the start; undefined when there are none. */
  readonly message: string | undefined;
  readonly resourceCount: number;
}

/** Checks the settings, then the registry, then the database. Each step needs the one before, so errors end the check. */
async function examineAll({ env }: Io): Promise<Outcome> {
  let kind: Fault['kind'] = 'settings';
  try {
    const settings = readSettings(env);
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
    return { ...report, message: texts.length > 0 ? message : undefined, resourceCount: resources.length };
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    const errors = error.faults.map((text) => ({ kind, text }));
    return { errors, message: error.message, warnings: [], matrix: [], resourceCount: 0 };
  }
}

/** Prints text: all errors in one message, and one message per warning. */
function printText(io: Io, { message, warnings, matrix, resourceCount }: Outcome, withMatrix: boolean): void {
  if (message !== undefined) printMessage(io, message);
  for (const { text } of warnings) printMessage(io, `warning: ${text}`);
  if (withMatrix && matrix.length > 0) print(io, `${printMatrix(matrix)}\n`);
  if (message === undefined)
    print(
      io,
      `the registry (${resourceCount} ${resourceCount === 1 ? 'resource' : 'resources'}) fits the database`,
    );
}

/** `vitrine check`: reports errors and warnings without starting the service. */
export async function checkCommand(args: readonly string[], io: Io): Promise<number> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return 0;
  refuseArguments(parsed.positionals);
  const { matrix, json, strict } = parsed.values;
  const outcome = await examineAll(io);
  const { errors, warnings } = outcome;
  if (json) print(io, JSON.stringify({ errors, warnings, matrix: outcome.matrix }, null, 2));
  else printText(io, outcome, matrix === true);
  if (errors.length > 0) return 1;
  return strict && warnings.length > 0 ? 2 : 0;
}
