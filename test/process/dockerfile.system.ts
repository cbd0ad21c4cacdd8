// deploy/Dockerfile: its steps, run in a folder instead of by a container engine.
import assert from 'node:assert/strict';
import { chmod, cp, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { REPOSITORY } from '../paths.ts';
import { request, useDatabase } from '../support.ts';
import { INSTALLATION, listening, run, start, temporaryFolder } from './support.ts';

const REGISTRY = `export default [{ model: 'book', columns: { title: { type: 'string' } } }];`;

/** The instructions of the file, in order. */
async function instructions(): Promise<(readonly [name: string, rest: string])[]> {
  const text = await readFile(join(REPOSITORY, 'deploy/Dockerfile'), 'utf8');
  return text.split('\n').flatMap((line) => {
    const [, name = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    return name === '' ? [] : [[name, rest] as const];
  });
}

/** Makes a folder and what is in it unwritable, as an image is that runs with --read-only. */
async function makeReadOnly(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeReadOnly(path);
    else if (entry.isFile()) await chmod(path, 0o444);
  }
  await chmod(folder, 0o555);
}

describe('the image of deploy/Dockerfile', () => {
  const database = useDatabase();

  test('serves the registry as a user without rights, from files that it cannot change, and is healthy', async () => {
    const context = await temporaryFolder();
    const npm = ['pack', '--ignore-scripts', '--pack-destination', context];
    const packed = await run(npm, {
      command: 'npm',
      cwd: INSTALLATION,
      env: { ...process.env } as Record<string, string>,
    });
    assert.equal(packed.code, 0, packed.stderr);
    await rename(join(context, packed.stdout.trim().split('\n').at(-1) ?? ''), join(context, 'vitrine.tgz'));
    await writeFile(join(context, 'resources.mjs'), REGISTRY);

    const root = await temporaryFolder();
    const inImage = (path: string): string => join(root, path);
    const env: Record<string, string> = {};
    const commands: Record<string, string[]> = {};
    let cwd = root;
    let user = 'root';
    for (const [name, rest] of await instructions()) {
      if (name === 'WORKDIR') await mkdir((cwd = inImage(rest)), { recursive: true });
      else if (name === 'COPY') {
        const [from = '', to = ''] = rest.split(' ');
        await cp(join(context, from), join(cwd, to, from));
      } else if (name === 'RUN') {
        assert.equal(user, 'root', 'the user of the service installs nothing');
        const done = await run(['-c', rest], {
          command: 'sh',
          cwd,
          env: { ...process.env } as Record<string, string>,
        });
        assert.equal(done.code, 0, done.stderr);
      } else if (name === 'ENV') {
        const [key = '', value = ''] = rest.split('=');
        env[key] = value.startsWith('/') ? inImage(value) : value;
      } else if (name === 'USER') user = rest;
      else if (['ENTRYPOINT', 'CMD'].includes(name)) commands[name] = JSON.parse(rest) as string[];
      else if (name === 'HEALTHCHECK')
        commands[name] = JSON.parse(/\[.*\]/.exec(rest)?.[0] ?? '') as string[];
      else assert.ok(['FROM', 'EXPOSE'].includes(name), name);
    }
    assert.equal(user, 'node');
    await makeReadOnly(root);

    // The address is that of a free port; a container has all ports for itself.
    Object.assign(env, { DATABASE_URL: database.url, HOST: '127.0.0.1', PORT: '0' });
    const asUser =
      process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : ['env'];
    const [command = '', ...words] = [
      ...asUser,
      ...(commands['ENTRYPOINT'] ?? []),
      ...(commands['CMD'] ?? []),
    ];
    const service = await listening(await start(words, { command, cwd, env }));
    const answer = await request(service.base, '/api/book/');
    assert.equal(answer.status, 200, answer.text);

    const [probe = '', ...probing] = commands['HEALTHCHECK'] ?? [];
    const check = async (port: string): Promise<number | null> =>
      (await run(probing, { command: probe, cwd, env: { ...env, PORT: port } })).code;
    assert.equal(await check(new URL(service.base).port), 0);
    const ended = await service.stop();
    assert.equal(ended.code, 0, ended.stderr);
    assert.equal(await check(new URL(service.base).port), 1);
  });
});
