// Runs commands in this process, which is quicker than starting one for each.
import { Readable, Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { reportError, runProgram } from '../../src/commands/program.ts';
import { createVitrine, type Resource } from '../../src/index.ts';
import type { Ended, RunOptions } from '../process/support.ts';
import { closeIdleConnections } from '../send.ts';

/** The exit code and the output of `vitrine …`, with these settings and this standard input. */
export async function run(
  words: readonly string[],
  { env = {}, input = '' }: Pick<RunOptions, 'env' | 'input'> = {},
): Promise<Ended> {
  const output = { stdout: '', stderr: '' };
  const collect = (name: keyof typeof output): Writable =>
    new Writable({
      write(chunk, _encoding, done) {
        output[name] += String(chunk);
        done();
      },
    });
  const io = {
    env: { LOG_LEVEL: 'error', ...env }, // the log goes to this process
    stdin: Readable.from([Buffer.from(input)]),
    stdout: collect('stdout'),
    stderr: collect('stderr'),
  };
  const code = await runProgram(words, io).catch((error: unknown) => reportError(error, words, io));
  return { code, signal: null, ...output };
}

/** Starts the service in this process, on a registry file and the tables that are there. */
export async function serve(
  databaseUrl: string,
  file: string,
): Promise<{ base: string; stop: () => Promise<void> }> {
  const { default: resources } = (await import(pathToFileURL(file).href)) as { default: readonly Resource[] };
  const vitrine = await createVitrine({
    databaseUrl,
    resources,
    schema: 'check',
    port: 0,
    log: () => undefined,
  });
  const { url: base } = await vitrine.start();
  return {
    base,
    stop: () => {
      closeIdleConnections(base); // the service would wait for further requests
      return vitrine.close();
    },
  };
}
