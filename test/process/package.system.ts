// What npm would publish, installed as others install it. The copy that is packed is made in a folder of its own.
import assert from 'node:assert/strict';
import { cp, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import ts from 'typescript';
import { request, useDatabase } from '../support.ts';
import { INSTALLATION, listening, REPOSITORY, run, start, temporaryFolder, type Ended } from './support.ts';
import { describe, test } from 'node:test';

const SOURCES = ['bin', 'src', 'bench', 'package.json'];
const PAPERS = ['README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md'];
const FOLDERS = ['docs', 'deploy', 'examples', 'template'];

const PROGRAM = `
import { createVitrine } from 'vitrine';
const resources = [{ model: 'thing', columns: { name: { type: 'string' } } }];
const vitrine = await createVitrine({ databaseUrl: process.env.DATABASE_URL, resources, port: 0 });
const { url } = await vitrine.start();
console.log('listening on ' + url);
process.on('SIGTERM', () => vitrine.close());
`;

const TYPED = `
import { createServer } from 'node:http';
import { createVitrine, StartError, type Registry, type Resource, type Row, type Vitrine } from 'vitrine';
const thing = { model: 'thing', columns: { name: { type: 'string' } }, limit: 5 } satisfies Resource;
const resources = [thing] satisfies Resource[];
resources satisfies Registry<typeof resources>;
export const row: Row<typeof thing> = { id: 1, name: 'x' };
// @ts-expect-error a name is a text
export const other: Row<typeof thing> = { id: 1, name: 2 };
// @ts-expect-error there is no such type
export const wrong = { model: 'thing', columns: { name: { type: 'strin' } } } satisfies Resource;
export async function main(): Promise<void> {
  try {
    const vitrine: Vitrine = await createVitrine({ databaseUrl: 'postgres://localhost/x', resources, access: 'user' });
    createServer(vitrine.handler).listen();
    const { url }: { url: string } = await vitrine.start();
    console.log(url.length);
  } catch (error) {
    if (error instanceof StartError) console.log(error.message);
  }
}
`;

/** How npm is told where packages come from, where the environment says it. */
function npmEnvironment(): Record<string, string> {
  const wanted = /^(npm_config_(registry|cache|userconfig)|https?_proxy|no_proxy|node_extra_ca_certs)$/i;
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value && wanted.test(name) ? [[name, value]] : [],
    ),
  );
}

async function command(cwd: string, name: string, ...words: string[]): Promise<Ended> {
  const ended = await run(words, { command: name, cwd, env: npmEnvironment() });
  assert.equal(ended.code, 0, ended.stderr + ended.stdout);
  return ended;
}

