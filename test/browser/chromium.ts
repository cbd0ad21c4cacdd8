import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** The browser that CHROMIUM names, else the first of the usual names on PATH. */
export function findChromium(): string {
  const given = process.env['CHROMIUM'];
  if (given) {
    if (isExecutable(given)) return given;
    throw new Error(`CHROMIUM is ${given}, which is no program that can be run here.`);
  }
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean);
  const found = NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable);
  if (found !== undefined) return found;
  throw new Error(
    `The browser tests need Chromium, and none of ${NAMES.join(', ')} is on PATH. ` +
      'Install it (Debian: apt-get install chromium), or name the program in CHROMIUM.',
  );
}

export const launchChromium = (): Promise<Browser> =>
  chromium.launch({
    executablePath: findChromium(),
    // As root, as in most containers, Chromium does not start with its sandbox.
    args: process.getuid?.() === 0 ? ['--no-sandbox', '--disable-dev-shm-usage'] : [],
  });
