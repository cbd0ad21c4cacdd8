// The digest that shows whether a form was sent before, and forms that the login page carries.
import assert from 'node:assert/strict';
import { submissionDigest } from '../../src/admin/fields/submit-once.ts';
import { createForm, type Form } from '../../src/admin/web/form-data.ts';
import { longestTurnOf } from '../http/expect.ts';
import { createUnsavedForms } from '../../src/admin/web/unsaved-form.ts';
import { describe, test } from 'node:test';

const PIECE = 65_536;
const formOf = (...entries: Form['entries']): Form => createForm([['_form', 'token'], ...entries]);
const digestOf = (...entries: Form['entries']): Promise<string | undefined> =>
  submissionDigest(formOf(...entries));

describe('the digest of a form', () => {
  test('is the same for the same values, whichever button was pressed', async () => {
    const long = 'ä\u{1f600}'.repeat(PIECE);
    const digest = await digestOf(['name', long]);
    assert.match(digest ?? '', /^[\w-]{43}$/);
    assert.equal(await digestOf(['name', long], ['_save', 'stay']), digest);
  });

  test('is missing without a token', async () => {
    assert.equal(await submissionDigest(createForm([['name', 'x']])), undefined);
  });

  test('differs for different values', async () => {
    const before = 'x'.repeat(PIECE - 1);
    const forms: Form['entries'][] = [
      [],
      [['', '']],
      [['a', 'bc']],
      [['ab', 'c']],
      [['a', 'b'], ['c', '']],
      [['a', ''], ['b', 'c']],
      [['a', '1;b']],
      [['a', before]],
      [['a', `${before}\u{1f600}`]],
      [['a', `${before}\u{1f601}`]],
      [['a', `${before}\u{2f600}`]],
    ]; // prettier-ignore
    const digests = await Promise.all(forms.map((entries) => digestOf(...entries)));
    assert.equal(new Set(digests).size, forms.length);
  });

  test('is made in short turns of the event loop', async () => {
    const controls = '\u0001'.repeat(8 * 2 ** 20);
    const many = Array.from({ length: 20_000 }, (_, index) => [`name ${index}`, ''] as const);
    for (const form of [formOf(['name', controls]), formOf([controls, '']), formOf(...many)]) {
      const longest = await longestTurnOf(() => submissionDigest(form), 20_000);
      assert.ok(longest < 20_000, `${longest} microseconds`);
    }
  });
});

describe('a form that was not saved', () => {
  const unsaved = createUnsavedForms(Buffer.alloc(32, 1));
  const form = createForm([
    ['title', 'Emma'],
    ['_password', 'hidden words'],
  ]);

  test('comes back to its user, without its passwords', () => {
    const signed = unsaved.write('ada', '/admin/book/1/', form);
    const found = unsaved.read(signed, 'ada');
    assert.deepEqual([found?.path, found?.form.entries], ['/admin/book/1/', [['title', 'Emma']]]);
  });

  test('does not come back to another user, changed, from another service, or after 12 hours', (context) => {
    const signed = unsaved.write('ada', '/admin/book/1/', form);
    const [text = '', mac = ''] = signed.split('.');
    assert.equal(unsaved.read(signed, 'bob'), undefined);
    for (const other of ['', text, `${text}.`, `${text}.${mac}x`, `${text}A.${mac}`, `.${mac}`])
      assert.equal(unsaved.read(other, 'ada'), undefined);
    assert.equal(createUnsavedForms(Buffer.alloc(32, 2)).read(signed, 'ada'), undefined);
    context.mock.timers.enable({ apis: ['Date'], now: Date.now() + 12 * 3_600_000 + 1 });
    assert.equal(unsaved.read(signed, 'ada'), undefined);
  });
});
