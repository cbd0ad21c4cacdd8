// The programs of docs/client.md and docs/openapi.md, compiled and run on the sample records.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';
import * as client from '../../src/client.ts';
import { DEFAULTS } from '../../src/config.ts';
import { createLogger } from '../../src/http/observability/logger.ts';
import { createHttpServer, listen, type RunningServer } from '../../src/http/server/http-server.ts';
import shipped from '../../src/resources/registry.ts';
import { loadSamples } from '../../src/commands/samples.ts';
import { createService, type Service } from '../../src/service.ts';
import { codeBlocks, readPage, ROOT } from '../docs/pages.ts';
import { createDatabase, type TestDatabase } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const PASSWORD = 'the password that was printed';

describe('the programs of the documentation print what the page shows', () => {
  let database: TestDatabase;
  let service: Service;
  let server: RunningServer;
  let directory: string;

  before(async () => {
    database = await createDatabase();
    service = createService(
      { ...DEFAULTS, databaseUrl: database.url },
      { resources: shipped },
      database.url,
      createLogger('error'),
    );
    const { resources, operations, users } = await service.prepare();
    assert.ok(users);
    await users.add('admin', PASSWORD, true);
    await loadSamples(resources, operations, users);
    server = await listen(createHttpServer(service.handler), '127.0.0.1', 0);
    directory = await mkdtemp(join(tmpdir(), 'vitrine-pages-'));
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
    await writeFile(join(directory, 'package.json'), '{ "type": "module" }');
  });
  after(async () => {
    await server.close();
    await service.close();
    await database.drop();
    await rm(directory, { recursive: true });
  });

  /** Runs a program of a page against the service. @returns its output */
  async function run(program: string): Promise<string> {
    const file = join(directory, 'main.ts');
    await writeFile(
      file,
      program.replaceAll('http://127.0.0.1:8000', server.url).replaceAll("'PASSWORD'", `'${PASSWORD}'`),
    );
    const child = spawn(process.execPath, ['--import', 'tsx', file], { cwd: directory });
    const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
    assert.equal(errors, '');
    return output;
  }

  const programOf = (page: string, language: string): [program: string, shown: string] => {
    const [program, ...others] = codeBlocks(page, language);
    const [shown] = codeBlocks(page, 'text');
    assert.ok(program && shown && others.length === 0, `${page} has one program and its output`);
    return [program, shown];
  };

  test('docs/client.md', async () => {
    const [program, shown] = programOf('docs/client.md', 'ts');
    const source = program.replace('vitrine/client', join(ROOT, 'src/client.ts'));
    assert.equal(await run(source), shown);
  });

  test('docs/openapi.md', async () => {
    const [program, shown] = programOf('docs/openapi.md', 'typescript');
    const types = astToString(await openapiTS(new URL(`${server.url}/api/openapi.json`)));
    await writeFile(join(directory, 'api.d.ts'), types);
    assert.equal(await run(program), shown);
    const compiled = ts.createProgram([join(directory, 'main.ts')], {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2023,
      lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
      types: [],
    });
    const messages = ts.getPreEmitDiagnostics(compiled).map(({ messageText }) => messageText);
    assert.deepEqual(messages, []);
  });
});

test('docs/client.md mentions every export, option and method of the client', () => {
  const page = readPage('docs/client.md');
  const mentioned = new Set([...page.matchAll(/`(\w+)[`(]/g)].map(([, name]) => name));
  const program = ts.createProgram([join(ROOT, 'src/client.ts')], {
    types: [],
    allowImportingTsExtensions: true,
    noEmit: true,
  });
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(join(ROOT, 'src/client.ts'));
  const module = source && checker.getSymbolAtLocation(source);
  assert.ok(module);
  const exported = checker.getExportsOfModule(module);
  const options = exported.find(({ name }) => name === 'ClientOptions');
  assert.ok(options);
  const members = checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(options));
  const methods = Object.keys(client.createClient({ baseUrl: '' })['any'] ?? {});
  for (const name of [...exported, ...members].map(({ name }) => name).concat(methods)) {
    assert.ok(mentioned.has(name), name);
  }
});
