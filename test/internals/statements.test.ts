// The texts of statements that are kept, and the errors that statements raise on purpose.
import assert from 'node:assert/strict';
import { raw } from '../../src/db/fragment.ts';
import { createTextCaches } from '../../src/db/text-cache.ts';
import { assertWrittenSql, isRolledBack } from '../../src/query/statements/check-statements.ts';
import { describe, test } from 'node:test';

test('a text is built once while it is in use, forgotten when the texts exceed the limit, and not shared by caches', () => {
  const create = createTextCaches(1000);
  const [one, other] = [create(), create()];
  let built = 0;
  const read = (key: string, cache = one): string =>
    cache(key, () => {
      built += 1;
      return `${key} ${'x'.repeat(100)}`;
    });
  read('first', other);
  for (let number = 0; number < 40; number += 1) {
    read('used');
    assert.equal(read(`text ${number}`), read(`text ${number}`));
  }
  assert.equal(built, 1 + 1 + 40);
  read('text 39');
  read('text 0');
  read('used', other);
  assert.equal(built, 42 + 2);
});

// Errors that the statements of writes raise on purpose, to be undone.
describe('the error of a statement that ends itself', () => {
  const [, shown = ''] = /'(vitrine [^']+)'/.exec(assertWrittenSql(raw('true')).text.join('')) ?? [];

  for (const [language, message] of [
    ['English', `invalid input syntax for type bigint: "${shown}"`],
    ['German', `ungültige Eingabesyntax für Typ bigint: »${shown}«`],
    ['French', `syntaxe en entrée invalide pour le type bigint : « ${shown} »`],
    ['Japanese', `"bigint"型の入力構文が不正です: "${shown}"`],
  ] as const)
    test(`is recognized in ${language}`, () => {
      assert.equal(isRolledBack({ code: '22P02', message }), true);
      assert.equal(isRolledBack({ code: 'P0001', message }), false);
      assert.equal(isRolledBack({ code: '22P02', message: message.replace(shown, 'vitrine') }), false);
    });
});
