import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { request, useDatabase } from '../support.ts';
import { folderWith, freePort, start, until, type Program } from './support.ts';
import { describe, test } from 'node:test';

const registry = (model: string): string =>
  `import { other } from './other.mjs';
   export default [other, '${model}'].map((model) => ({ model, columns: { name: { type: 'string' } } }));`;

describe('vitrine serve --watch', () => {
  const database = useDatabase();

  /** Starts it in a process group, which a terminal signals as a whole. */
  async function watch(
    files: Readonly<Record<string, string>>,
  ): Promise<{ watching: Program; cwd: string; isServed: (path: string) => Promise<boolean> }> {
    const cwd = await folderWith(files);
    const port = String(await freePort());
    const env = { DATABASE_URL: database.url, PORT: port, RESOURCES: 'registry.mjs' };
    const watching = await start(['serve', '--watch'], { cwd, env, detached: true });
    const isServed = async (path: string): Promise<boolean> =>
      (await request(`http://127.0.0.1:${port}`, path).catch(() => undefined))?.status === 200;
    return { watching, cwd, isServed };
  }

  for (const [signal, isOfTerminal] of Object.entries({ SIGTERM: false, SIGINT: true }))
    test(`starts again when the registry changes, waits for a valid one, and ends with ${signal}`, async () => {
      const { watching, cwd, isServed } = await watch({
        'registry.mjs': registry('first'),
        'other.mjs': `export const other = 'other';`,
      });
      await until('the first registry', () => isServed('/api/first/'));
      await writeFile(join(cwd, 'registry.mjs'), registry('second'));
      await until('the second registry', () => isServed('/api/second/'));
      await writeFile(join(cwd, 'other.mjs'), 'export const other = {');
      await until('the fault', () => /registry\.mjs cannot be loaded/.test(watching.stderr()));
      await writeFile(join(cwd, 'other.mjs'), `export const other = 'third';`);
      await until('an imported file', () => isServed('/api/third/'));
      process.kill((watching.child.pid ?? 0) * (isOfTerminal ? -1 : 1), signal);
      assert.equal((await watching.ended).code, 0);
      assert.equal(await isServed('/healthz'), false);
    });

  test('follows JSON that the registry requires, and each start reads .env again', async () => {
    const { watching, cwd, isServed } = await watch({
      'registry.mjs': `import { createRequire } from 'node:module';
        export default [{ model: createRequire(import.meta.url)('./name.json'), columns: {} }];`,
      'name.json': '"first"',
      '.env': 'BASE_PATH=/one\n',
    });
    await until('the first name', () => isServed('/one/api/first/'));
    await writeFile(join(cwd, '.env'), 'BASE_PATH=/two\n');
    await writeFile(join(cwd, 'name.json'), '"second"');
    await until('the second name', () => isServed('/two/api/second/'));
    watching.child.kill('SIGTERM');
    assert.equal((await watching.ended).code, 0);
  });

  test('ends, and so does the service, when the watching process is killed', async () => {
    const { watching, isServed } = await watch({
      'registry.mjs': 'export default [{ model: "only", columns: {} }];',
    });
    await until('the service', () => isServed('/api/only/'));
    const watcher = execFileSync('pgrep', ['--parent', String(watching.child.pid)], { encoding: 'utf8' });
    process.kill(Number(watcher), 'SIGKILL');
    await watching.ended;
    await until('the end of the service', async () => !(await isServed('/api/only/')));
  });

  test('ends with a signal while the registry is invalid', async () => {
    const { watching } = await watch({ 'registry.mjs': 'export default [' });
    await until('the fault', () => /cannot be loaded/.test(watching.stderr()));
    watching.child.kill('SIGTERM');
    assert.equal((await watching.ended).signal, null);
  });
});
