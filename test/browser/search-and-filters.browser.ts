// Lists: search, filters, sorting, columns, pages.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import {
  button,
  follow,
  heading,
  link,
  MODES,
  names,
  openSite,
  expectVisible,
  type Site,
} from './support.ts';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    let page: Page;
    const site: Site = useStarted(
      () => openSite({ javaScriptEnabled }),
      async () => {
        page = await site.openAs();
      },
    );

    const openList = async (title: string): Promise<void> => {
      await page.goto('/admin/');
      await follow(page.getByRole('rowheader').getByRole('link', { name: title, exact: true }));
      assert.equal(await heading(page), title);
    };
    test('filters are applied together with the panel and removed one by one', async () => {
      await openList('Trips');
      await page.getByText('More filters').click();
      const rating = page.getByRole('group', { name: 'Rating' });
      await rating.getByLabel('from').fill('5');
      await page.getByLabel('Name contains').fill('4');
      await page.getByRole('group', { name: 'Day' }).getByLabel('to', { exact: true }).fill('2025-12-04');
      await follow(button(page, 'Apply'));
      assert.deepEqual(await names(page), ['Trip 04', 'Trip 14']);
      const chips = page.getByRole('list', { name: 'Active filters' });
      await expectVisible(chips.getByText('Rating is at least “5”'));
      await expectVisible(chips.getByText('Name contains “4”'));
      assert.equal(await rating.getByLabel('from').inputValue(), '5');
      await follow(page.getByRole('link', { name: 'Remove the filter: Day is at or before' }));
      assert.equal((await names(page)).length, 5);
      await page.getByLabel('Name contains', { exact: true }).fill('');
      await page.getByLabel('Name contains', { exact: true }).press('Enter');
      await expectVisible(page.getByText('1–9 of 9 records'));
      await follow(link(page, 'Clear'));
      await expectVisible(page.getByText('1–20 of 45 records'));
      assert.equal(await chips.count(), 0);
    });

    test('the panel opens above the list in a narrow window', async () => {
      const phone = await page.context().newPage();
      await phone.setViewportSize({ width: 390, height: 844 });
      await phone.goto('/admin/trip/');
      const apply = button(phone, 'Apply');
      assert.equal(await apply.isVisible(), false);
      await link(phone, 'Filters').click();
      await expectVisible(apply);
      assert.equal(await phone.evaluate('document.activeElement.id'), 'filter-0');
      await link(phone, 'Close').click();
      assert.equal(await apply.isVisible(), false);
      await link(phone, 'Filters').click();
      await phone.getByText('More filters').click();
      await phone.getByRole('group', { name: 'Rating' }).getByLabel('from').fill('5');
      await follow(apply);
      await expectVisible(phone.getByText('1–9 of 9 records'));
      await expectVisible(link(phone, 'Filters (1)'));
      await phone.close();
    });

    test('columns are chosen in the panel', async () => {
      await openList('Trips');
      await page.getByText('Columns', { exact: true }).click();
      await page.getByRole('group', { name: 'Columns of the list' }).getByLabel('Rating').uncheck();
      await follow(button(page, 'Apply'));
      assert.equal(await page.getByRole('columnheader', { name: 'Rating' }).count(), 0);
      await expectVisible(page.getByRole('columnheader', { name: 'Day' }));
    });

    test('a printed list has all columns on the paper', async () => {
      const paper = await page.context().newPage();
      // The width of A4 with margins of 1 cm.
      await paper.setViewportSize({ width: 718, height: 1000 });
      await paper.goto('/admin/thing/');
      const overflow = (): Promise<number> =>
        paper.evaluate<number>(
          '((table) => table.getBoundingClientRect().right - table.parentElement.getBoundingClientRect().right)(document.querySelector(".scroll > table"))',
        );
      assert.ok((await overflow()) > 100, 'the list is not wider than the screen');
      await paper.emulateMedia({ media: 'print' });
      assert.ok((await overflow()) < 1, `the list is ${await overflow()} px wider than the paper`);
      assert.equal(
        await paper.evaluate('getComputedStyle(document.querySelector(".scroll")).overflowX'),
        'visible',
      );
      await paper.close();
    });

    test('the next page of a list needs one request', async () => {
      await openList('Trips');
      const from = site.service.lines.length;
      await follow(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Next' }));
      await page.waitForLoadState('load');
      await page.goto('/admin/-/keys/');
      const paths = (): unknown[] => site.service.lines.slice(from).map(({ path }) => path);
      while (!paths().includes('/admin/-/keys/')) await sleep(10); // lines are written in batches
      // The log line of the previous page may be written late.
      const requested = paths().filter((path) => path !== '/admin/trip/');
      assert.deepEqual(requested, ['/admin/trip/?page', '/admin/-/keys/']);
    });
  });
}
