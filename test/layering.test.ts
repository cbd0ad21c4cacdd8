// Holds the floors of the source: a file imports from its own floor or from below, and files do not need one another in a circle.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, relative, sep } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** The floors from the ground up; a folder's name stands for the files in it. */
const FLOORS = [
  ['errors.ts', 'config.ts'],
  ['db'],
  ['query'],
  ['resources'],
  ['http'],
  ['admin'],
  ['service.ts', 'index.ts', 'client-types.ts', 'client.ts', 'commands', 'main.ts'],
];
const PACKAGES = ['@node-rs/argon2', 'postgres'];

interface Import {
  readonly file: string;
  /** As written; undefined where it is computed. */
  readonly target: string | undefined;
  /** Gone once the types are stripped. */
  readonly isType: boolean;
}

function importsOf(file: string): Import[] {
  const found: Import[] = [];
  const text = readFileSync(join(ROOT, 'src', file), 'utf8');
  const add = (target: ts.Node | undefined, isType: boolean): void => {
    const isText = target !== undefined && ts.isStringLiteralLike(target);
    found.push({ file, target: isText ? target.text : undefined, isType });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      // `import { type A }` does not count: what is left of it is an import of nothing, which still loads the file.
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword);
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
      add(node.moduleSpecifier, node.isTypeOnly);
    } else if (ts.isImportTypeNode(node)) {
      add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined, true);
    } else if (ts.isCallExpression(node)) {
      const isImport = node.expression.kind === ts.SyntaxKind.ImportKeyword;
      const isRequire = ts.isIdentifier(node.expression) && node.expression.text === 'require';
      if (isImport || isRequire) add(node.arguments[0], false);
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

const floorOf = (file: string): number =>
  FLOORS.findIndex((names) => names.includes(file.split('/')[0] ?? ''));
/** The file that an import names, from `src`. */
const fileOf = ({ file, target = '' }: Import): string =>
  relative('.', join(dirname(file), target)).replaceAll(sep, '/');

describe('the layers of the source', () => {
  test('every file stands on a floor, and every local import names a file', () => {
    assert.ok(files.length > 30);
    assert.ok(local.length > 100);
    assert.deepEqual(
      files.filter((file) => floorOf(file) < 0),
      [],
    );
    assert.deepEqual(
      local.filter((one) => !files.includes(fileOf(one))),
      [],
    );
  });

  test('no file imports from a floor above its own, not even a type', () => {
    const upward = local.filter((one) => floorOf(fileOf(one)) > floorOf(one.file));
    assert.deepEqual(
      upward.map((one) => `${one.file} -> ${fileOf(one)}`),
      [],
    );
  });

  test('no files need one another in a circle', () => {
    const done = new Set<string>();
    const circles: string[] = [];
    const walk = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
      if (done.has(file) || path.includes(file)) return;
      for (const one of local) if (one.file === file && !one.isType) walk(fileOf(one), [...path, file]);
      done.add(file);
    };
    for (const file of files) walk(file, []);
    assert.deepEqual(circles, []);
  });

  test('from outside come Node itself and two packages', () => {
    const outside = imports.filter(({ target }) => target !== undefined && !target.startsWith('.'));
    const packages = outside
      .map(({ target }) => target ?? '')
      .filter((target) => !target.startsWith('node:'));
    assert.deepEqual([...new Set(packages)].sort(), PACKAGES);
    const unknown = outside.filter(({ target = '' }) => target.startsWith('node:') && !isBuiltin(target));
    assert.deepEqual(unknown, []);
  });

  test('what is imported by a computed name is the registry file and the embedded PostgreSQL', () => {
    const computed = imports.filter(({ target }) => target === undefined).map(({ file }) => file);
    assert.deepEqual(computed, ['db/embedded.ts', 'resources/load.ts']);
  });

  test('package.json asks for these two packages and nothing more at run time', () => {
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
