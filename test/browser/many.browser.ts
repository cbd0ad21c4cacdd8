// Deleting, many records at once, export and import, and the history of it all.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { button, follow, heading, link, MODES, names, openStage, sees, told, type Stage } from './stage.ts';

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    let stage: Stage;
    let page: Page;
    before(async () => {
      stage = await openStage({ javaScriptEnabled });
      page = await stage.enter();
    });
    after(() => stage.close());

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
    const act = async (action: string): Promise<void> => {
      await page.getByLabel(/^With (\d+ selected|selected|all)/).selectOption(action);
      await follow(button(page, 'Continue'));
    };
    const download = async (target: Locator): Promise<{ name: string; text: string }> => {
      const coming = page.waitForEvent('download');
      await target.click();
      const file = await coming;
      return { name: file.suggestedFilename(), text: await readFile(await file.path(), 'utf8') };
    };

    describe('deleting', () => {
      test('is refused where others need the record, and says which', async () => {
        await openList('Towns');
        await follow(link(page, 'Town 001'));
        await follow(link(page, 'Delete'));
        await sees(page.getByRole('heading', { name: 'Cannot delete: other records depend on it' }));
        await sees(page.getByText('It cannot be deleted while other records need it.'));
        assert.equal(await button(page, 'Delete').count(), 0);
        await follow(link(page, '1 record of Trips'));
        assert.deepEqual(await names(page), ['Trip 01']);
      });

      test('says what goes with the record, and takes it away', async () => {
        await openList('Trips');
        await follow(link(page, 'Trip 01'));
        await follow(link(page, 'Delete'));
        await sees(page.getByRole('heading', { name: 'Deleted with it' }));
        await sees(page.getByText('3 records of Tickets'));
        await follow(link(page, 'Cancel'));
        assert.equal(await heading(page), 'Trip 01');
        await follow(link(page, 'Delete'));
        await follow(button(page, 'Delete'));
        await told(page, '“Trip 01” was deleted.');
        assert.equal((await names(page)).includes('Trip 01'), false);
        await openList('Tickets');
        await sees(page.getByText('There are no records yet.'));
      });

      test('says what stays and loses its reference', async () => {
        const guide = await stage.service.addUser('porter');
        await stage.service.sql`update trip set guide_id = ${guide} where name = 'Trip 02'`;
        await openList('Users');
        await follow(link(page, 'porter'));
        await follow(link(page, 'Delete'));
        await sees(page.getByRole('heading', { name: 'Kept, but no longer linked to it' }));
        await sees(page.getByText('1 record of Trips'));
        await follow(button(page, 'Delete'));
        await told(page, '“porter” was deleted.');
      });
    });

    describe('many records at once', () => {
      test('one column is set in chosen records, with faults first', async () => {
        await openList('Trips');
        await choose('Trip 03');
        await choose('Trip 04');
        await act('Set a column …');
        await page.getByLabel('Column').selectOption('Rating');
        await follow(button(page, 'Continue'));
        assert.equal(await heading(page), 'Set Rating of 2 records');
        await page.getByLabel('Rating').fill('1');
        await follow(button(page, 'Continue'));
        await sees(page.getByText('Rating becomes “1” in 2 records.'));
        await follow(button(page, 'Update 2 records'));
        await told(page, 'Rating was set in 2 records.');
        const row = page.getByRole('row').filter({ hasText: 'Trip 03' });
        assert.equal(await row.getByRole('cell').last().innerText(), '1');
      });

      test('a foreign key is set in all that a search matches', async () => {
        await openList('Trips');
        await search('town 02');
        await chooseAll();
        await act('Set a column …');
        await page.getByLabel('Column').selectOption('Guide');
        await follow(button(page, 'Continue'));
        await page.getByLabel('Guide').selectOption('ada');
        await follow(button(page, 'Continue'));
        await sees(page.getByText('Guide becomes “ada” in 11 records.'));
        await follow(button(page, 'Update 11 records'));
        await told(page, 'Guide was set in 11 records.');
        assert.equal(await link(page, 'ada').count(), 11);
      });

      test('all that the filters match are deleted, with the count before', async () => {
        await openList('Towns');
        await page.getByText('Add a filter').click();
        const panel = page.getByRole('group').filter({ hasText: 'Add a filter' });
        await follow(panel.getByRole('link', { name: 'Name', exact: true }));
        await page.getByRole('combobox', { name: 'Name' }).selectOption('begins with');
        await page.getByLabel('Value', { exact: true }).fill('Town 11');
        await follow(button(page, 'Filter'));
        await sees(page.getByText('1–10 of 10 records'));
        await chooseAll();
        await act('Delete …');
        assert.equal(await heading(page), 'Delete 10 records?');
        await follow(button(page, 'Delete 10 records'));
        await told(page, '10 records deleted.');
        await sees(page.getByText('No matching records.'));
      });

      test('without a choice nothing happens', async () => {
        await openList('Notes');
        await act('Delete …');
        await told(page, 'No records selected.');
      });

      test('chosen records are exported', async () => {
        await openList('Trips');
        await choose('Trip 10');
        await choose('Trip 11');
        await page.getByLabel(/^With (\d+ selected|selected|all)/).selectOption('Export as JSON');
        const { name, text } = await download(button(page, 'Continue'));
        assert.equal(name, 'trip.json');
        const records = JSON.parse(text) as { name: string }[];
        assert.deepEqual(records.map((record) => record.name).sort(), ['Trip 10', 'Trip 11']);
      });
    });

    describe('files', () => {
      test('a list is exported as it is filtered and sorted', async () => {
        await openList('Trips');
        await search('town 04');
        await follow(link(page, 'Name'));
        await follow(link(page, 'Name'));
        const { name, text } = await download(link(page, 'CSV'));
        assert.equal(name, 'trip.csv');
        const [first = '', ...rows] = text.trim().split('\r\n');
        assert.equal(first, 'id,name,town_id,guide_id,day,rating');
        assert.deepEqual(
          rows.map((row) => row.split(',')[1]),
          [45, 44, 43, 42, 41, 40, 4].map((number) => `"Trip ${String(number).padStart(2, '0')}"`),
        );
      });

      test('a file is imported: with a faulty row nothing, and then, once it was looked at, all of it', async () => {
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
          await follow(button(page, 'Preview'));
        };
        await follow(link(page, 'Import'));
        await upload(changed, ',Trip 46,46,,2026-03-01,9');
        await sees(page.getByRole('alert').filter({ hasText: 'Nothing was imported: 1 row has errors.' }));
        const faulty = page.getByRole('row').filter({ hasText: 'Rating' });
        assert.match(await faulty.innerText(), /^3\s/);
        await upload(changed, ',Trip 46,46,,2026-03-01,4');
        await sees(page.getByText('2 rows: 1 new, 1 changed, 0 unchanged, 0 with errors.'));
        await sees(page.getByRole('deletion').filter({ hasText: 'Trip 45' }));
        await follow(button(page, /^Import: /));
        await told(page, '1 record added, 1 changed.');
        await search('trip 4');
        const shown = await names(page);
        assert.ok(shown.includes('Trip 45 again') && shown.includes('Trip 46'), shown.join());
      });
    });

    test('the history shows what was done, by whom and where, for a record and for all', async () => {
      await openList('Notes');
      await follow(link(page, 'Look, but do not touch.'));
      await page.getByLabel('Message').fill('Touch.');
      await follow(button(page, 'Save and continue editing'));
      await follow(link(page, 'History'));
      const change = page.getByRole('heading', { name: /^Changed by admin in the admin area/ });
      await sees(change);
      const row = page.getByRole('row').filter({ hasText: 'Message' });
      assert.equal(await row.getByRole('deletion').innerText(), 'Look, but do not touch.');
      assert.equal(await row.getByRole('insertion').innerText(), 'Touch.');

      await page.goto('/admin/');
      await sees(page.getByRole('region', { name: 'Latest changes' }).getByText('changed Touch. in Notes'));
      await follow(page.getByRole('main').getByRole('link', { name: 'History' }));
      await search('Touch.');
      await follow(page.locator('tbody th[scope=row] a').first());
      assert.equal(await heading(page), 'Changed: Notes Touch.');
      await follow(link(page, 'its full history'));
      assert.equal(await heading(page), 'History of Touch.');
    });
  });
}
