// The file .env of the current folder.
import { existsSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { isOverridden, SETTINGS } from '../config.ts';
import { readSettingsFile } from '../setting-values.ts';
import { distance } from '../similar-names.ts';

export const ENV_FILE = '.env';

/** The variables of the process without those of the file. */
export const INHERITED: Readonly<NodeJS.ProcessEnv> = { ...process.env };

const NAMES = Object.keys(SETTINGS).flatMap((name) => [name, `${name}_FILE`]);

/** The letters and digits of a name, in upper case. */
const lettersOf = (name: string): string => name.toUpperCase().replace(/[^A-Z\d]/g, '');

/** The setting that a name probably means: one or two characters differ. Undefined for settings, and for names of other programs. */
function similarSetting(name: string): string | undefined {
  if (NAMES.includes(name)) return undefined;
  const far = (setting: string): number => distance(lettersOf(name), lettersOf(setting));
  // In a short name, two characters are half of it: PGPORT is not PORT.
  return NAMES.find((setting) => far(setting) <= (setting.replace(/_FILE$/, '').length < 8 ? 1 : 2));
}

/** Warnings for names in the file that are nearly settings. */
export function misspelledNames(): string[] {
  if (!existsSync(ENV_FILE)) return [];
  return Object.keys(parseEnv(readSettingsFile(ENV_FILE))).flatMap((name) => {
    const similar = similarSetting(name);
    return similar === undefined
      ? []
      : [`${ENV_FILE}: ${name} is not a setting and is ignored; did you mean ${similar}?`];
  });
}

/** Adds the variables of the file that the process lacks. It may have a setting as DATABASE_URL or as DATABASE_URL_FILE. */
export function loadEnvFile(): void {
  if (!existsSync(ENV_FILE)) return;
  for (const [name, value] of Object.entries(parseEnv(readSettingsFile(ENV_FILE))))
    if (INHERITED[name] === undefined && !isOverridden(name, INHERITED)) process.env[name] = value;
}
