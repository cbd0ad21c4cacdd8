// Runs before `npm start` and `npm test`: installs the dependencies when none are installed yet.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const root = new URL('..', import.meta.url);
if (!existsSync(new URL('node_modules/.package-lock.json', root))) {
  process.stderr.write('installing the dependencies (npm ci) ...\n');
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: true,
  });
  process.exitCode = status ?? 1;
}
