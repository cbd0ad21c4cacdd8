import assert from 'node:assert/strict';
import { run } from './support.ts';
import { describe, test } from 'node:test';

describe('every command', { concurrency: 2 }, () => {
  for (const command of ['serve', 'init', 'introspect', 'check', 'schema', 'user', 'token', 'history']) {
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
        new RegExp(`^vitrine ${command}: Unknown option '--bogus'\\nTry vitrine ${command} --help\\.\\n$`),
      );
    });
  }

  test('help and the short options do what the long options do', async () => {
    const [long, ...others] = await Promise.all(
      [['--help'], ['help'], ['-h'], ['help', 'nothing']].map((words) => run(words)),
    );
    for (const other of others) assert.deepEqual(other, long);
    assert.deepEqual(await run(['help', 'serve']), await run(['serve', '--help']));
    assert.deepEqual(await run(['-v']), await run(['--version']));
  });

  test('a setting that is given as an option is named as the environment variable that it is', async () => {
    const { code, stderr } = await run(['serve', '--max-body', '9000']);
    assert.equal(code, 2);
    assert.match(stderr, /^vitrine serve: Unknown option '--max-body'.* MAX_BODY=… vitrine serve\nTry /);
  });
});
