import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import ts from 'typescript';
import { ROOT } from '../docs/pages.ts';
import { USERS, startSampleService } from './sample-service.ts';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';

const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (file) => ts.sys.readFile(file));
const { options } = ts.parseJsonConfigFileContent(
  { ...(config as object), include: [], files: ['src/client.ts'] },
  ts.sys,
  ROOT,
);

const messagesOf = (program: ts.Program, file: string): string[] =>
  ts
    .getPreEmitDiagnostics(program, program.getSourceFile(file))
    .map(({ start = 0, messageText }) => `${start}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`);

test('the types compile in a project that only sets strict', () => {
  const file = join(ROOT, 'test/client-types.ts');
  const plain = { ...options, exactOptionalPropertyTypes: false, noUncheckedIndexedAccess: false };
  assert.deepEqual(messagesOf(ts.createProgram([file], plain), file), []);
});

const transpile = (file: string, module: ts.ModuleKind): string =>
  ts.transpileModule(readFileSync(join(ROOT, file), 'utf8'), {
    compilerOptions: {
      target: ts.ScriptTarget.ES2023,
      module,
      verbatimModuleSyntax: module !== ts.ModuleKind.CommonJS,
    },
  }).outputText;

describe('the client outside Node.js', () => {
  const service = useStarted(startSampleService);

  test('is one file without imports', () => {
    const text = transpile('src/client.ts', ts.ModuleKind.ESNext);
    const found = ts.preProcessFile(text).importedFiles.map(({ fileName }) => fileName);
    assert.deepEqual(found, []);
  });

  test('runs with the globals of browsers only', async () => {
    const web = { fetch, Headers, URLSearchParams, TextEncoder, btoa, setTimeout, clearTimeout };
    const code = transpile('src/client.ts', ts.ModuleKind.CommonJS);
    const found: unknown = await runInNewContext(
      `const exports = {}; ${code};
      (async () => {
        const client = exports.createClient({ baseUrl, credentials });
        const made = await client.message.create({ content: 'a "b", c' });
        const etag = exports.etagOf(made);
        const changed = await client.message.update(made.id, { content: 'd' }, { etag });
        const count = await client.message.count({ content__in: ['d'] });
        const late = await client.message.update(made.id, {}, { etag }).catch((error) => error);
        await client.message.delete(made.id);
        return JSON.stringify([changed.content, count, late.status, late instanceof exports.VitrineError]);
      })()`,
      { ...web, baseUrl: service.base, credentials: USERS.lukasz },
    );
    assert.equal(found, '["d",1,412,true]');
  });

  // These run only where they are installed.
  for (const runtime of ['deno', 'bun'].filter((name) => spawnSync(name, ['--version']).status === 0)) {
    test(`runs in ${runtime}`, async (t) => {
      const directory = await mkdtemp(join(tmpdir(), 'vitrine-client-'));
      t.after(() => rm(directory, { recursive: true }));
      await writeFile(join(directory, 'client.mjs'), transpile('src/client.ts', ts.ModuleKind.ESNext));
      await writeFile(
        join(directory, 'main.mjs'),
        `import { createClient } from './client.mjs';
        const client = createClient({ baseUrl: '${service.base}' });
        console.log(await client.message.count());`,
      );
      const flags = runtime === 'deno' ? ['run', '--allow-net', 'main.mjs'] : ['main.mjs'];
      const { stdout, stderr } = spawnSync(runtime, flags, { cwd: directory });
      assert.equal(String(stdout), '45\n', String(stderr));
    });
  }

  test('has declarations that do not need the types of Node.js', async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'vitrine-client-'));
    t.after(() => rm(directory, { recursive: true }));
    const emitted = ts.createProgram([join(ROOT, 'src/client.ts')], {
      ...options,
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      rootDir: join(ROOT, 'src'),
      outDir: join(directory, 'dist'),
    });
    emitted.emit();
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
    const main = join(directory, 'main.mts');
    await writeFile(
      main,
      `import { createClient, type Row, type Resource } from './dist/client.js';
      const resources = [{ model: 'a', columns: { x: { type: 'text', null: true } } }] as const satisfies readonly Resource[];
      const client = createClient<typeof resources>({ baseUrl: '' });
      export const found: Promise<Row<(typeof resources)[0]>> = client.a.get(1);
      // @ts-expect-error there is no such column
      void client.a.list({ y: 1 });`,
    );
    const program = ts.createProgram([main], {
      strict: true,
      noEmit: true,
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2023,
      lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
      types: [],
    });
    assert.deepEqual(messagesOf(program, main), []);
    const declared = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(directory));
    for (const { fileName } of declared) assert.deepEqual(messagesOf(program, fileName), [], fileName);
  });
});
