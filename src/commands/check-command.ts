// `vitrine check`: reports errors and warnings without starting the service.
import { readSettings, withoutFileValues, type Settings } from '../config.ts';
import { tableOf } from '../db/schema/model-definition.ts';
import { quotedTable } from '../db/fragment.ts';
import { databaseInfoStatement } from '../db/schema/relations.ts';
import { sequenceWarnings } from '../db/schema/sequences.ts';
import { StartError, type Fault } from '../errors.ts';
import { counted } from '../messages.ts';
import type { Resource } from '../resources/definition/resource.ts';
import { readKey } from '../resources/history/seals.ts';
import { HISTORY, SEAL } from '../resources/definition/system-tables.ts';
import { serveForAdmin } from '../resources/access/admin-view.ts';
import { compareSchema, misfit, readCatalog, runOnCatalog } from '../resources/setup/schema-setup.ts';
import { addressWarnings, constraintWarnings, warningsOfEngine } from '../resources/setup/start-warnings.ts';
import { ADMIN } from '../resources/access/access.ts';
import { hasLogins } from '../resources/access/resource-view.ts';
import { areaSubjects } from '../resources/access/who-may.ts';
import { userFactsOf, type AccessSettings } from '../resources/access/rights.ts';
import { accessMatrix, printMatrix, type Areas, type ResourceAccess } from './check/access-matrix.ts';
import { lockedRights, printRight, readLock, rightsBeyond, writeLock } from './check/policy-lock.ts';
import { checkViewKeys } from './check/view-keys.ts';
import { warningsOf, type Warning } from './check/risk-warnings.ts';
import {
  refuseArguments,
  parse,
  print,
  printMessage,
  UsageError,
  withSettingsDatabase,
  type Io,
} from './command.ts';
import { loadDefinitions } from './running-service.ts';
import { randomBytes } from 'node:crypto';
import type { Database } from '../db/connection/database.ts';
import { openReplicas } from '../db/replicas/replicas.ts';

/**
 * @param primary the database of DATABASE_URL
 * @returns the error that would stop a start. A server that cannot be reached does not stop it.
 */
export async function checkReadAddresses(
  primary: Database,
  { databaseReadUrl, maxLag, slowTimeout }: Settings,
): Promise<StartError | undefined> {
  try {
    const replicas = await openReplicas({
      urls: databaseReadUrl,
      maxLag,
      slowTimeout: slowTimeout * 1000,
      primary,
      secret: randomBytes(32), // there are no writes whose positions it would sign
      report: () => undefined,
    });
    await replicas.close();
    return undefined;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    const faults = error.faults.map((fault) => `DATABASE_READ_URL: ${fault}`);
    return new StartError(error.message, faults);
  }
}

const HELP = `
Usage: vitrine check [--matrix | --json] [--strict]
       vitrine check --lock FILE [--locked]

Checks the settings, the registry (RESOURCES) and the database (DATABASE_URL), and changes nothing in the database.
Reports errors, with which the service does not start, and warnings about risky settings. Missing tables and columns
are errors here, although SCHEMA=apply creates them at the start. So are NULL and duplicate keys in views and foreign
tables, with which the service does start.
Without DATABASE_URL it starts the embedded database, and creates it when it does not exist.

With --lock it checks only the settings and the registry, and needs no database.

Options
  --matrix     print who may read, join, filter and write each column, in the API and in the admin area
  --json       print errors, warnings and the matrix as one JSON document
  --strict     exit with code 2 when there are warnings; what anyone can read because of read: 'default' is none
  --lock FILE  write all rights that the registry gives to a file, such as policy.lock
  --locked     compare them with the file instead, and fail when someone has more rights than in the file
  --help       show this help

Exit codes
  0  no errors; with --strict also no warnings; with --locked no further rights
  1  errors, or further rights
  2  only warnings, with --strict; or a mistake on the command line
`;

const OPTIONS = {
  matrix: { type: 'boolean' },
  json: { type: 'boolean' },
  strict: { type: 'boolean' },
  lock: { type: 'string' },
  locked: { type: 'boolean' },
} as const;

/** What `vitrine check` finds in a valid registry. */
interface RegistryReport {
  /** The error with which the service does not start; undefined when there is none. */
  readonly error: StartError | undefined;
  readonly warnings: readonly Warning[];
  readonly matrix: readonly ResourceAccess[];
}

/** One error for the differences to the database and for DATABASE_READ_URL; undefined when there are none. */
function startErrorOf(
  differences: readonly Fault[],
  readAddresses: StartError | undefined,
): StartError | undefined {
  if (differences.length === 0) return readAddresses;
  const difference = misfit(differences);
  if (!readAddresses) return difference;
  const errors = [difference, readAddresses];
  return new StartError(
    errors.map(({ message }) => message).join('\n'),
    errors.flatMap(({ faults }) => faults),
  );
}

const textWarnings = (kind: Warning['kind'], texts: readonly string[]): Warning[] =>
  texts.map((text) => ({ kind, text }));

/**
 * Checks a valid registry against its database, and changes nothing.
 * @param isEmbedded the database is the embedded one, which is for trying things out
 */
