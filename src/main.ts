// The `vitrine` process.
import { ENV_FILE, loadEnvFile, misspelledNames } from './commands/env-file.ts';
import type { Io } from './commands/command.ts';
import { writeOutput } from './commands/output.ts';
import { reportError, runProgram } from './commands/program.ts';
import { isWorker } from './processes.ts';

// A closed pipe or a full disk must not crash a running service. Commands report what they cannot write: see `writeOutput`.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

/** Runs when the event loop is empty before the command has finished, for example because of a promise that never settles. */
const reportStall = (): void => {
  process.stderr.write(
    'vitrine: The command cannot finish: it waits for something that never happens. Check what the registry file awaits.\n',
  );
  process.exitCode = 1;
};
process.once('beforeExit', reportStall);

try {
  loadEnvFile();
  // Other processes of the same service would repeat it.
  if (!isWorker && !process.argv.includes('--watch'))
    for (const warning of misspelledNames()) process.stderr.write(`vitrine: ${warning}\n`);
} catch (error) {
  process.stderr.write(
    `vitrine: ${ENV_FILE} is ignored, because it cannot be read: ${(error as Error).message}\n`,
  );
}

const io: Io = {
  env: process.env,
  // Not before a command reads it, because Node.js then opens it.
  get stdin() {
    return process.stdin;
  },
  stdout: { write: writeOutput },
  stderr: process.stderr,
};

const args = process.argv.slice(2);
runProgram(args, io).then(
  (code) => {
    process.off('beforeExit', reportStall);
    if (code) process.exitCode = code;
  },
  (error: unknown) => process.exit(reportError(error, args, io)),
);
