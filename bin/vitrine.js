#!/usr/bin/env node
// Runs the sources when the development dependencies are installed (a checkout), else the compiled program.
import { existsSync } from 'node:fs';

// By default SIGUSR1 opens Node.js's debugger to every account of the machine, and SIGUSR2 ends the process. First, because the
// start of the program takes a while.
for (const signal of ['SIGUSR1', 'SIGUSR2']) process.on(signal, () => undefined);

// For signals before the command has started. Then commands/serve.ts replaces these listeners.
if (process.argv[2] === 'serve') {
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0));
  // Without a terminal it asks for a reload, which the start makes needless.
  if (!process.stdin.isTTY) process.on('SIGHUP', () => undefined);
}

const source = new URL('../src/main.ts', import.meta.url);

async function registerTsx() {
  try {
    // Both, because Node.js treats a registry file without a package.json as CommonJS.
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
  // The commands report missing registry files themselves, so a part of the program is missing.
  const step = isProduction ? 'npm ci and npm run build' : 'npm ci';
  process.stderr.write(`vitrine: The installation is incomplete: run ${step} first. (${error.message})\n`);
  process.exitCode = 1;
}
