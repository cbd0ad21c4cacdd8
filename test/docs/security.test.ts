import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { readPage, ROOT } from './pages.ts';
import { test } from 'node:test';

const PAGE = 'docs/security.md';

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The names of the tests of a file, as patterns: a computed part matches any text. */
function testNames(file: string): RegExp[] {
  if (!existsSync(join(ROOT, file))) return [];
  const source = ts.createSourceFile(file, readPage(file), ts.ScriptTarget.Latest, true);
  const names: RegExp[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && node.expression.getText() === 'test') {
      const [name] = node.arguments;
      if (name && ts.isStringLiteralLike(name)) names.push(new RegExp(`^${escaped(name.text)}$`));
      if (name && ts.isTemplateExpression(name)) {
        const parts = [name.head.text, ...name.templateSpans.map(({ literal }) => literal.text)];
        // A name that is computed as a whole would match any.
        if (parts.join('').length >= 10) names.push(new RegExp(`^${parts.map(escaped).join('.+')}$`));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return names;
}

/** The rows of the threat tables: the protection, and the last cell. */
const rows = readPage(PAGE)
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| --- '))
  .map((line) => line.slice(1, -1).split('|'))
  .map((cells) => cells.map((cell) => cell.trim()))
  .filter(([first = '']) => !/^`/.test(first) && !['command', 'threat', 'file'].includes(first));

test('every threat has a test or an attack that shows it', () => {
  assert.ok(rows.length > 30);
  const without = rows.filter(([, , shown = '']) => !/`test\/[^`]+`: "|`npm run (siege|faults)`/.test(shown));
  assert.deepEqual(without, []);
});

test('no cell of a table is too long to be read at a glance', () => {
  const cells = readPage(PAGE)
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .flatMap((line) => line.slice(1, -1).split('|'));
  assert.deepEqual(
    cells.filter((cell) => cell.trim().length > 200),
    [],
  );
});

test('every test that the threat model cites exists', () => {
  const cited = [...readPage(PAGE).matchAll(/`(test\/[\w./-]+\.ts)`: "([^"]+)"/g)];
  assert.ok(cited.length > 30);
  const names = new Map(cited.map(([, file = '']) => [file, testNames(file)]));
  const missing = cited
    .filter(([, file = '', name = '']) => !names.get(file)?.some((pattern) => pattern.test(name)))
    .map(([, file, name]) => `${file}: ${name}`);
  assert.deepEqual(missing, []);
});
