import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { codeBlocks, examplesOf, ROOT, testExamples, type Site } from './pages.ts';
import { after, before, describe, test } from 'node:test';

describe('README.md, against a fresh start', () => {
  let directory: string;
  let service: ChildProcess;
  let printed = '';
  let logged = '';
  let site: Site;

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'vitrine-readme-'));
    await chmod(directory, 0o755); // as root PostgreSQL runs as another user, who must get in
    const env = { PATH: process.env['PATH'], HOME: directory, PORT: '0' };
    service = spawn(process.execPath, [join(ROOT, 'bin/vitrine.js'), 'serve'], { cwd: directory, env });
    service.stderr?.setEncoding('utf8').on('data', (text: string) => (logged += text));
    service.stdout?.setEncoding('utf8').on('data', (text: string) => (printed += text));
    while (!/^listening on .*\n/m.test(printed)) {
      assert.equal(service.exitCode ?? service.signalCode, null, logged);
      await Promise.race([once(service.stdout!, 'data'), once(service, 'exit')]);
    }
    site = {
      base: /listening on (\S+)/.exec(printed)?.[1] ?? '',
      password: /the password (\S+)/.exec(printed)?.[1] ?? '',
    };
  });

  after(async () => {
    if (service.exitCode === null) {
      service.kill('SIGTERM');
      await once(service, 'exit');
    }
    await rm(directory, { recursive: true, force: true });
  });

  test('the start prints what the page shows', () => {
    const examples = codeBlocks('README.md', 'console').flatMap(examplesOf);
    const shown = examples.find(({ command }) => command === 'npm start')?.shown ?? '';
    const mask = (text: string): string =>
      text
        .trim()
        .replace(/(the password )\S{16}$/m, '$1…')
        .replace(/(127\.0\.0\.1:)\d+/g, '$1…');
    assert.equal(mask(printed), mask(shown));
  });

  testExamples('README.md', () => site);

  test('a request is logged with the members that docs/running.md shows', async () => {
    const line = await new Promise<string>((resolve) => {
      const look = (): void => {
        const found = logged
          .split('\n')
          .find((candidate) => candidate.includes('/api/message/?user__username'));
        if (found) resolve(found);
        else setTimeout(look, 20);
      };
      look();
    });
    const [shown = ''] = codeBlocks('docs/running.md', 'json');
    const members = (text: string): string[] => Object.keys(JSON.parse(text) as object);
    assert.deepEqual(members(line), members(shown));
  });
});
