// Lists at every width and on paper.
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import type { Resource } from '../../src/index.ts';
import { overflowOf } from './axe.ts';
import { MODES, openSite, type Site } from './support.ts';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';

const invoice = {
  model: 'invoice',
  columns: {
    name: { type: 'string' },
    state: { type: 'string', choices: ['paid in part', 'overdue'] },
    town: { type: 'foreignKey', references: 'town' },
    net_amount: { type: 'decimal', precision: 12, scale: 2 },
    tax_amount: { type: 'decimal', precision: 12, scale: 2 },
    issued: { type: 'date' },
    sent: { type: 'datetime', null: true },
    hour: { type: 'time', null: true },
    is_closed: { type: 'boolean' },
    remarks: { type: 'text', null: true },
    total_of_all_payments: { type: 'decimal', precision: 12, scale: 2 },
  },
} satisfies Resource;
const LIST = Object.keys(invoice.columns);
const WIDTHS = Array.from({ length: 21 }, (_, index) => 320 + 64 * index).concat(704, 736);

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    let page: Page;
    const site: Site = useStarted(
      () => openSite({ javaScriptEnabled }, [{ ...invoice, admin: { list: LIST } }]),
      async () => {
        await site.service.sql`
        insert into invoice (name, state, town_id, net_amount, tax_amount, issued, sent, hour, is_closed, remarks, total_of_all_payments)
        select 'Invoice of a customer with a long name ' || n, 'paid in part', n, 1233.20 * n, 93.45 * n, date '2025-11-20' + n,
          timestamp '2025-11-20 10:11:12' + n * interval '1 day', '10:11:12', true, repeat('Remarks of several words. ', 3), 123456.78 * n
        from generate_series(1, 3) n`;
        page = await site.openAs();
      },
    );

    test('a list does not widen the page, whatever it is sorted by', async () => {
      const found: string[] = [];
      const orderings = LIST.map((name) => `-${name}`);
      for (const ordering of ['name', ...orderings, orderings.slice(-8).join(',')]) {
        await page.goto(`/admin/invoice/?ordering=${ordering}`);
        for (const width of WIDTHS) {
          await page.setViewportSize({ width, height: 400 });
          const overflow = await overflowOf(page);
          if (overflow > 0) found.push(`${ordering} at ${width} px: ${overflow} px`);
        }
      }
      assert.deepEqual(found, []);
    });

    test('a record is printed as its values, whole, and not as a form', async () => {
      const long = `${'word '.repeat(40)}end`;
      await site.service.sql`update invoice set remarks = 'Two\nlines', name = ${long} where id = 2`;
      await page.goto('/admin/invoice/2/');
      await page.pdf();
      await page.emulateMedia({ media: 'print' });
      await page.setViewportSize({ width: 718, height: 1000 });
      const boxes = await page.evaluate<string[]>(
        `[...document.querySelectorAll('form.record :is(input:not([type=checkbox]), select, textarea, button)')]
          .filter((one) => one.checkVisibility() && getComputedStyle(one).borderTopWidth !== '0px').map((one) => one.outerHTML)`,
      );
      assert.deepEqual(boxes, []);
      if (javaScriptEnabled) {
        const text = await page.locator('form.record').innerText();
        for (const value of [long, 'paid in part', 'Town 002', '2466.40', '2025-11-22', 'Two\nlines'])
          assert.ok(text.includes(value), `${value}: ${text}`);
        assert.doesNotMatch(text, /Open|required|Save/);
      }
      await page.emulateMedia({ media: 'screen' });
    });

    test('numbers, dates and choices do not break on paper', async () => {
      await page.goto('/admin/invoice/');
      await page.setViewportSize({ width: 1600, height: 400 });
      await page.emulateMedia({ media: 'print' });
      // The width of A4 and of A5 without margins.
      for (const width of [718, 480]) {
        await page.setViewportSize({ width, height: 1000 });
        const broken = await page.evaluate<
          string[]
        >(`[...document.querySelectorAll('tbody [data-label]')].filter((cell) => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1;
        }).map((cell) => cell.dataset.label)`);
        const breaking = ['Name', 'Town', 'Remarks'];
        assert.deepEqual(
          broken.filter((title) => !breaking.includes(title)),
          [],
        );
      }
      await page.emulateMedia({ media: 'screen' });
    });
  });
}