describe('the package', () => {
  let folder: string;
  let packed: string[];
  const database = useDatabase('', async () => {
    const copy = join(await temporaryFolder(), 'copy');
    await mkdir(copy);
    for (const name of [...SOURCES, ...PAPERS, ...FOLDERS, 'CONTRIBUTING.md'])
      await cp(join(REPOSITORY, name), join(copy, name), { recursive: true });
    await mkdir(join(copy, 'dist'));
    for (const name of ['.env', 'notes.txt', 'dist/stale.js']) await writeFile(join(copy, name), '');
    folder = await temporaryFolder();
    await command(copy, 'npm', 'run', 'prebuild');
    await cp(join(INSTALLATION, 'dist'), join(copy, 'dist'), { recursive: true }); // what the build would make
    const { stdout } = await command(
      copy,
      'npm',
      'pack',
      '--ignore-scripts',
      '--json',
      '--pack-destination',
      folder,
    );
    const [{ filename, files }] = JSON.parse(stdout.slice(stdout.indexOf('[\n')));
    packed = files.map(({ path }: { path: string }) => path);
    await rename(join(folder, filename), join(folder, 'vitrine.tgz'));
    await writeFile(join(folder, 'package.json'), '{ "private": true }');
    const flags = ['--omit=dev', '--no-audit', '--no-fund', '--prefer-offline'];
    await command(folder, 'npm', 'install', ...flags, './vitrine.tgz');
  });

  test('holds what is needed to run it, and nothing else', () => {
    const tops = new Set(packed.map((path) => path.split('/')[0]));
    assert.deepEqual(
      [...tops].sort(),
      ['bench', 'bin', 'dist', 'package.json', ...PAPERS, ...FOLDERS].sort(),
    );
    const benched = packed.filter((path) => path.startsWith('bench/'));
    assert.deepEqual(benched, ['bench/results.md']);
    assert.ok(!packed.includes('examples/chinook/chinook.sql'), 'it is large, and published by others');
    assert.deepEqual(
      packed.filter((path) => path.startsWith('bin/')),
      ['bin/confined', 'bin/confinement.cjs', 'bin/vitrine.js'],
    );
    const others = packed.filter(
      (path) => path.startsWith('dist/') && !/^dist\/[\w/-]+(\.d\.ts|\.js|\.css|-passwords\.txt)$/.test(path),
    );
    assert.deepEqual(others, []);
    assert.ok(!packed.includes('dist/stale.js'), 'what an earlier build has left');
  });

  test('holds everything that its pages lead to, unless they say that it does not', async () => {
    const links: { page: string; path: string }[] = [];
    for (const page of packed.filter((path) => path.endsWith('.md'))) {
      const text = await readFile(join(folder, 'node_modules', 'vitrine', page), 'utf8');
      for (const line of text.replace(/^```.*?^```/gms, '').split('\n')) {
        if (/a checkout has it, the package does not|only in a checkout/.test(line)) continue;
        for (const [, path = ''] of line.matchAll(/\]\((?![a-z]+:)([^)#\s]+)/g)) links.push({ page, path });
      }
    }
    assert.ok(links.length > 100);
    assert.deepEqual(
      links.filter(({ page, path }) => !packed.includes(posix.join(posix.dirname(page), path))),
      [],
    );
  });

  test('brings three packages of others: postgres, argon2 and the one binary of this platform', async () => {
    const lock = JSON.parse(await readFile(join(folder, 'node_modules', '.package-lock.json'), 'utf8'));
    const names = Object.keys(lock.packages).map((path) => path.replace('node_modules/', ''));
    const [argon2, binary, ...rest] = names.sort();
    assert.equal(argon2, '@node-rs/argon2');
    assert.match(binary ?? '', new RegExp(`^@node-rs/argon2-${process.platform}-${process.arch}`));
    assert.deepEqual(rest, ['postgres', 'vitrine']);
    assert.equal((await readdir(join(folder, 'node_modules', '@node-rs'))).length, 2);
  });

  test('puts the command vitrine into place', async () => {
    const help = await command(folder, 'npx', 'vitrine', '--help');
    assert.match(help.stdout, /^Usage: vitrine/);
    const { version } = JSON.parse(await readFile(join(REPOSITORY, 'package.json'), 'utf8'));
    assert.equal((await command(folder, 'npx', 'vitrine', '--version')).stdout, `${version}\n`);
  });

  const serve = async (env: Record<string, string>, words = ['serve']): ReturnType<typeof start> =>
    start(words, {
      command: join(folder, 'node_modules', '.bin', 'vitrine'),
      cwd: folder,
      env: { DATABASE_URL: database.url, PORT: '0', ...env },
    });

  test('serves the shipped registry', async () => {
    const service = await listening(await serve({}));
    assert.equal((await request(service.base, '/api/user/')).json.meta.model, 'user');
    assert.equal((await service.stop()).code, 0);
  });

  test('serves a registry file that imports nothing', async () => {
    const text = `export default [{ model: 'plain', columns: { name: { type: 'string' } } }];`;
    await writeFile(join(folder, 'plain.mjs'), text);
    const service = await listening(await serve({ RESOURCES: 'plain.mjs' }));
    assert.deepEqual((await request(service.base, '/api/plain/')).json.objects, []);
    assert.equal((await service.stop()).code, 0);
  });

  test('says that it needs a DATABASE_URL, since the embedded PostgreSQL is not part of it', async () => {
    const { code, stdout, stderr } = await (await serve({ DATABASE_URL: '' })).ended;
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^vitrine: .*DATABASE_URL.*\n$/m);
    assert.ok(!(await readdir(folder)).includes('.data'));
  });

  test('is a library that serves, and that lets the process end once it is closed', async () => {
    await writeFile(join(folder, 'program.mjs'), PROGRAM);
    const env = { DATABASE_URL: database.url };
    const program = await listening(
      await start(['program.mjs'], { command: process.execPath, cwd: folder, env }),
    );
    assert.equal((await request(program.base, '/api/thing/')).json.meta.model, 'thing');
    assert.equal((await program.stop()).code, 0);
  });

  test('has type declarations that compile in a strict program', async () => {
    await writeFile(join(folder, 'typed.mts'), TYPED);
    const program = ts.createProgram([join(folder, 'typed.mts')], {
      noEmit: true,
      strict: true,
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2023,
      typeRoots: [join(REPOSITORY, 'node_modules', '@types')],
      types: ['node'],
    });
    const files = program.getSourceFiles().filter(({ fileName }) => /typed\.mts|\/vitrine\//.test(fileName));
    assert.ok(files.length > 3);
    const faults = [
      ...program.getGlobalDiagnostics(),
      ...files.flatMap((file) => [...program.getSemanticDiagnostics(file)]),
    ];
    assert.deepEqual(
      faults.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
      [],
    );
  });
});
