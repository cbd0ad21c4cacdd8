// Lists: search, filters, sorting, date links, pages.
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
    const addFilter = async (column: string, how: string, value: string): Promise<void> => {
      await page.getByText('Add a filter').click();
      const panel = page.getByRole('group').filter({ hasText: 'Add a filter' });
      await follow(panel.getByRole('link', { name: column, exact: true }));
      await page.getByRole('combobox', { name: column }).selectOption(how);
      await page.getByLabel('Value', { exact: true }).fill(value);
      await follow(button(page, 'Filter'));
    };

    test('filters are added with the panel and removed one by one', async () => {
      await openList('Trips');
      await addFilter('Rating', 'is at least', '5');
      await expectVisible(page.getByText('1–9 of 9 records'));
      await addFilter('Name', 'contains', '4');
      assert.deepEqual(await names(page), ['Trip 04', 'Trip 14', 'Trip 24', 'Trip 34', 'Trip 44']);
      await addFilter('Day', 'is before', '2025-12-05');
      assert.deepEqual(await names(page), ['Trip 04', 'Trip 14']);
      const chips = page.getByRole('list', { name: 'Active filters' });
      await expectVisible(chips.getByText('Rating is at least “5”'));
      await expectVisible(chips.getByText('Name contains “4”'));
      await follow(page.getByRole('link', { name: 'Remove the filter: Day is before' }));
      assert.equal((await names(page)).length, 5);
      await follow(page.getByRole('link', { name: 'Remove the filter: Name contains' }));
      await expectVisible(page.getByText('1–9 of 9 records'));
      await follow(page.getByRole('link', { name: 'Remove the filter: Rating is at least' }));
      await expectVisible(page.getByText('1–20 of 45 records'));
      assert.equal(await chips.count(), 0);
    });

    test('a comparison without a value hides the value field, or says so without the script', async () => {
      await page.goto('/admin/trip/?_filter=day');
      const how = page.getByRole('combobox', { name: 'Day' });
      const value = page.getByLabel('Value', { exact: true });
      assert.equal(await value.isVisible(), true);
      await how.selectOption('has no value');
      assert.equal(await value.isVisible(), !javaScriptEnabled);
      assert.equal(await page.getByText('not needed for “has no value”').isVisible(), !javaScriptEnabled);
      await follow(button(page, 'Filter'));
      await expectVisible(page.getByText('No matching records.'));
      await follow(link(page, 'Day has no value'));
      assert.equal(await value.isVisible(), !javaScriptEnabled);
      await how.selectOption('is');
      assert.equal(await value.isVisible(), true);
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
