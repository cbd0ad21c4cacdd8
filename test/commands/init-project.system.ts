// A new project, made by someone who has only the packed archive.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import ts from 'typescript';
import { checkRegistry } from '../../src/resources/check/check-registry.ts';
import { loadRegistryFile } from '../../src/resources/load-registry.ts';
import { INSTALLATION, listening, run, start, temporaryFolder, type Ended } from '../process/support.ts';
import { request } from '../support.ts';
import { before, describe, test } from 'node:test';

const readJson = async (file: string): Promise<any> => JSON.parse(await readFile(file, 'utf8')); // eslint-disable-line @typescript-eslint/no-explicit-any -- a package.json

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
    assert.deepEqual(checkRegistry(registry, { access: 'default', userModel: 'user' }), []);
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
    assert.match(checked.stdout, /^the registry \(2 resources\) fits the database\n$/);
    assert.equal(checked.stderr, '');
    const users = await command(project, 'npm', 'run', '--silent', 'vitrine', '--', 'user', 'list');
    assert.equal(users.stdout, 'admin admin\n');
  });
});
