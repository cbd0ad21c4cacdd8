import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createDatabase, request, type TestDatabase } from '../support.ts';
import { EXECUTABLE, run, serve, start, until } from './support.ts';
import { after, before, describe, test } from 'node:test';

describe('LOG_FORMAT', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
  });
  after(() => database.drop());

  const TEXT = /^\S+ \S+Z INFO {2}GET \/healthz 200 \d+(?:\.\d)?ms 15B - id=\S+$/m;

  for (const [format, first] of [
    ['json', /^\{"time":.*"path":"\/healthz".*\}$/m],
    ['text', TEXT],
    [undefined, /^\{"time":.*"path":"\/healthz".*\}$/m],
  ] as const) {
    test(`${format ?? 'none, where standard error is no terminal,'} writes ${format ?? 'json'} without colours`, async () => {
      const env = { DATABASE_URL: database.url, ...(format && { LOG_FORMAT: format }) };
      const service = await serve({ env });
      await request(service.base, '/healthz');
      const { stderr } = await service.stop();
      assert.match(stderr, first);
      assert.ok(!stderr.includes('\u001b'));
    });
  }

  test('no other word is taken', async () => {
    const { code, stderr } = await run(['serve'], { env: { LOG_FORMAT: 'xml' } });
    assert.equal(code, 1);
    assert.match(stderr, /LOG_FORMAT must be one of json, text/);
  });

  // The script of util-linux gives a program a terminal.
  const hasScript = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux');
  const options = { skip: hasScript ? false : 'there is no script of util-linux here' };
  for (const [name, env, isText, isColoured] of [
    ['a terminal gets text with colours', {}, true, true],
    ['a terminal gets no colours with NO_COLOR', { NO_COLOR: '1' }, true, false],
    ['an empty NO_COLOR counts for nothing', { NO_COLOR: '' }, true, true],
    ['a terminal gets JSON with LOG_FORMAT=json', { LOG_FORMAT: 'json' }, false, false],
  ] as const) {
    test(name, options, async () => {
      const program = await start(['-qefc', `'${process.execPath}' '${EXECUTABLE}' serve`, '/dev/null'], {
        command: 'script',
        env: { DATABASE_URL: database.url, PORT: '0', TERM: 'xterm', ...env },
      });
      await until('the service to listen', () => program.stdout().includes('listening on '));
      await request(/listening on (\S+)/.exec(program.stdout())?.[1] ?? '', '/healthz');
      await until('the line', () => program.stdout().includes('/healthz'));
      const output = program.stdout();
      const plain = output.replace(/\u001b\[\d+m/g, '').replaceAll('\r', ''); // eslint-disable-line no-control-regex -- colours
      assert.equal(TEXT.test(plain), isText, output);
      assert.equal(output.includes('\u001b['), isColoured, output);
      program.child.kill('SIGTERM');
      await program.ended;
    });
  }
});