async function examine(
  database: Database,
  resources: readonly Resource[],
  settings: Settings & AccessSettings,
  isEmbedded: boolean,
): Promise<RegistryReport> {
  const catalog = await readCatalog(database, resources);
  const { schema, views, definitions, faults } = compareSchema(resources, catalog, settings);
  const served = views(ADMIN);
  const databaseInfo = await runOnCatalog(database, databaseInfoStatement(definitions.map(tableOf)));
  const hasAdminArea = hasLogins(resources, settings) && schema.missing.length === 0;
  const { admitted } = userFactsOf(resources, settings.roles ?? {});
  const areas: Areas = new Map(
    (hasAdminArea ? areaSubjects(admitted) : []).map((subject) => [
      subject,
      serveForAdmin([...resources, HISTORY], schema.models, views, catalog, subject.access),
    ]),
  );
  const [adminResources = new Map()] = areas.values();
  const risks = warningsOf({
    settings,
    resources,
    served,
    areas,
    adminResources,
    views,
    schema,
    databaseInfo,
    isEmbedded,
  });
  // The number of a checkpoint does not come from the sequence.
  const numbered = definitions.filter(({ model }) => model !== SEAL.model);
  const tables = numbered.map((one) => quotedTable(tableOf(one)));
  const sequences = await sequenceWarnings((statement) => database.run(statement, 'read'), tables);
  const warnings = [
    ...risks,
    ...textWarnings('engine', await warningsOfEngine(database)),
    ...textWarnings('unknown-constraint', await constraintWarnings(database, resources)),
    ...textWarnings('sequence', sequences),
  ];
  const keys = await checkViewKeys(database, served, catalog, faults);
  const readAddresses = await checkReadAddresses(database, settings);
  return {
    error: startErrorOf([...faults, ...keys.faults], readAddresses),
    warnings: [...warnings, ...keys.warnings],
    matrix: accessMatrix(served, areas),
  };
}

interface Outcome extends RegistryReport {
  /** The step of the check that failed, if any. */
  readonly kind: 'settings' | 'registry' | 'database';
  readonly resourceCount: number;
}

/** Checks the settings, then the registry, then the database. Each step needs the one before, so errors end the check. */
async function examineAll(io: Io): Promise<Outcome> {
  let kind: Outcome['kind'] = 'settings';
  let warnings: Warning[] = [];
  try {
    const settings = readSettings(io.env);
    warnings = textWarnings('ignored-parameters', addressWarnings(settings));
    if (settings.historyKey !== undefined) readKey(settings.historyKey, 'private');
    kind = 'registry';
    const { resources, roles } = await loadDefinitions(settings, io);
    kind = 'database';
    const report = await withSettingsDatabase(settings, (database) =>
      examine(database, resources, { ...settings, roles }, settings.databaseUrl === undefined),
    );
    warnings.push(...report.warnings);
    return { kind, ...report, warnings, resourceCount: resources.length };
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return { kind, error, warnings, matrix: [], resourceCount: 0 };
  }
}

/** Prints text: all errors in one message, one message per warning, and what the registry itself says that anyone can read. */
function printText(io: Io, { error, warnings, matrix, resourceCount }: Outcome, withMatrix: boolean): void {
  if (error) printMessage(io, withoutFileValues(error.message, io.env));
  for (const { text, isIntended } of warnings) if (!isIntended) printMessage(io, `warning: ${text}`);
  if (withMatrix && matrix.length > 0) print(io, `${printMatrix(matrix)}\n`);
  if (error) return;
  for (const { text, isIntended } of warnings) if (isIntended) print(io, text);
  print(io, `the registry (${counted(resourceCount, 'resource')}) fits the database`);
}

/** Writes the rights of the registry to a file, or compares them with those of the file. */
async function checkLock(file: string, isLocked: boolean, io: Io): Promise<number> {
  const settings = readSettings(io.env);
  const { resources, roles, changes } = await loadDefinitions(settings, io);
  const rights = lockedRights(resources, { ...settings, roles }, changes);
  if (!isLocked) {
    writeLock(file, rights);
    print(io, `${file}: wrote ${rights.length} rights`);
    return 0;
  }
  const known = readLock(file);
  const [more, fewer] = [rightsBeyond(rights, known), rightsBeyond(known, rights)].map((some) =>
    some.map((right) => `\n  - ${printRight(right)}`).join(''),
  );
  if (fewer) print(io, `${file} has rights that the registry no longer gives:${fewer}`);
  const remedy = `\`npx vitrine check --lock ${file}\``;
  if (more) {
    printMessage(
      io,
      `The registry gives rights that are not in ${file}:${more}\nIf this is intended, write the file again: ${remedy}.`,
    );
    return 1;
  }
  print(
    io,
    fewer
      ? `Write the file again, or they may come back unnoticed: ${remedy}.`
      : `${file}: the rights are the same`,
  );
  return 0;
}

/** `vitrine check`: reports errors and warnings without starting the service. */
export async function checkCommand(args: readonly string[], io: Io): Promise<number> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return 0;
  refuseArguments(parsed.positionals);
  const { matrix, json, strict, lock, locked } = parsed.values;
  if (locked && lock === undefined) throw new UsageError('--locked needs --lock FILE');
  if (lock !== undefined) {
    if (matrix || json || strict)
      throw new UsageError('--lock cannot be combined with --matrix, --json or --strict');
    return checkLock(lock, locked === true, io);
  }
  const outcome = await examineAll(io);
  const { kind, error, warnings } = outcome;
  const errors = (error?.faults ?? []).map((text) => ({ kind, text: withoutFileValues(text, io.env) }));
  if (json) print(io, JSON.stringify({ errors, warnings, matrix: outcome.matrix }, null, 2));
  else printText(io, outcome, matrix === true);
  if (errors.length > 0) return 1;
  return strict && warnings.some(({ isIntended }) => !isIntended) ? 2 : 0;
}
