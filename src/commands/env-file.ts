// The file .env of the current folder.
import { existsSync, readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';

export const ENV_FILE = '.env';

/** The variables of the process without those of the file. */
export const INHERITED: Readonly<NodeJS.ProcessEnv> = { ...process.env };

/** Adds the variables of the file to those of the process. Variables that are set already stay as they are. */
export function loadEnvFile(): void {
  if (existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
}

/** The variables that a process started now would have; those of the file only if it can be read. */
export function currentVariables(): NodeJS.ProcessEnv {
  try {
    return { ...parseEnv(readFileSync(ENV_FILE, 'utf8')), ...INHERITED };
  } catch {
    return INHERITED;
  }
}
