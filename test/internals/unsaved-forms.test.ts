// Forms that the login page carries, because they came after their session had ended.
import assert from 'node:assert/strict';
import { createForm } from '../../src/admin/web/form-data.ts';
import { createUnsavedForms } from '../../src/admin/web/unsaved-form.ts';
import { describe, test } from 'node:test';

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
    for (const other of [
      '',
      text,
      `${text}.`,
      `${text}.${mac}x`,
      `${text}A.${mac}`,
      `.${mac}`,
      `${signed}.x`,
    ])
      assert.equal(unsaved.read(other, 'ada'), undefined);
    assert.equal(createUnsavedForms(Buffer.alloc(32, 2)).read(signed, 'ada'), undefined);
    context.mock.timers.enable({ apis: ['Date'], now: Date.now() + 12 * 3_600_000 + 1 });
    assert.equal(unsaved.read(signed, 'ada'), undefined);
  });
});
