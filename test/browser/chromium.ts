import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser } from 'playwright-core';

/** Programs that can be used. The headless shell needs half of the time. */
const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** The path of Chromium: `CHROMIUM`, else the first known name on `PATH`. @throws Error if there is none */
export function findChromium(): string {
  const given = process.env['CHROMIUM'];
  if (given) {
    if (isExecutable(given)) return given;
    throw new Error(`CHROMIUM is ${given}, which is not an executable file.`);
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
    // Chromium does not start with its sandbox as root, which most containers use.
    args: process.getuid?.() === 0 ? ['--no-sandbox', '--disable-dev-shm-usage'] : [],
  });
