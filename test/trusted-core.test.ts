// Checks the boundary of the trusted core: only a few files decide about callers, SQL and markup (docs/security.md).
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import ts from 'typescript';
import { readPage } from './docs/pages.ts';
import { REPOSITORY } from './paths.ts';
import { describe, test } from 'node:test';

const SOURCE = join(REPOSITORY, 'src');

/** The code of a file without comments, which may name anything. */
function codeOf(file: string): string {
  const text = readFileSync(join(SOURCE, file), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest);
  return ts.createPrinter({ removeComments: true }).printFile(source);
}

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replaceAll(sep, '/'))
  .sort();
const codes = new Map(files.map((file) => [file, codeOf(file)]));

/** Actions that only some files may have: a pattern of code, and the files or folders. */
const BOUNDARIES: readonly (readonly [action: string, pattern: RegExp, allowed: readonly string[]])[] = [
  ['opens connections to PostgreSQL', /import postgres\b.* from ['"]postgres['"]|import\(['"]postgres['"]\)/, ['db/connection/driver.ts']],
  ['hands SQL text to the driver', /\.unsafe\(/, ['db/connection/', 'commands/embedded.ts']],
  [
    'turns text that is not a literal into SQL',
    /\braw\((?!['"])/,
    [
      'db/',
      'query/after-boundary.ts',
      'query/condition-sql.ts',
      'query/csv/',
      'query/read.ts',
      'query/row-rules.ts',
      'query/source.ts',
      'query/statements/',
      'query/labels/',
    ],
  ],
  [
    'writes SQL',
    /\bsql`|\braw\(|['"`](?:alter|create|delete from|grant|insert into|listen|lock|notify|release|revoke|rollback|savepoint|select|set (?:local|constraints)|update|with) [a-z$"*]/,
    ['db/', 'query/', 'commands/embedded.ts', 'commands/introspect/existing-keys.ts'],
  ],
  [
    'writes the name of a relation into SQL',
    /\btable\b[^}]*\} from ['"][^'"]*db\/fragment\.ts|identifier\(\w+\.(?:schema|table|model)\)|\brelation \?\?/,
    ['db/', 'query/source.ts'],
  ],
  ['compares access levels', /ACCESS_LEVELS\.indexOf|\b(?:access|read|costly|\w*[lL]evel) [!=]== '(?:default|user|admin)'/, ['resources/access/access.ts']],
  ['makes a piece of SQL without the builder', /\btext: \[/, ['db/fragment.ts']],
  ['makes markup from text', /new Html\(/, ['admin/web/html.ts']],
  ['takes text as markup', /\brawHtml\(/, ['admin/web/html.ts', 'admin/web/layout.ts']],
  ['parses credentials', /\bparse(?:Basic|Bearer)\(/, ['http/auth/']],
  ['hashes and verifies passwords', /@node-rs\/argon2/, ['resources/users/password-hashing.ts']],
  ['reads and sets cookies', /headers\.cookie\b/, ['admin/web/cookies.ts', 'http/message/compression.ts']],
  ['starts programs', /node:child_process/, ['commands/watch.ts', 'commands/embedded.ts', 'resources/load-registry.ts']],
  ['listens on sockets', /\bcreateServer\(/, ['http/server/http-server.ts', 'commands/embedded.ts']],
  [
    'uses undocumented parts of Node.js, which any release may change',
    /\._[a-z]|\b_handle\b|\b_httpMessage\b|kOn[A-Z]|HalfOpen|(?<!process)\.listeners\(|\bparser\.on|getOwnPropertySymbols|process\.binding/,
    [],
  ],
  ['runs text as code', /\beval\(|new Function\(|node:vm/, []],
]; // prettier-ignore

/** Files with descriptions in the OpenAPI document, or with lines for the operator. */
const OTHER_TEXTS: ReadonlySet<string> = new Set([
  'db/types/column-schemas.ts',
  'http/load/connection-limit.ts',
  'http/load/overload.ts',
  'resources/access/resource-view.ts',
  'resources/records/user-management.ts',
]);

const ERROR_CALL = /^(addError|errorOf|unavailable|notFound|\w*Problem|Refusal|BrokenRule)$/;
/** SQL, and names of columns and keys. */
const NO_PROSE = /^(?:declare|no key update|date_trunc|\(now\(\)|vitrine|neighbor)/;

/** The texts of three words in code, and of two in what makes an error, apart from SQL and from errors that only the log or a program has. */
function proseIn(code: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node, isError: boolean): void => {
    if (ts.isTaggedTemplateExpression(node)) return;
    const called = ts.isCallExpression(node) || ts.isNewExpression(node) ? node.expression.getText() : '';
    if (/^(raw|Error|TypeError|StartError|Unauthorized|DatabaseFault)$/.test(called)) return;
    const text = ts.isStringLiteralLike(node)
      ? node.text
      : ts.isTemplateExpression(node)
        ? [node.head, ...node.templateSpans.map(({ literal }) => literal)].map((part) => part.text).join('1')
        : '';
    const words = isError ? /[a-z]+ [a-z]+/i : /[a-z]+ [a-z]+ [a-z]+/i;
    if (words.test(text) && !NO_PROSE.test(text)) found.push(text);
    ts.forEachChild(node, (child) => visit(child, isError || ERROR_CALL.test(called)));
  };
  visit(ts.createSourceFile('code.ts', code, ts.ScriptTarget.Latest, true), false);
  return found;
}

describe('the trusted core', () => {
  for (const [action, pattern, allowed] of BOUNDARIES)
    test(`only the listed files have code that ${action}`, () => {
      const found = files.filter((file) => pattern.test(codes.get(file) ?? ''));
      assert.ok(found.length > 0 || allowed.length === 0, 'the pattern matches nothing');
      const others = found.filter((file) => !allowed.some((one) => file === one || file.startsWith(one)));
      assert.deepEqual(others, []);
    });

  test('the texts of errors that clients of the API get are only in src/messages.ts', () => {
    const sentences = files
      .filter((file) =>
        /^(query|db\/types|http\/(api|auth|load|message)|resources\/(access|records))\//.test(file),
      )
      .filter((file) => !OTHER_TEXTS.has(file))
      .flatMap((file) => proseIn(codes.get(file) ?? '').map((text) => `${file}: ${text}`));
    assert.deepEqual(sentences, []);
  });

  test('the audit map names only existing files, with fewer than 5,000 lines', () => {
    const map = readPage('docs/security.md').matchAll(/`src\/([\w/-]+\.ts)`/g);
    const named = [...new Set([...map].map(([, file = '']) => file))];
    assert.ok(named.length > 15);
    assert.deepEqual(
      named.filter((file) => !codes.has(file)),
      [],
    );
    const lines = named.reduce((sum, file) => sum + (codes.get(file)?.split('\n').length ?? 0), 0);
    assert.ok(lines < 5_000, String(lines));
  });
});
