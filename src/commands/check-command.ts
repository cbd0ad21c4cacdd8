import { readSettings } from '../config.ts';
import { StartError } from '../errors.ts';
import { loadResources } from '../resources/load-registry.ts';
import { printMatrix } from './check/access-matrix.ts';
import { misfit } from '../resources/serve/schema-setup.ts';
import { examine, type RegistryReport } from './check/registry-report.ts';
import { requireRegistry } from '../service.ts';
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

interface Outcome extends Omit<RegistryReport, 'faults'> {
  /** The step of the check that failed, if any. */
  readonly kind: 'settings' | 'registry' | 'database';
  /** The error with which the service does not start; undefined when there is none. */
  readonly error: StartError | undefined;
  readonly resourceCount: number;
}

/** Checks the settings, then the registry, then the database. Each step needs the one before, so errors end the check. */
async function examineAll({ env }: Io): Promise<Outcome> {
  let kind: Outcome['kind'] = 'settings';
  try {
    const settings = readSettings(env);
    kind = 'registry';
    const { registry, panels } = await loadResources(settings.resources);
    const resources = requireRegistry(registry, settings, panels);
    kind = 'database';
    const { faults, warnings, matrix } = await withSettingsDatabase(settings, (database) =>
      examine(database, resources, settings, settings.databaseUrl === undefined),
    );
    const error = faults.length > 0 ? misfit(faults) : undefined;
    return { kind, error, warnings, matrix, resourceCount: resources.length };
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return { kind, error, warnings: [], matrix: [], resourceCount: 0 };
  }
}

/** Prints text: all errors in one message, and one message per warning. */
function printText(io: Io, { error, warnings, matrix, resourceCount }: Outcome, withMatrix: boolean): void {
  if (error) printMessage(io, error.message);
  for (const { text } of warnings) printMessage(io, `warning: ${text}`);
  if (withMatrix && matrix.length > 0) print(io, `${printMatrix(matrix)}\n`);
  if (!error)
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
  const { kind, error, warnings } = outcome;
  const errors = (error?.faults ?? []).map((text) => ({ kind, text }));
  if (json) print(io, JSON.stringify({ errors, warnings, matrix: outcome.matrix }, null, 2));
  else printText(io, outcome, matrix === true);
  if (errors.length > 0) return 1;
  return strict && warnings.length > 0 ? 2 : 0;
}
