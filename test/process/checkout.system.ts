import assert from 'node:assert/strict';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { REPOSITORY, run, temporaryFolder } from './support.ts';
import { describe, test } from 'node:test';

describe('a checkout', { concurrency: 2 }, () => {
  test('npx vitrine runs in a checkout', async () => {
    const env = { HOME: await temporaryFolder(), npm_config_update_notifier: 'false' }; // npx keeps notes at home
    const { code, stdout } = await run(['vitrine', '--help'], { command: 'npx', cwd: REPOSITORY, env });
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: vitrine/);
  });

  test('npm start passes words on to the service', async () => {
    const words = ['start', '--silent', '--', '--help'];
    const { code, stdout } = await run(words, { command: 'npm', cwd: REPOSITORY });
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: vitrine/m);
  });
});

test('a checkout where nothing is installed says what to do', async () => {
  const folder = await temporaryFolder();
  for (const name of ['bin', 'src', 'package.json'])
    await cp(join(REPOSITORY, name), join(folder, name), { recursive: true });
  const options = { command: process.execPath, cwd: folder };
  for (const words of [['--version'], ['check'], ['serve']]) {
    const { code, stdout, stderr } = await run(['bin/vitrine.js', ...words], options);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^vitrine: The installation is incomplete: run npm ci first\. \(.+\)\n$/);
  }
  const env = { NODE_ENV: 'production' };
  const { code, stderr } = await run(['bin/vitrine.js', 'check'], { ...options, env });
  assert.equal(code, 1);
  assert.match(stderr, /run npm ci and npm run build first/);
});
