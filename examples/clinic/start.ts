// Starts the clinic on the embedded PostgreSQL, and fills it at the first start: npm run clinic
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { fill } from './samples.ts';

const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

const print = (line: string): void => void process.stdout.write(`${line}\n`);

// The data is in examples/clinic/.data.
const service = spawn(process.execPath, [path('../../bin/vitrine.js'), 'serve'], {
  cwd: path('.'),
  env: { LOG_LEVEL: 'warn', ...process.env, RESOURCES: 'resources.ts' },
  stdio: ['inherit', 'pipe', 'inherit'],
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => service.kill(signal));
service.on('exit', (code) => process.exit(code ?? 1));

let admin: string | undefined;
for await (const line of createInterface({ input: service.stdout })) {
  print(line);
  admin ??= /^created the user "admin" with the password (\S+)$/.exec(line)?.[1];
  const origin = /^ {2}API +(http:\/\/[^/]+)/.exec(line)?.[1];
  if (admin === undefined || origin === undefined) continue;
  const password = randomBytes(9).toString('base64url');
  // Not awaited, so that the lines that follow come first.
  void fill(origin, admin, password).then((ids) =>
    print(`added ${Object.keys(ids).join(', ')}; the password of all of them is ${password}`),
  );
}
