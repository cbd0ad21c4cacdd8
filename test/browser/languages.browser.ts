// The pages in the other languages: their longer words neither widen a page nor are cut, and axe-core finds nothing.
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';
import { makeHistory } from './admin-pages.ts';
import { overflowOf, violationsOf } from './axe.ts';
import { expectVisible, openSite, press, type Site } from './support.ts';

const ADDRESSES = [
  '',
  'trip/?_search=trip&rating__gte=2&ordering=-rating,name',
  'trip/?rating=many&name__ilike=%25T%25&ordering=nothing',
  'thing/',
  'land/',
  'thing/-/add/',
  'trip/1/',
  'user/2/',
  'town/2/delete/',
  'trip/1/delete/',
  'trip/-/import/',
  'note/2/history/',
  'vitrine_history/',
  'vitrine_event/',
  'user/2/access/',
  'user/2/password/',
  '-/account/',
  '-/tokens/',
  '-/second-factor/',
  '-/keys/',
  'nothing/',
];

/** The texts of controls and headings that do not fit into their boxes. */
const cutTexts = (page: Page): Promise<string[]> =>
  page.evaluate<
    string[]
  >(`[...document.querySelectorAll('button:not(.hidden), .button, label, legend, summary, h1, h2, nav a')]
    .filter((box) => box.checkVisibility() && box.clientWidth > 1 && getComputedStyle(box).overflowX !== 'visible' && box.scrollWidth > box.clientWidth + 1)
    .map((box) => box.textContent.trim())`);

describe('the pages', () => {
  const site: Site = useStarted(openSite, async () => {
    const page = await site.openAs();
    await makeHistory(page);
    await page.context().close();
  });

  for (const language of ['de', 'fr', 'es'])
    test(`have room for their texts in ${language}`, async () => {
      const page = await site.openAs();
      await page.context().addCookies([{ name: 'admin-language', value: language, url: site.service.base }]);
      const found: string[] = [];
      for (const address of ADDRESSES) {
        await page.goto(`/admin/${address}`);
        assert.equal(await page.getAttribute('html', 'lang'), language);
        for (const width of [320, 390, 1280]) {
          await page.setViewportSize({ width, height: 800 });
          const overflow = await overflowOf(page);
          const faults = [
            ...(overflow > 0 ? [`${overflow} px wider than the window`] : []),
            ...(await cutTexts(page)).map((text) => `cuts "${text}"`),
            ...(width === 320 ? await violationsOf(page) : []),
          ];
          found.push(...faults.map((fault) => `${address} at ${width} px: ${fault}`));
        }
      }
      assert.deepEqual(found, []);
    });

  test('count in the forms of the language what is selected', async () => {
    const page = await site.openAs();
    await page.context().addCookies([{ name: 'admin-language', value: 'fr', url: site.service.base }]);
    await page.goto('/admin/trip/');
    const boxes = page.locator('tbody .check input');
    for (const [at, label] of ['Avec 1 sélectionné\u00a0:', 'Avec 2 sélectionnés\u00a0:'].entries()) {
      await boxes.nth(at).check();
      assert.equal(await page.locator('label[for=bulk-action]').textContent(), label);
    }
  });

  for (const width of [390, 1280])
    test(`take numbers of their language in a browser of another one, ${width} px wide`, async () => {
      const page = await site.openAs('admin', { locale: 'en-US', viewport: { width, height: 800 } });
      await page.context().addCookies([{ name: 'admin-language', value: 'de', url: site.service.base }]);
      const { sql } = site.service;
      await page.goto('/admin/item/-/add/');
      await page.getByLabel('Name').fill('Zelt');
      await page.locator('[name=parcel_id]').selectOption({ index: 1 });
      await page.getByLabel('Weight').fill('1.234');
      await press(page, 'Control+s');
      await expectVisible(page.getByText('Kann 1234 oder 1,234 bedeuten'));
      await page.getByLabel('Weight').fill('12,50');
      await press(page, 'Control+s');
      assert.deepEqual([...(await sql`select weight from item where name = 'Zelt'`)], [{ weight: '12.50' }]);
      assert.equal(await page.getByLabel('Weight').inputValue(), '12,50');
      await sql`delete from item where name = 'Zelt'`;
      await page.context().close();
    });

  test('ask for the record if a number is one key and another name, and take the one that is picked', async () => {
    const { sql } = site.service;
    const [town] = await sql`select id, name from town order by id limit 1`;
    const [other] = await sql`select id from town order by id offset 1 limit 1`;
    const key = String(other?.['id']);
    await sql`update town set name = ${key} where id = ${Number(town?.['id'])}`;
    const page = await site.openAs();
    await page.goto('/admin/trip/5/');
    const field = page.getByRole('combobox', { name: 'Town' });
    await field.fill(key);
    await field.press('Tab');
    await press(page, 'Control+s');
    await expectVisible(page.getByText(`May mean #${key} (`));
    for (const option of [0, 1]) {
      await page.getByRole('combobox', { name: 'Town' }).fill(key);
      const choice = page.getByRole('option').nth(option);
      const picked = (await choice.locator('.key').textContent()) ?? '';
      await choice.click();
      await press(page, 'Control+s');
      const [trip] = await sql`select town_id from trip where id = 5`;
      assert.equal(String(trip?.['town_id']), picked);
    }
    await page.context().close();
  });
});
