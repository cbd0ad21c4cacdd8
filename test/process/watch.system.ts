import assert from 'node:assert/strict';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createDatabase, request, type TestDatabase } from '../support.ts';
import { folderWith, freePort, run, start, until } from './support.ts';
import { after, before, describe, test } from 'node:test';

const registry = (model: string): string =>
  `import { other } from './other.mjs';
   export default [other, '${model}'].map((model) => ({ model, columns: { name: { type: 'string' } } }));`;

describe('vitrine serve --watch', () => {
  let database: TestDatabase;
  before(async () => (database = await createDatabase()));
  after(() => database.drop());

  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    test(`starts again when the registry changes, waits for a valid one, and ends with ${signal}`, async () => {
      const cwd = await folderWith({
        'registry.mjs': registry('first'),
        'other.mjs': `export const other = 'other';`,
      });
      const port = await freePort();
      const base = `http://127.0.0.1:${port}`;
      const env = { DATABASE_URL: database.url, PORT: String(port), RESOURCES: 'registry.mjs' };
      const watching = await start(['serve', '--watch'], { cwd, env });
      const isServed = async (path: string): Promise<boolean> =>
        (await request(base, path).catch(() => undefined))?.status === 200;
      await until('the first registry', () => isServed('/api/first/'));
      await writeFile(join(cwd, 'registry.mjs'), registry('second'));
      await until('the second registry', () => isServed('/api/second/'));
      assert.match(watching.stderr(), /vitrine: registry\.mjs has changed: restarting/);
      await writeFile(join(cwd, 'other.mjs'), 'export const other = {');
      await until('the fault', () => /registry\.mjs cannot be loaded/.test(watching.stderr()));
      await writeFile(join(cwd, 'other.mjs'), `export const other = 'third';`);
      await writeFile(join(cwd, 'notes.txt'), 'is no part of a registry');
      await until('an imported file', () => isServed('/api/third/'));
      assert.doesNotMatch(watching.stderr(), /notes\.txt/);
      watching.child.kill(signal);
      assert.equal((await watching.ended).code, 0);
      await assert.rejects(request(base, '/healthz'));
    });

  test('starts again for subfolders, also new ones, and for .env, and survives a removed folder', async () => {
    const port = await freePort();
    const cwd = await folderWith({
      'registry.mjs': `import { name } from './lib/names.mjs';
        export default [{ model: name, columns: {} }];`,
      '.env': `RESOURCES=registry.mjs\nBASE_PATH=/one\n`,
    });
    const many = Array.from({ length: 12 }, (_, index) => `many${index}`);
    for (const folder of ['lib', 'node_modules', '.data', 'old', ...many]) await mkdir(join(cwd, folder));
    await writeFile(join(cwd, 'lib/names.mjs'), `export const name = 'first';`);
    const base = `http://127.0.0.1:${port}`;
    const env = { DATABASE_URL: database.url, PORT: String(port) };
    const watching = await start(['serve', '--watch'], { cwd, env });
    const isServed = async (path: string): Promise<boolean> =>
      (await request(base, path).catch(() => undefined))?.status === 200;
    await until('the first name', () => isServed('/one/api/first/'));
    await rm(join(cwd, 'old'), { recursive: true });
    await writeFile(join(cwd, 'node_modules/x.mjs'), '');
    await writeFile(join(cwd, '.data/x.json'), '');
    await writeFile(join(cwd, 'lib/names.mjs'), `export { name } from './new/name.mjs';`);
    await until('the fault', () => /^vitrine: waiting for the next change$/m.test(watching.stderr()));
    await mkdir(join(cwd, 'lib/new'));
    await writeFile(join(cwd, 'lib/new/name.mjs'), `export const name = 'second';`);
    await until('a new subfolder', () => isServed('/one/api/second/'));
    assert.match(watching.stderr(), /vitrine: lib\/new\/name\.mjs has changed: restarting/);
    await writeFile(join(cwd, '.env'), `RESOURCES=registry.mjs\nBASE_PATH=/two\n`);
    await until('the setting', () => isServed('/two/api/second/'));
    assert.match(watching.stderr(), /vitrine: \.env has changed: restarting/);
    assert.doesNotMatch(watching.stderr(), /\/x\.|MaxListeners/);
    await rm(join(cwd, 'lib'), { recursive: true });
    await until('a removed folder', () => /names\.mjs has changed[^]*waiting for/.test(watching.stderr()));
    watching.child.kill('SIGTERM');
    assert.equal((await watching.ended).signal, null);
  });

  test('waits for the next change while RESOURCES cannot be read, and goes on watching the folder', async () => {
    const port = await freePort();
    const resources = (model: string): string => `export default [{ model: '${model}', columns: {} }];`;
    const cwd = await folderWith({
      'registry.mjs': resources('first'),
      '.env': 'RESOURCES=registry.mjs\n',
    });
    const base = `http://127.0.0.1:${port}`;
    const env = { DATABASE_URL: database.url, PORT: String(port) };
    const watching = await start(['serve', '--watch'], { cwd, env });
    const isServed = async (path: string): Promise<boolean> =>
      (await request(base, path).catch(() => undefined))?.status === 200;
    /** At once, because an empty file would name the folder of the shipped registry. */
    const replaceEnv = async (text: string): Promise<void> => {
      await writeFile(join(cwd, '.env.new'), text);
      await rename(join(cwd, '.env.new'), join(cwd, '.env'));
    };
    await until('the first registry', () => isServed('/api/first/'));
    await replaceEnv('RESOURCES=registry.mjs\nRESOURCES_FILE=missing.txt\n');
    const fault = /RESOURCES and RESOURCES_FILE are both set[^]*waiting for the next change/;
    await until('the fault', () => fault.test(watching.stderr()));
    await writeFile(join(cwd, 'registry.mjs'), resources('second'));
    await until('the fault again', () =>
      /registry\.mjs has changed[^]*waiting for the next change/.test(watching.stderr()),
    );
    await replaceEnv('RESOURCES=registry.mjs\n');
    await until('the second registry', () => isServed('/api/second/'));
    watching.child.kill('SIGTERM');
    assert.equal((await watching.ended).code, 0);
  });

  test('ends the service when it is killed itself', async () => {
    const cwd = await folderWith({
      'registry.mjs': registry('first').replace(
        "import { other } from './other.mjs';",
        "const other = 'other';",
      ),
    });
    const port = await freePort();
    const base = `http://127.0.0.1:${port}`;
    const env = { DATABASE_URL: database.url, PORT: String(port), RESOURCES: 'registry.mjs' };
    const watching = await start(['serve', '--watch'], { cwd, env });
    const status = async (): Promise<number | undefined> =>
      (await request(base, '/api/first/').catch(() => undefined))?.status;
    await until('the service', async () => (await status()) === 200);
    watching.child.kill('SIGKILL');
    await until('its end', async () => (await status()) === undefined);
  });

  test('ends with a signal while the registry is invalid', async () => {
    const cwd = await folderWith({ 'registry.mjs': 'export default [' });
    const env = { DATABASE_URL: database.url, RESOURCES: 'registry.mjs' };
    const watching = await start(['serve', '--watch'], { cwd, env });
    await until('the fault', () => /cannot be loaded/.test(watching.stderr()));
    watching.child.kill('SIGTERM');
    assert.equal((await watching.ended).signal, null);
  });

  test('names a folder that cannot be watched', async () => {
    const { code, stderr } = await run(['serve', '--watch'], { env: { RESOURCES: 'nowhere/registry.mjs' } });
    assert.equal(code, 1);
    assert.match(stderr, /nowhere cannot be watched: ENOENT/);
  });

  test('watches the folder of the registry that RESOURCES_FILE names', async () => {
    const cwd = await folderWith({ resources: 'nowhere/registry.mjs\n' });
    const { stderr } = await run(['serve', '--watch'], { env: { RESOURCES_FILE: join(cwd, 'resources') } });
    assert.match(stderr, /nowhere cannot be watched: ENOENT/);
  });
});
