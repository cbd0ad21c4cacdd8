// Runs the tests on the server that TEST_DATABASE_URL names, or on an embedded PostgreSQL made for this run.
// Further words choose test files: npm test -- test/http
// With --browser it runs the tests that need a browser, and only those: npm run test:browser
import { execFile, spawn } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { startEmbedded } from '../src/db/connection/embedded.ts';

const given = process.env['TEST_DATABASE_URL'] || undefined;
const chosen = process.argv.slice(2).filter((word) => word !== '--browser');
const isBrowser = process.argv.includes('--browser');
const ending = isBrowser ? '.browser.ts' : '.test.ts';
const all = (await readdir('test', { recursive: true })).filter((file) => file.endsWith(ending)).sort();
const files = all
  .map((file) => join('test', file))
  .filter((file) => chosen.length === 0 || chosen.some((word) => file.startsWith(word)));
if (files.length === 0) {
  process.stderr.write('no test file is called so; those for a browser are run by npm run test:browser\n');
  process.exit(1);
}
/** How many processes the files are dealt out to: each loads the service once for all of its files. */
const PROCESSES = isBrowser ? files.length : 16;

const directory = await mkdtemp(join(tmpdir(), 'vitrine-test-'));
await chmod(directory, 0o755); // the server runs as another user when this is root
const installation = install(join(directory, 'installation'));
// Nothing here has to survive a crash of the machine.
const fast = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'max_connections=200'];
const embedded = given ? undefined : await startEmbedded(join(directory, 'postgres'), fast);

/** Compiles the package into a folder, as it is installed: the tests that start the command start it from there, which is quick. */
async function install(folder: string): Promise<string> {
  await mkdir(folder);
  for (const name of ['bin', 'deploy', 'template', 'package.json'])
    await cp(name, join(folder, name), { recursive: true });
  await symlink(resolve('node_modules'), join(folder, 'node_modules'));
  for (const name of ['style.css', 'script.js'])
    await cp(join('src/admin/web', name), join(folder, 'dist/admin/web', name));
  // The type check is a step of its own.
  const words = ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', join(folder, 'dist')];
  await promisify(execFile)(join('node_modules', '.bin', 'tsc'), words);
  return folder;
}

/** Writes a file for each process, which imports the test files that are its own. */
async function deal(folder: string): Promise<string[]> {
  await mkdir(folder);
  const shares = Array.from({ length: Math.min(PROCESSES, files.length) }, (_, turn) =>
    files.filter((_file, index) => index % PROCESSES === turn),
  );
  return Promise.all(
    shares.map(async (share, turn) => {
      const imports = share.map((file) => `import ${JSON.stringify(pathToFileURL(file).href)};`);
      const name = join(folder, `share-${turn + 1}.mts`);
      await writeFile(name, imports.join('\n'));
      return name;
    }),
  );
}

let status: number;
try {
  const flags = [
    '--import',
    'tsx',
    '--test',
    '--test-reporter=spec',
    '--test-concurrency=4',
    '--test-timeout=300000',
  ];
  const child = spawn(process.execPath, [...flags, ...(await deal(join(directory, 'shares')))], {
    stdio: 'inherit',
    env: { ...process.env, TEST_DATABASE_URL: given ?? embedded?.url, TEST_INSTALLATION: await installation },
  });
  status = await new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)));
} finally {
  await embedded?.stop();
  await rm(directory, { recursive: true, force: true });
}
process.exit(status);
