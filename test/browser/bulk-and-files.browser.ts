// Bulk actions, exports and imports.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import type { Locator, Page } from 'playwright-core';
import {
  button,
  follow,
  heading,
  link,
  MODES,
  names,
  openSite,
  expectVisible,
  expectMessage,
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
    };
    const search = async (words: string): Promise<void> => {
      await page.getByRole('searchbox', { name: 'Search' }).fill(words);
      await follow(button(page, 'Search'));
    };
    const choose = (name: string): Promise<void> =>
      page.getByLabel(`Select ${name}`, { exact: true }).check();
    const chooseAll = (): Promise<void> =>
      page.getByRole('checkbox', { name: /^all \d+ records in this list$/ }).check();
    const startAction = async (action: string): Promise<void> => {
      await page.getByLabel(/^With (\d+ selected|selected|all)/).selectOption(action);
      await follow(button(page, 'Continue'));
    };
    const download = async (target: Locator): Promise<{ name: string; text: string }> => {
      const coming = page.waitForEvent('download');
      await target.click();
      const file = await coming;
      return { name: file.suggestedFilename(), text: await readFile(await file.path(), 'utf8') };
    };

    describe('bulk actions', () => {
      test('set a column of selected records', async () => {
        await openList('Trips');
        await choose('Trip 03');
        await choose('Trip 04');
        await startAction('Change …');
        assert.equal(await heading(page), 'Change 2 records');
        if (!javaScriptEnabled) await page.getByLabel('Set Rating').check();
        await page.getByLabel('Rating', { exact: true }).fill('1');
        await follow(button(page, 'Continue'));
        await expectVisible(page.getByText('Rating becomes “1” in 2 records.'));
        await follow(button(page, 'Update 2 records'));
        await expectMessage(page, 'Rating was set in 2 records.');
        const row = page.getByRole('row').filter({ hasText: 'Trip 03' });
        assert.equal(await row.getByRole('cell').last().innerText(), '1');
      });

      test('delete all records that match a filter, after a confirmation with their number', async () => {
        await openList('Towns');
        await page.getByText('More filters').click();
        await page.getByLabel('Column', { exact: true }).selectOption('Name');
        await page.getByLabel('Comparison').selectOption('begins with');
        await page.getByLabel('Value', { exact: true }).fill('Town 11');
        await follow(button(page, 'Apply'));
        await expectVisible(page.getByText('1–10 of 10 records'));
        await chooseAll();
        await startAction('Delete …');
        assert.equal(await heading(page), 'Delete 10 records?');
        await follow(button(page, 'Delete 10 records'));
        await expectMessage(page, '10 records deleted.');
        await expectVisible(page.getByText('No matching records.'));
      });

      test('select no other records after going back to a list that has changed', async () => {
        await site.service.sql`insert into note (message) select 'Back ' || n from generate_series(1, 4) n`;
        const selected = (): Promise<number> => page.locator('tbody input:checked').count();
        await page.goto('/admin/note/?message__like=Back%25&ordering=message');
        await choose('Back 2');
        assert.equal(await selected(), 1);
        await page.goto('/admin/');
        await site.service.sql`delete from note where message = 'Back 1'`;
        await page.goBack();
        await page.waitForLoadState('load');
        await expectVisible(page.getByLabel('Select Back 3'));
        assert.equal(await page.getByLabel('Select Back 3').isChecked(), false);
        assert.equal(await selected(), 0);
        await site.service.sql`delete from note where message like 'Back%'`;
      });
    });

    describe('files', () => {
      test('an export after the end of the session shows the login, which leads to the file', async () => {
        const id = await site.service.addUser('late', { admin: true });
        const late = await site.openAs('late');
        await late.goto('/admin/trip/');
        await site.service
          .sql`update vitrine_session set seen = seen - interval '13 hours' where user_key = ${id}::text`;
        await follow(link(late, 'CSV'));
        await expectVisible(late.getByText('Your session has expired. Log in again to continue.'));
        await late.getByLabel('User name').fill('late');
        await late.getByLabel('Password').fill('pw-late');
        const coming = late.waitForEvent('download');
        await button(late, 'Log in').click();
        assert.equal((await coming).suggestedFilename(), 'trip.csv');
        await late.close();
      });

      test('an import with an error changes nothing, and a corrected one is made after the preview', async () => {
        await openList('Trips');
        await search('town 045');
        const { text } = await download(link(page, 'CSV'));
        const [first = '', row = ''] = text.trim().split('\r\n');
        const changed = row.replace('Trip 45', 'Trip 45 again');
        const upload = async (...rows: readonly string[]): Promise<void> => {
          const buffer = Buffer.from([first, ...rows].join('\r\n'));
          await page
            .getByLabel('CSV file')
            .setInputFiles({ name: 'trips.csv', mimeType: 'text/csv', buffer });
          await follow(button(page, /^Preview/));
        };
        await follow(link(page, 'Import'));
        await upload(changed, ',Trip 46,46,,2026-03-01,9');
        await expectVisible(
          page.getByRole('alert').filter({ hasText: 'Nothing was imported: 1 row has errors.' }),
        );
        const errorRow = page.getByRole('row').filter({ hasText: 'Rating: ' });
        assert.match(await errorRow.innerText(), /^3\s/);
        const faulty = await download(button(page, 'Download the faulty rows with reasons'));
        assert.match(faulty.text, /^\uFEFF?Import errors,.*\r\nRating: must be at most 5,/);
        await upload(changed, ',Trip 46,46,,2026-03-01,4');
        await expectVisible(page.getByText('2 rows: 1 new, 1 changed, 0 unchanged, 0 with errors.'));
        await expectVisible(page.getByRole('deletion').filter({ hasText: 'Trip 45' }));
        await follow(button(page, /^Import: /));
        await expectMessage(page, '1 record added, 1 changed.');
        await search('trip 4');
        const shown = await names(page);
        assert.ok(shown.includes('Trip 45 again') && shown.includes('Trip 46'), shown.join());
      });
    });
  });
}
