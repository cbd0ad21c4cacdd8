import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { run } from '../process/support.ts';

describe('every command', { concurrency: 2, timeout: 60_000 }, () => {
  for (const command of ['serve', 'init', 'introspect', 'check', 'schema', 'user']) {
    test(`vitrine ${command} --help tells what it takes, without settings or a database`, async () => {
      const env = { DATABASE_URL: 'no address', PORT: 'none' };
      for (const option of ['--help', '-h']) {
        const { code, stdout, stderr } = await run([command, option], { env });
        assert.deepEqual([code, stderr], [0, '']);
        assert.ok(stdout.startsWith(`Usage: vitrine ${command}`), stdout);
        assert.match(stdout, /^ +--help /m);
      }
    });

    test(`vitrine ${command} refuses an option that it does not have, and says which`, async () => {
      const { code, stdout, stderr } = await run([command, '--bogus']);
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(
        stderr,
        new RegExp(`^vitrine: vitrine ${command}: .*--bogus.*\\nTry vitrine .*--help\\.\\n$`),
      );
    });
  }
});
