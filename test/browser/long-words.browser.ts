import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { overflowOf } from './axe.ts';
import { LONG_WORD } from './registry.ts';
import { button, follow, openSite, type Site } from './support.ts';
import { test } from 'node:test';
import { useStarted } from '../support.ts';

const ship = {
  model: 'ship',
  columns: {
    name: { type: 'string', label: LONG_WORD, help: `See https://example.org/${LONG_WORD}` },
    town: { type: 'foreignKey', references: 'town', label: `${LONG_WORD} town` },
    note: { type: 'text', null: true, label: `${LONG_WORD} note` },
    afloat: { type: 'boolean', label: `${LONG_WORD} afloat` },
    built: { type: 'date', null: true, label: `${LONG_WORD} built` },
  },
  admin: { title: LONG_WORD, group: LONG_WORD, dates: 'built' },
} satisfies Resource;

const site: Site = useStarted(
  () => openSite({ viewport: { width: 320, height: 256 } }, [ship]),
  async () => {
    const { sql } = site.service;
    await sql`insert into ship (name, town_id, afloat, built) select ${LONG_WORD}, 1, true, date '2025-11-20' + n * 40 from generate_series(1, 3) n`;
  },
);

test('long words in titles, labels and help texts do not widen a narrow page', async () => {
  const page = await site.openAs();
  const found: string[] = [];
  const check = async (name: string): Promise<void> => {
    const overflow = await overflowOf(page);
    if (overflow > 0) found.push(`${name}: ${overflow} px`);
  };
  for (const path of ['', 'ship/', 'ship/#filter-0', `ship/?name=${LONG_WORD}&built__gte=2025-01-01`, 'ship/-/add/', 'ship/1/', 'ship/1/delete/', 'ship/1/history/', 'ship/-/import/', 'town/1/', 'town/1/delete/']) {
    await page.goto(`/admin/${path}`);
    await check(path);
  } // prettier-ignore
  await page.goto('/admin/ship/-/add/');
  await follow(button(page, 'Save'));
  await check('errors');
  await page.goto('/admin/ship/');
  await page.locator('.top summary').click();
  await check('the menu of lists');
  await page.goto('/admin/ship/#filter-0');
  await page.getByText('More filters').click();
  await check('the filters');
  await page.locator('tbody input[type=checkbox]').first().check();
  await page.getByLabel(/^With /).selectOption('Change …');
  await follow(button(page, 'Continue'));
  await check('the form of a bulk change');
  await page.getByRole('textbox', { name: `${LONG_WORD} note` }).fill(LONG_WORD);
  await follow(button(page, 'Continue'));
  await check('the preview of a bulk change');
  await page.goto('/api/ship/');
  await check('the API');
  assert.deepEqual(found, []);
});
