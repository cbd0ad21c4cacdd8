// Runs the tests on the server that TEST_DATABASE_URL names, or on an embedded PostgreSQL made for this run.
// Further words choose test files: npm test -- test/http
// With --browser it runs the tests that need a browser, and only those: npm run test:browser
import { execFile, spawn } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { startEmbedded } from '../src/db/embedded.ts';

const given = process.env['TEST_DATABASE_URL'] || undefined;
const chosen = process.argv.slice(2).filter((word) => word !== '--browser');
const isBrowser = process.argv.includes('--browser');
const ending = isBrowser ? '.browser.ts' : '.test.ts';
const all = (await readdir('test', { recursive: true })).filter((file) => file.endsWith(ending)).sort();
const files = all
  .map((file) => join('test', file))
  .filter((file) => chosen.length === 0 || chosen.some((word) => file.startsWith(word)));

const directory = await mkdtemp(join(tmpdir(), 'vitrine-test-'));
await chmod(directory, 0o755); // the server runs as another user when this is root
const installation = install(join(directory, 'installation'));
// Nothing here has to survive a crash of the machine.
const fast = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'max_connections=200'];
const embedded = given ? undefined : await startEmbedded(join(directory, 'postgres'), fast);

/** Compiles the package into a folder, as it is installed: the tests that start the command start it from there, which is quick. */
async function install(folder: string): Promise<string> {
  await mkdir(folder);
  for (const name of ['bin', 'package.json']) await cp(name, join(folder, name), { recursive: true });
  await symlink(resolve('node_modules'), join(folder, 'node_modules'));
  for (const name of ['style.css', 'script.js'])
    await cp(join('src/admin', name), join(folder, 'dist/admin', name));
  // The type check is a step of its own.
  const words = ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', join(folder, 'dist')];
  await promisify(execFile)(join('node_modules', '.bin', 'tsc'), words);
  return folder;
}

let status: number;
try {
  const flags = [
    '--import',
    'tsx',
    '--test',
    '--test-reporter=spec',
    '--test-concurrency=4',
    `--test-timeout=${isBrowser ? 300_000 : 120_000}`,
  ];
  const child = spawn(process.execPath, [...flags, ...files], {
    stdio: 'inherit',
    env: { ...process.env, TEST_DATABASE_URL: given ?? embedded?.url, TEST_INSTALLATION: await installation },
  });
  status = await new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)));
} finally {
  await embedded?.stop();
  await rm(directory, { recursive: true, force: true });
}
process.exit(status);
