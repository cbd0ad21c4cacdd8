// The pages in the other languages: their longer words neither widen a page nor are cut, and axe-core finds nothing.
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';
import { makeHistory } from './admin-pages.ts';
import { overflowOf, violationsOf } from './axe.ts';
import { openSite, type Site } from './support.ts';

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
});
