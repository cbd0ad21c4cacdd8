import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createVitrine, StartError, type Panel } from '../../src/index.ts';
import { loadRegistryFile } from '../../src/resources/load-registry.ts';
import shipped from '../../src/resources/registry.ts';
import { run } from '../commands/support.ts';
import { after, before, describe, test } from 'node:test';

describe('panels of a registry', () => {
  let directory: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'vitrine-panels-'));
  });
  after(() => rm(directory, { recursive: true }));

  const load = (): Promise<number> => Promise.resolve(1);
  const faulty: [string, unknown, string[]][] = [
    ['that are not an array', { title: 'A', load }, ['the registry: panels must be an array of panels']],
    ['that are not objects', ['A', null], ['panel 1: must be an object', 'panel 2: must be an object']],
    ['without a title', [{ load }, { title: ' ', load }], ['panel 1: title: must be a non-empty string', 'panel 2: title: must be a non-empty string']],
    ['without a function', [{ title: 'A' }, { title: 'B', load: 5 }], ['panel "A": load: must be a function', 'panel "B": load: must be a function']],
    ['with the same title', [{ title: 'A', load }, { title: 'A', load }], ['panel "A": title: another panel has this title']],
    ['with unknown keys', [{ title: 'A', load, size: 2 }], ['panel "A": size: there is no such key']],
    ['with a text that is not a string', [{ title: 'A', load, text: 5 }], ['panel "A": text: must be a string']],
  ]; // prettier-ignore
  for (const [kind, panels, faults] of faulty) {
    test(`${kind} are reported together with faults of resources`, async () => {
      const resources = [{ model: 'A', columns: {} }];
      const options = { databaseUrl: 'postgres://127.0.0.1:1/none', resources, panels: panels as Panel[] };
      await assert.rejects(createVitrine(options), (error: unknown) => {
        assert.ok(error instanceof StartError);
        const lines = error.message.split('\n').filter((line) => line.startsWith('  - '));
        assert.match(lines[0] ?? '', /^ {2}- A: model: must be a lower-case name/);
        assert.deepEqual(
          lines.filter((line) => !line.startsWith('  - A: ') && !line.includes('user model')),
          faults.map((fault) => `  - ${fault}`),
        );
        return true;
      });
    });
  }

  const REGISTRY = "[{ model: 'note', columns: { message: { type: 'text' } } }]";
  const files: [string, string, unknown][] = [
    ['as.mjs', `export default ${REGISTRY}; export const panels = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['as.ts', `export default ${REGISTRY}; export const panels: object[] = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['common.js', `exports.default = ${REGISTRY}; exports.panels = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['none.mjs', `export default ${REGISTRY};`, []],
    ['wrong.mjs', `export default ${REGISTRY}; export const panels = 5;`, 5],
  ]; // prettier-ignore
  for (const [name, text, expected] of files) {
    test(`are exported as panels by ${name}`, async () => {
      const file = join(directory, name);
      await writeFile(file, text);
      const { registry, panels } = await loadRegistryFile(file);
      assert.deepEqual(panels, expected);
      assert.deepEqual(registry, [{ model: 'note', columns: { message: { type: 'text' } } }]);
    });
  }

  test('are empty for the shipped registry', async () => {
    assert.deepEqual(await loadRegistryFile(undefined), { registry: shipped, panels: [] });
  });

  test('are checked by vitrine check', async () => {
    const file = join(directory, 'faulty.mjs');
    await writeFile(file, "export { default } from './as.mjs'; export const panels = [{ title: 'A' }];");
    const env = { RESOURCES: file, DATABASE_URL: 'postgres://127.0.0.1:1/none' };
    const { code, stderr } = await run(['check'], { env });
    assert.equal(code, 1);
    assert.ok(stderr.includes('panel "A": load: must be a function'), stderr);
  });
});
