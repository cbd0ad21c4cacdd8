// The standard output of a command that runs as its own process.
import { fstatSync, writeFileSync } from 'node:fs';

const FILE_DESCRIPTOR = 1;

/** Ends the process with 1 after the command. A closed pipe (`vitrine --help | head`) is no error. */
function reportFailure(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE' || process.exitCode === 1) return;
  process.stderr.write(`vitrine: The output cannot be written: ${error.message}\n`);
  process.exitCode = 1;
}

/** Writes a text to standard output, or reports why that is not possible. */
export function writeOutput(text: string): void {
  try {
    if (!fstatSync(FILE_DESCRIPTOR).isFile())
      return void process.stdout.write(text, (error) => error && reportFailure(error));
    // When a disk is full, process.stdout drops the end of a text without an error.
    writeFileSync(FILE_DESCRIPTOR, Buffer.from(text));
  } catch (error) {
    reportFailure(error as NodeJS.ErrnoException);
  }
}
