// How values look: tones of choices, and the widgets of text columns in lists, records and forms.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { save, useAdmin } from './support.ts';
import { test } from 'node:test';

const ticket: Resource = {
  model: 'ticket',
  columns: {
    subject: { type: 'string' },
    status: {
      type: 'string',
      choices: { open: 'Open <now>', waiting: 'Waiting', done: 'Done', '': 'None' },
      tones: { open: 'warning', done: 'success', '': 'neutral' },
      null: true,
    },
    level: { type: 'integer', choices: { 1: 'Low', 2: 'High' }, tones: { 2: 'danger' }, default: 1 },
    paid: {
      type: 'boolean',
      choices: [true, false],
      tones: { true: 'accent', false: 'info' },
      default: false,
    },
    fixed: { type: 'string', choices: ['a', 'b-1'], tones: { a: 'info' }, default: 'a' },
  },
  admin: { readonly: ['fixed'], list: ['status', 'level', 'paid', 'subject'] },
};

const { ada, service } = useAdmin([user, ticket]);

/** The badges of a text, as `tone: label`. */
const badgesIn = (text: string): string[] =>
  [...text.matchAll(/<span class="badge tone-(\w+)">([^<]*)<\/span>/g)].map(
    ([, tone = '', label = '']) => `${tone}: ${label}`,
  );

test('a choice with a tone is a badge in the list, the title, read-only values and the history', async () => {
  await service.sql`insert into ticket (subject, status, level, paid, fixed) values
    ('one', 'open', 2, true, 'a'), ('two', 'waiting', 1, false, 'b-1'), ('three', '', 1, false, 'a'), ('four', null, 1, false, 'a')`;
  const { text } = await ada.get('/admin/ticket/?ordering=id');
  assert.deepEqual(badgesIn(text), [
    ...['warning: Open &lt;now&gt;', 'danger: High', 'accent: Yes'],
    'info: No',
    ...['neutral: None', 'info: No'],
    'info: No',
  ]);
  const record = (await ada.get('/admin/ticket/1/')).text;
  const heading = /<div class="heading">[^]*?<\/div>/.exec(record)?.[0] ?? '';
  const all = ['warning: Open &lt;now&gt;', 'danger: High', 'accent: Yes', 'info: a'];
  assert.deepEqual(badgesIn(heading), all);
  assert.match(heading, /<h1>one<\/h1>/);
  assert.deepEqual(badgesIn(record), [...all, 'info: a']);
  assert.doesNotMatch((await ada.get('/admin/ticket/-/add/')).text, /class="badge/);
  assert.equal((await save(ada, '/admin/ticket/1/', { status: 'done', level: '1' })).status, 303);
  const history = (await ada.get('/admin/ticket/1/history/')).text;
  assert.deepEqual(badgesIn(history), ['warning: Open &lt;now&gt;', 'success: Done', 'danger: High']);
});
