// Adding, changing and deleting records, conflicts, and the history.
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { eventually } from '../http/expect.ts';
import {
  button,
  follow,
  heading,
  link,
  MODES,
  openSite,
  expectVisible,
  expectMessage,
  type Site,
} from './support.ts';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';

/** Saves a form with a button of the menu. */
async function saveAndContinue(page: Page): Promise<void> {
  await page.getByText('Other ways to save').click();
  await follow(button(page, 'Save and continue editing'));
}

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    let page: Page;
    const site: Site = useStarted(
      () => openSite({ javaScriptEnabled }),
      async () => {
        page = await site.openAs();
      },
    );

    const openList = async (title: string, on = page): Promise<void> => {
      await on.goto('/admin/');
      await follow(on.getByRole('rowheader').getByRole('link', { name: title, exact: true }));
    };
    /** Chooses one of many records: in the search field, or on the lookup page without the script. */
    const choose = async (title: string, words: string, name: string): Promise<void> => {
      if (javaScriptEnabled) {
        await page.getByRole('combobox', { name: title }).fill(words);
        await page.getByRole('option', { name }).click();
        assert.equal(await page.getByRole('combobox', { name: title }).inputValue(), name);
      } else {
        await page.getByRole('textbox', { name: title }).fill(words);
        await follow(button(page, `Search ${title}`));
        assert.equal(await page.getByRole('searchbox').inputValue(), words);
        await follow(page.getByRole('button', { name }));
        await expectVisible(link(page, name));
      }
    };

    test('a record is added after errors, which keep the typed values', async () => {
      await openList('Trips');
      await follow(link(page, 'Add'));
      await page.getByLabel('Name').fill('Round trip');
      await choose('Town', 'town 099', 'Town 099');
      await page.getByLabel('Guide').selectOption('grace');
      await page.getByLabel('Day').fill('2026-02-28');
      await page.getByLabel('Rating').fill('3');
      await saveAndContinue(page);
      await expectMessage(page, 'Trips: “Round trip” was added.');
      assert.equal(await heading(page), 'Round trip');
      assert.equal(await page.getByLabel('Rating').inputValue(), '3');

      await openList('Things');
      await follow(link(page, 'Add'));
      await page.getByLabel('Name').fill('Anvil');
      await page.getByLabel('Note').first().fill('Another one.');
      await page.getByLabel('Extra').first().fill('{"weight": ');
      await page.getByLabel('Code').first().fill('not a code');
      await follow(button(page, 'Save'));
      const alert = page.getByRole('alert');
      assert.deepEqual(await alert.getByRole('link').allInnerTexts(), ['Name', 'Code', 'Extra']);
      assert.equal(await page.getByLabel('Note').first().inputValue(), 'Another one.');
      await alert.getByRole('link', { name: 'Extra' }).click();
      assert.equal(await page.locator(':focus').getAttribute('name'), 'extra');
      assert.equal(await page.locator(':focus').getAttribute('aria-invalid'), 'true');
      await page.getByLabel('Extra').first().fill('{"weight": 80}');
      await page.getByLabel('Code').first().fill('');
      await follow(button(page, 'Save'));
      assert.deepEqual(await alert.getByRole('link').allInnerTexts(), ['Name']);
      await page.getByLabel('Name').fill('Hammer');
      await page.getByLabel('Ready').check();
      await follow(button(page, 'Save'));
      await expectMessage(page, 'Things: “Hammer (red)” was added.');
      assert.equal(await heading(page), 'Things');
    });

    test('a preview of Markdown has the focus, and a color can be picked with the script', async () => {
      await page.goto('/admin/sight/2/');
      await page.getByLabel('Body').first().fill('Some **strong** words');
      await follow(button(page, 'Preview Body'));
      const shown = page.getByRole('region', { name: 'Preview of Body' });
      assert.equal(await shown.locator('strong').innerText(), 'strong');
      assert.equal(await page.locator(':focus').getAttribute('aria-label'), 'Preview of Body');
      if (javaScriptEnabled) await page.getByLabel('Choose Color').fill('#102030');
      else await page.getByLabel('Color').fill('#102030');
      await saveAndContinue(page);
      assert.equal(await page.getByLabel('Color', { exact: true }).inputValue(), '#102030');
      assert.equal(await page.getByLabel('Body').first().inputValue(), 'Some **strong** words');
    });

    test('the link beside a select opens the chosen record', async () => {
      await page.goto('/admin/trip/7/');
      const open = page.locator('select[name=guide_id] + a');
      assert.equal(await open.isVisible(), false);
      await page.getByLabel('Guide').selectOption('grace');
      if (!javaScriptEnabled) await saveAndContinue(page);
      assert.equal(await open.getAttribute('aria-label'), 'Open grace');
      assert.match((await open.getAttribute('href')) ?? '', /^\/admin\/user\/\d+\/$/);
      if (!javaScriptEnabled) return;
      await page.getByLabel('Guide').selectOption('');
      assert.equal(await open.isVisible(), false);
    });

    test('a record is saved with rows of a child table, by the keyboard too', async () => {
      await page.goto('/admin/parcel/-/add/');
      await page.locator('[name=name]').fill('Gift');
      await page.getByLabel('Line 1, Name').fill('Book');
      await choose('Line 1, Town', 'town 099', 'Town 099');
      await follow(button(page, 'Show 5 more rows'));
      assert.equal(await page.getByLabel('Line 1, Name').inputValue(), 'Book');
      await page.getByLabel('Line 8, Name').fill('Pen');
      await page.getByLabel('Line 8, Weight').press('Enter');
      await expectMessage(page, 'Parcels: “Gift” was added.');
      await page.goto('/admin/parcel/2/');
      assert.equal(await page.getByLabel('Line 2, Name').inputValue(), 'Pen');
      await page.getByLabel('Delete Line 1').check();
      await saveAndContinue(page);
      await expectMessage(page, 'Parcels: “Gift” was changed.');
      assert.equal(await page.getByLabel('Line 1, Name').inputValue(), 'Pen');
      assert.equal(await page.getByLabel('Line 2, Name').inputValue(), '');
    });

    test('the mouse wheel scrolls the page and does not change a focused number', async () => {
      await page.setViewportSize({ width: 1000, height: 300 });
      await page.goto('/admin/trip/5/');
      const rating = page.getByLabel('Rating');
      const before = await rating.inputValue();
      await rating.click();
      const scrolled = (): Promise<number> => page.evaluate<number>('window.scrollY');
      await page.evaluate('window.scrollTo(0, 100)');
      for (const step of [-60, 60, -60]) {
        await rating.hover();
        const from = await scrolled();
        await page.mouse.wheel(0, step);
        await eventually(async () => (await scrolled()) !== from, 'a page that scrolls');
        assert.equal(await rating.inputValue(), before);
      }
      // It can still be typed and stepped with the keyboard.
      await page.keyboard.press('ArrowDown');
      assert.equal(await rating.inputValue(), String(Number(before) - 1 || 1));
      await page.setViewportSize({ width: 1280, height: 720 });
    });

    if (javaScriptEnabled)
      test('clicking into a chosen record selects its name, and a second click places the cursor', async () => {
        await page.goto('/admin/trip/5/');
        const town = page.getByRole('combobox', { name: 'Town' });
        const chosen = await town.inputValue();
        for (const target of [town, page.locator('label', { hasText: 'Town' })]) {
          await page.getByLabel('Name').click();
          await target.click();
          await page.keyboard.type('town 09');
          assert.equal(await town.inputValue(), 'town 09');
          await expectVisible(page.getByRole('option', { name: 'Town 090' }));
          await page.keyboard.press('Escape');
          assert.equal(await town.inputValue(), chosen);
        }
        await page.getByLabel('Name').click();
        await town.click();
        await town.click({ position: { x: 12, y: 12 } });
        await page.keyboard.type('x');
        assert.equal((await town.inputValue()).length, chosen.length + 1);
        await page.keyboard.press('Escape');

        await page.getByRole('combobox', { name: 'Town' }).fill('');
        await page.getByLabel('Name').click();
        await town.click();
        await page.keyboard.type('Town 012');
        await page.getByRole('option', { name: 'Town 012' }).click();
        assert.equal(await town.inputValue(), 'Town 012');
        await town.click({ position: { x: 12, y: 12 } });
        await page.keyboard.type('Town 013');
        assert.equal(await town.inputValue(), 'Town 013');
        await page.getByRole('option', { name: 'Town 013' }).click();
        await saveAndContinue(page);
        assert.equal(await town.inputValue(), 'Town 013');
      });

    test('unchanged texts are kept with all their characters', async () => {
      const { sql } = site.service;
      const texts = [
        'a\rb',
        '\r',
        '\n',
        '\r\n',
        '\n\na',
        'a\n\rb',
        '\ta\t',
        ' a ',
        'a\u2028b\u2029',
        '\u0085',
        '\ufeffa',
        '\u200e\u0001',
      ];
      for (const [at, text] of texts.entries()) {
        const code = `${mode} ${at}`;
        await sql`insert into land (code, name, capital) values (${code}, 'Before', ${text})`;
        await page.goto(`/admin/land/${encodeURIComponent(code)}/`);
        await page.getByLabel('Name').fill('After');
        await follow(button(page, 'Save'));
        await expectMessage(page, 'was changed');
        const [row] = await sql`select name, capital from land where code = ${code}`;
        assert.deepEqual(row, { name: 'After', capital: text }, JSON.stringify(text));
      }
    });

    test('a text may have as many emoji as its column takes characters', async () => {
      const { sql } = site.service;
      const emoji = '\u{1F600}';
      const stored = async (): Promise<unknown> =>
        (await sql`select name from thing where name like ${`${emoji}%`}`)[0]?.['name'];
      await page.goto('/admin/thing/-/add/');
      await page.getByLabel('Name').focus();
      await page.keyboard.insertText(emoji.repeat(40));
      await saveAndContinue(page);
      await expectMessage(page, 'was added.');
      assert.equal(await stored(), emoji.repeat(40));
      await page.getByLabel('Name').focus();
      await page.keyboard.press('End');
      await page.keyboard.insertText('a'.repeat(11));
      await follow(button(page, 'Save'));
      await expectVisible(page.getByText('Must be at most 50 characters (got 51).'));
      await page.getByLabel('Name').focus();
      await page.keyboard.press('End');
      await page.keyboard.press('Backspace');
      await follow(button(page, 'Save'));
      await expectMessage(page, 'was changed.');
      assert.equal(await stored(), emoji.repeat(40) + 'a'.repeat(10));
      await sql`delete from thing where name like ${`${emoji}%`}`;
    });

    test('the full label of a related record can be typed, but an ambiguous one is an error', async () => {
      await openList('Trips');
      await follow(link(page, 'Add'));
      const town = page.getByRole(javaScriptEnabled ? 'combobox' : 'textbox', { name: 'Town' });
      await page.getByLabel('Name').fill('Typed');
      await town.fill('town 09');
      await follow(button(page, 'Save'));
      await expectVisible(page.getByText('Does not match exactly one record'));
      assert.equal(await town.inputValue(), 'town 09');
      await town.fill('town 098');
      await follow(button(page, 'Save'));
      await expectMessage(page, 'Trips: “Typed” was added.');
      await page.goto('/admin/trip/?name=Typed');
      const row = page.getByRole('row').filter({ hasText: 'Typed' });
      await expectVisible(row.getByRole('link', { name: 'Town 098' }));
    });

    test('a record and its related record are changed, and the save returns to the list', async () => {
      await openList('Trips');
      await follow(link(page, 'Name'));
      const list = page.url();
      await follow(link(page, 'Trip 08'));
      await page.getByLabel('Name').fill('Trip 08 by boat');
      await choose('Town', '077', 'Town 077');
      await page.getByLabel('Guide').selectOption('linus');
      await follow(button(page, 'Save'));
      await expectMessage(page, 'Trips: “Trip 08 by boat” was changed.');
      assert.equal(page.url(), list);
      const row = page.getByRole('row').filter({ hasText: 'Trip 08 by boat' });
      await expectVisible(row.getByRole('link', { name: 'Town 077' }));
      await expectVisible(row.getByRole('link', { name: 'linus' }));
    });

    test('a conflict shows both values of each column, and the user chooses', async () => {
      const other = await site.openAs('admin');
      for (const one of [page, other]) {
        await openList('Trips', one);
        await follow(link(one, 'Trip 05'));
      }
      await other.getByLabel('Name').fill('Trip 05 by train');
      await other.getByLabel('Rating').fill('4');
      await other.getByLabel('Day').fill('2026-05-05');
      await follow(button(other, 'Save'));
      await expectMessage(other, 'was changed.');

      await page.getByLabel('Name').fill('Trip 05 by night');
      await page.getByLabel('Rating').fill('2');
      await follow(button(page, 'Save'));
      await expectVisible(
        page.getByRole('alert').filter({ hasText: 'This record has changed since you opened it' }),
      );
      const row = (name: string) => page.getByRole('row').filter({ hasText: name });
      // Only the other user changed the day, so that value is the default.
      assert.equal(await row('Day').getByRole('radio').nth(1).isChecked(), true);
      await row('Name').getByLabel('Trip 05 by night').check();
      await row('Rating').getByLabel('4').check();
      await follow(button(page, 'Save'));
      await expectMessage(page, 'Trips: “Trip 05 by night” was changed.');
      const saved = page.getByRole('row').filter({ hasText: 'Trip 05 by night' });
      assert.match(await saved.innerText(), /2026-05-05\s+4$/);
    });

    test('going back shows the record as it is now, not earlier values of untouched fields', async () => {
      const { sql } = site.service;
      await page.goto('/admin/trip/9/');
      await page.goto('/admin/');
      await sql`update trip set day = '2026-09-09', guide_id = (select id from "user" where username = 'linus') where id = 9`;
      await page.goBack();
      await page.getByLabel('Name').fill('Trip 09 by boat');
      await follow(button(page, 'Save'));
      await expectMessage(page, 'was changed.');
      const [row] = await sql`
        select trip.name, day::text, username from trip join "user" on "user".id = guide_id where trip.id = 9`;
      assert.deepEqual({ ...row }, { name: 'Trip 09 by boat', day: '2026-09-09', username: 'linus' });
    });
  });
}
