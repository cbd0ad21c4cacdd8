// Runs the tests on the server that TEST_DATABASE_URL names, or on an embedded PostgreSQL made for this run.
// Further words choose test files: npm test -- test/http
// With --load it runs only the tests that load the service or try many random cases (*.load.ts): npm run test:load
// With --browser it runs only the tests that need a browser (*.browser.ts): npm run test:browser
// With --system it runs only the tests that start the command, compilers or supervisors (*.system.ts): npm run test:system
import { execFile, spawn } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, rm, statfs, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { startEmbedded } from '../src/db/connection/embedded.ts';
import { compile as compileTo } from './compile.ts';

const given = process.env['TEST_DATABASE_URL'] || undefined;
const words = process.argv.slice(2);
const chosen = words.filter((word) => !word.startsWith('--'));
const kind = ['browser', 'system', 'load'].find((name) => words.includes(`--${name}`)) ?? 'test';
const all = (await readdir('test', { recursive: true })).filter((file) => file.endsWith(`.${kind}.ts`));
const files = all
  .map((file) => join('test', file))
  .filter((file) => chosen.length === 0 || chosen.some((word) => file.startsWith(word)))
  .sort();
if (files.length === 0) {
  process.stderr.write(
    'No matching test files. Files *.load.ts run with npm run test:load, and *.browser.ts and *.system.ts likewise.\n',
  );
  process.exit(1);
}
/** The number of processes that share the files: each loads the service once. Twice the usual processors, as tests wait, too. */
const PROCESSES = 4;

/** Makes a folder that the embedded server can read, which runs as another user if this is root. */
async function temporaryFolder(parent: string): Promise<string> {
  const folder = await mkdtemp(join(parent, 'vitrine-test-'));
  await chmod(folder, 0o755);
  return folder;
}

const MEMORY = '/dev/shm';
/** Free bytes from which the databases are kept in memory. They use less than one gigabyte at a time. */
const ENOUGH = 4e9;
const free = await statfs(MEMORY).then(
  ({ bavail, bsize }) => bavail * bsize,
  () => 0,
);
const directory = await temporaryFolder(tmpdir());
/** Hundreds of databases are created, each of hundreds of files. */
const dataDirectory = free < ENOUGH ? directory : await temporaryFolder(MEMORY);
const compiled = compile(join(directory, 'compiled'));
const installation = compiled.then((root) => install(join(directory, 'installation'), root));
// Nothing here has to survive a crash of the machine.
const fast = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'wal_level=minimal',
  'max_wal_senders=0',
  'max_wal_size=1GB',
  'autovacuum=off',
  'max_connections=300',
];
const embedded = given ? undefined : await startEmbedded(join(dataDirectory, 'postgres'), fast);
if (embedded) await cheapenLogin(embedded.url);

/** Stores the password so that a connection hashes it once, not 4,096 times: the tests open thousands. */
async function cheapenLogin(url: string): Promise<void> {
  const sql = postgres(url, { max: 1 });
  const [row] = await sql<
    { version: number }[]
  >`select current_setting('server_version_num')::int as version`;
  // Earlier servers do not have the setting.
  if (row && row.version >= 160000) {
    await sql`set scram_iterations = 1`;
    await sql.unsafe(`alter role current_user password '${new URL(url).password}'`);
  }
  await sql.end();
}

/** Compiles the sources and the tests once for all processes. */
async function compile(folder: string): Promise<string> {
  await mkdir(folder);
  for (const name of ['package.json', 'deploy', 'node_modules'])
    await symlink(resolve(name), join(folder, name));
  await copyAssets(join(folder, 'src'));
  await compileTo(folder, ['src', 'test', 'bench', 'examples']);
  return folder;
}

/** Makes a folder like that of the installed package, for the tests that start the command. */
async function install(folder: string, root: string): Promise<string> {
  await mkdir(folder);
  for (const name of ['bin', 'deploy', 'template', 'package.json'])
    await cp(name, join(folder, name), { recursive: true });
  await symlink(resolve('node_modules'), join(folder, 'node_modules'));
  if (kind === 'system') {
    // Only the tests of packages need type declarations, which take the compiler as long again.
    await copyAssets(join(folder, 'dist'));
    const words = ['-p', 'tsconfig.build.json', '--outDir', join(folder, 'dist'), '--noCheck'];
    await promisify(execFile)(join('node_modules', '.bin', 'tsc'), words);
  } else await cp(join(root, 'src'), join(folder, 'dist'), { recursive: true });
  return folder;
}

/** Copies the files that compiled code reads from its own folder. */
async function copyAssets(folder: string): Promise<void> {
  for (const name of ['style.css', 'script.js'])
    await cp(join('src/admin/web', name), join(folder, 'admin/web', name));
}

/** Files that share no process with others: they change how all later modules of a process are loaded. */
const ALONE: ReadonlySet<string> = new Set(
  ['docs/coming-from.system.ts', 'docs/examples.system.ts', 'resources/panels.test.ts'].map((file) =>
    join('test', file),
  ),
);

/** @returns the exit code of mocha */
async function runFiles(chosenFiles: readonly string[], processes: number): Promise<number> {
  if (chosenFiles.length === 0) return 0;
  const root = await compiled;
  const flags = [
    '--parallel',
    `--jobs=${processes}`,
    '--reporter=spec',
    // Some tests wait for servers and compilers on a slow machine.
    '--timeout=600000',
    '--node-option=enable-source-maps',
    // Fewer collections of young objects save a tenth of the processor time.
    '--node-option=max-semi-space-size=64',
  ];
  const scripts = chosenFiles.map((file) => join(root, file.replace(/\.ts$/, '.js')));
  const child = spawn('node_modules/.bin/mocha', [...flags, ...scripts], {
    stdio: 'inherit',
    env: { ...process.env, TEST_DATABASE_URL: given ?? embedded?.url, TEST_INSTALLATION: await installation },
  });
  return new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)));
}

let status: number;
try {
  const alone = files.filter((file) => ALONE.has(file));
  const together = files.filter((file) => !ALONE.has(file));
  status = await runFiles(together, PROCESSES);
  status = Math.max(status, await runFiles(alone, alone.length));
} finally {
  await embedded?.stop();
  for (const folder of [directory, dataDirectory]) await rm(folder, { recursive: true, force: true });
}
process.exit(status);
