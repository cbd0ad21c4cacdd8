// Checks the layers of the source: a file imports from its own room or from a lower one, and never in a circle.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, relative, sep } from 'node:path';
import ts from 'typescript';
import { REPOSITORY } from './paths.ts';
import { describe, test } from 'node:test';

const ROOT = REPOSITORY;
/** The rooms (folders) from the bottom up: a file imports from its own room or from one before it. */
const ROOMS = [
  'messages.ts',
  'errors.ts',
  'similar-names.ts',
  'database-address.ts',
  'setting-values.ts',
  'config.ts',
  'processes.ts',
  'db',
  'db/types',
  'db/schema',
  'db/lanes',
  'db/connection',
  'db/replicas',
  'query/parse',
  'query',
  'query/csv',
  'query/statements',
  'query/labels',
  'resources/definition',
  'resources/access',
  'resources/setup',
  'resources/check',
  'resources/users',
  'resources/records',
  'resources/history',
  'resources',
  'http/message',
  'http/load',
  'http/auth',
  'http/openapi',
  'http/api',
  'http/observability',
  'http/server',
  'workers',
  'admin/texts',
  'admin/web',
  'admin/session',
  'admin/fields',
  'admin/history',
  'admin/form',
  'admin/actions',
  'admin/list',
  'admin/import',
  'admin/dashboard',
  'admin/api-browser',
  'admin',
  'service.ts',
  'client-query-types.ts',
  'client-types.ts',
  'client.ts',
  'index.ts',
  'commands/introspect',
  'commands/check',
  'commands',
  'main.ts',
];
const PACKAGES = ['@node-rs/argon2', 'postgres'];

interface Import {
  readonly file: string;
  /** The import as written; undefined if it is computed. */
  readonly target: string | undefined;
}

function importsOf(file: string): Import[] {
  const found: Import[] = [];
  const text = readFileSync(join(ROOT, 'src', file), 'utf8');
  const add = (target: ts.Node | undefined): void => {
    const isText = target !== undefined && ts.isStringLiteralLike(target);
    found.push({ file, target: isText ? target.text : undefined });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier);
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
      add(node.moduleSpecifier);
    } else if (ts.isImportTypeNode(node)) {
      add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined);
    } else if (ts.isCallExpression(node)) {
      const isImport = node.expression.kind === ts.SyntaxKind.ImportKeyword;
      const isRequire = ts.isIdentifier(node.expression) && node.expression.text === 'require';
      if (isImport || isRequire) add(node.arguments[0]);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest));
  return found;
}

const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replaceAll(sep, '/'))
  .sort();
const imports = files.flatMap(importsOf);
const local = imports.filter(({ target }) => target?.startsWith('.'));

const roomOf = (file: string): string => (file.includes('/') ? dirname(file) : file);
const rankOf = (file: string): number => ROOMS.indexOf(roomOf(file));
/** The file of an import, relative to `src`. */
const fileOf = ({ file, target = '' }: Import): string =>
  relative('.', join(dirname(file), target)).replaceAll(sep, '/');

describe('the layers of the source', () => {
  test('every file is in a room, and every local import names a file', () => {
    assert.ok(files.length > 30);
    assert.ok(local.length > 100);
    assert.deepEqual(
      files.filter((file) => rankOf(file) < 0),
      [],
    );
    assert.deepEqual(
      local.filter((one) => !files.includes(fileOf(one))),
      [],
    );
  });

  test('every room has files', () => {
    assert.deepEqual(
      ROOMS.filter((room) => !files.some((file) => roomOf(file) === room)),
      [],
    );
  });

  test('no file imports from a higher room, not even a type', () => {
    const upward = local.filter((one) => rankOf(fileOf(one)) > rankOf(one.file));
    assert.deepEqual(
      upward.map((one) => `${one.file} -> ${fileOf(one)}`),
      [],
    );
  });

  test('no files import each other in a circle, not even types', () => {
    const done = new Set<string>();
    const circles: string[] = [];
    const walk = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
      if (done.has(file) || path.includes(file)) return;
      for (const one of local) if (one.file === file) walk(fileOf(one), [...path, file]);
      done.add(file);
    };
    for (const file of files) walk(file, []);
    assert.deepEqual(circles, []);
  });

  test('the only imports from outside are Node.js and two packages', () => {
    const outside = imports.filter(({ target }) => target !== undefined && !target.startsWith('.'));
    const packages = outside
      .map(({ target }) => target ?? '')
      .filter((target) => !target.startsWith('node:'));
    assert.deepEqual([...new Set(packages)].sort(), PACKAGES);
    const unknown = outside.filter(({ target = '' }) => target.startsWith('node:') && !isBuiltin(target));
    assert.deepEqual(unknown, []);
  });

  test('only the registry file and the embedded PostgreSQL are imported by a computed name', () => {
    const computed = imports.filter(({ target }) => target === undefined).map(({ file }) => file);
    assert.deepEqual(computed, ['commands/embedded.ts', 'resources/load-registry.ts']);
  });

  test('package.json has only these two packages at run time', () => {
    const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<string, object>;
    assert.deepEqual(Object.keys(manifest['dependencies'] ?? {}).sort(), PACKAGES);
    for (const key of [
      'optionalDependencies',
      'peerDependencies',
      'bundleDependencies',
      'bundledDependencies',
    ]) {
      assert.equal(manifest[key], undefined, key);
    }
  });
});
