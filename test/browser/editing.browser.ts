// Adding records, changing them, and two people at one record.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
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

    const openList = async (title: string, on = page): Promise<void> => {
      await on.goto('/admin/');
      await follow(on.getByRole('rowheader').getByRole('link', { name: title, exact: true }));
    };
    /** Chooses a record among many: with the script in the field, without it by a step between. */
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
        await sees(link(page, name));
      }
    };

    test('a record is added: with faults, which keep what was typed, and then right', async () => {
      await openList('Trips');
      await follow(link(page, 'Add'));
      await page.getByLabel('Name').fill('Round trip');
      await choose('Town', 'town 099', 'Town 099');
      await page.getByLabel('Guide').selectOption('grace');
      await page.getByLabel('Day').fill('2026-02-28');
      await page.getByLabel('Rating').fill('3');
      await follow(button(page, 'Save and continue editing'));
      await told(page, 'Trips: “Round trip” was added.');
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
      assert.deepEqual(await alert.getByRole('link').allInnerTexts(), ['Code', 'Extra']);
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
      await told(page, 'Things: “Hammer (red)” was added.');
      assert.equal(await heading(page), 'Things');
    });

    test('texts that are not touched stay as they are, whatever characters they have', async () => {
      const { sql } = stage.service;
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
        await told(page, 'was changed');
        const [row] = await sql`select name, capital from land where code = ${code}`;
        assert.deepEqual(row, { name: 'After', capital: text }, JSON.stringify(text));
      }
    });

    test('the name of a related record that is typed in full is enough, and what it can mean is asked for', async () => {
      await openList('Trips');
      await follow(link(page, 'Add'));
      const town = page.getByRole(javaScriptEnabled ? 'combobox' : 'textbox', { name: 'Town' });
      await page.getByLabel('Name').fill('Typed');
      await town.fill('town 09');
      await follow(button(page, 'Save'));
      await sees(page.getByText('Does not match exactly one record'));
      assert.equal(await town.inputValue(), 'town 09');
      await town.fill('town 098');
      await follow(button(page, 'Save'));
      await told(page, 'Trips: “Typed” was added.');
      await page.goto('/admin/trip/?name=Typed');
      const row = page.getByRole('row').filter({ hasText: 'Typed' });
      await sees(row.getByRole('link', { name: 'Town 098' }));
    });

    test('what must be there is asked for, all of it at once', async () => {
      await openList('Trips');
      await follow(link(page, 'Add'));
      await follow(button(page, 'Save'));
      assert.equal(await heading(page), 'Add to Trips');
      const alert = page.getByRole('alert');
      assert.deepEqual(await alert.getByRole('link').allInnerTexts(), ['Name', 'Town']);
    });

    test('a record is changed, its related record too, and the list it came from comes back', async () => {
      await openList('Trips');
      await follow(link(page, 'Name'));
      const list = page.url();
      await follow(link(page, 'Trip 08'));
      await page.getByLabel('Name').fill('Trip 08 by boat');
      await choose('Town', '077', 'Town 077');
      await page.getByLabel('Guide').selectOption('linus');
      await follow(button(page, 'Save'));
      await told(page, 'Trips: “Trip 08 by boat” was changed.');
      assert.equal(page.url(), list);
      const row = page.getByRole('row').filter({ hasText: 'Trip 08 by boat' });
      await sees(row.getByRole('link', { name: 'Town 077' }));
      await sees(row.getByRole('link', { name: 'linus' }));
    });

    test('saving goes on with another one, or makes a new one of the same values', async () => {
      await openList('Notes');
      await follow(link(page, 'Add'));
      await page.getByLabel('Message').fill('First of two.');
      await follow(button(page, 'Save and add another'));
      await told(page, 'was added.');
      await page.getByLabel('Message').fill('Second of two.');
      await follow(button(page, 'Save'));
      await follow(link(page, 'Second of two.'));
      await page.getByLabel('Message').fill('A third.');
      await follow(button(page, 'Save as new'));
      await told(page, 'was added.');
      await openList('Notes');
      const shown = await names(page);
      for (const name of ['First of two.', 'Second of two.', 'A third.'])
        assert.ok(shown.includes(name), name);
    });

    test('two people change one record: the second sees both sets of values, and chooses for each column', async () => {
      const other = await stage.enter('admin');
      for (const one of [page, other]) {
        await openList('Trips', one);
        await follow(link(one, 'Trip 05'));
      }
      await other.getByLabel('Name').fill('Trip 05 by train');
      await other.getByLabel('Rating').fill('4');
      await other.getByLabel('Day').fill('2026-05-05');
      await follow(button(other, 'Save'));
      await told(other, 'was changed.');

      await page.getByLabel('Name').fill('Trip 05 by night');
      await page.getByLabel('Rating').fill('2');
      await follow(button(page, 'Save'));
      await sees(page.getByRole('alert').filter({ hasText: 'This record has changed since you opened it' }));
      const row = (name: string) => page.getByRole('row').filter({ hasText: name });
      // Nobody but the other has touched the day, so theirs is proposed.
      assert.equal(await row('Day').getByRole('radio').nth(1).isChecked(), true);
      await row('Name').getByLabel('Trip 05 by night').check();
      await row('Rating').getByLabel('4').check();
      await follow(button(page, 'Save'));
      await told(page, 'Trips: “Trip 05 by night” was changed.');
      const saved = page.getByRole('row').filter({ hasText: 'Trip 05 by night' });
      assert.match(await saved.innerText(), /2026-05-05\s+4$/);
    });

    test('a record that somebody else has deleted in the meantime can be added anew', async () => {
      const [row] = await stage.service.sql`insert into note (message) values ('short-lived') returning id`;
      await page.goto(`/admin/note/${row?.['id']}/`);
      await stage.service.sql`delete from note where message = 'short-lived'`;
      await page.getByLabel('Message').fill('Back again.');
      await follow(button(page, 'Save'));
      await sees(page.getByRole('alert').filter({ hasText: 'This record has been deleted' }));
      await follow(button(page, 'Save'));
      await told(page, 'Notes: “Back again.” was added.');
    });
  });
}
