#!/usr/bin/env node
// Runs the sources where the development dependencies are there (a checkout), and what was compiled everywhere else.
import { existsSync } from 'node:fs';

// A signal that comes before anything has begun: from then on the command itself says what is to be ended (see serve in main.ts).
if (process.argv[2] === 'serve')
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0));

const source = new URL('../src/main.ts', import.meta.url);

async function registerTsx() {
  try {
    // Both: a registry file beside no package.json is CommonJS to Node.
    const [modules, scripts] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')]);
    scripts.register();
    modules.register();
    return true;
  } catch {
    return false;
  }
}

const isProduction = process.env.NODE_ENV === 'production';
const runsSource = !isProduction && existsSync(source) && (await registerTsx());
try {
  await import(runsSource ? source.href : new URL('../dist/main.js', import.meta.url).href);
} catch (error) {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  // The commands tell of registry files that are not there themselves, so it is a part of the program.
  const step = isProduction ? 'npm ci and npm run build' : 'npm ci';
  process.stderr.write(`vitrine: Not everything is here yet: run ${step} first. (${error.message})\n`);
  process.exitCode = 1;
}
