// The file .env of the current folder.
import { existsSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { isOverridden } from '../config.ts';
import { readSettingsFile } from '../setting-values.ts';

export const ENV_FILE = '.env';

/** The variables of the process without those of the file. */
export const INHERITED: Readonly<NodeJS.ProcessEnv> = { ...process.env };

/** The variables of the file that the process lacks. It may have a setting as DATABASE_URL or as DATABASE_URL_FILE. */
const fileVariables = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(parseEnv(readSettingsFile(ENV_FILE))).filter(
      ([name]) => INHERITED[name] === undefined && !isOverridden(name, INHERITED),
    ),
  );

/** Adds the variables of the file to those of the process. Variables that are set already stay as they are. */
export function loadEnvFile(): void {
  if (existsSync(ENV_FILE)) Object.assign(process.env, fileVariables());
}

/** The variables that a process started now would have; those of the file only if it can be read. */
export function currentVariables(): NodeJS.ProcessEnv {
  try {
    return { ...fileVariables(), ...INHERITED };
  } catch {
    return INHERITED;
  }
}
