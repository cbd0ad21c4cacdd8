// Use without a mouse, and the keyboard shortcuts of the script.
import assert from 'node:assert/strict';
import type { Locator, Page } from 'playwright-core';
import type { Resource } from '../../src/index.ts';
import {
  follow,
  heading,
  link,
  MODES,
  openSite,
  press,
  expectVisible,
  expectMessage,
  type Site,
} from './support.ts';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';

const focused = (page: Page): Locator => page.locator(':focus');
const isFocused = async (target: Locator): Promise<boolean> =>
  (await target.and(focused(target.page())).count()) > 0;

/** The parts of a DOM element that these tests use. */
interface DomElement {
  readonly outerHTML: string;
  readonly contains: (other: DomElement) => boolean;
  readonly getBoundingClientRect: () => Record<'left' | 'right' | 'top' | 'bottom', number>;
}
declare const document: { readonly elementFromPoint: (x: number, y: number) => DomElement | null };
declare const getComputedStyle: (element: DomElement) => Record<'outlineStyle' | 'outlineWidth', string>;
declare const innerWidth: number;
declare const innerHeight: number;

/** Why the focus is not visible: no outline, out of sight, or covered. Runs in the browser. @returns undefined if it is */
function hidesFocus(element: DomElement): string | undefined {
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const name = element.outerHTML.slice(0, 120);
  if (outlineStyle === 'none' || parseFloat(outlineWidth) < 1) return `no outline: ${name}`;
  const x = (Math.max(0, left) + Math.min(innerWidth, right)) / 2;
  const y = (Math.max(0, top) + Math.min(innerHeight, bottom)) / 2;
  const over = document.elementFromPoint(x, y);
  if (!over) return `out of sight: ${name}`;
  return over === element || element.contains(over) || over.contains(element)
    ? undefined
    : `covered: ${name}`;
}

/** Checks that the focused element is visible. The controls of the browser itself may have the focus instead. */
async function assertFocusVisible(page: Page): Promise<void> {
  for (const element of await focused(page).all())
    assert.equal(await element.evaluate(hidesFocus as never), undefined);
}

/** Presses Tab until `target` has the focus. Each focus on the way must be visible. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  await expectVisible(target);
  for (let steps = 0; steps < 80; steps += 1) {
    await page.keyboard.press('Tab');
    await assertFocusVisible(page);
    if (await isFocused(target)) return;
  }
  assert.fail('Tab does not reach the element');
}

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    const site = useStarted(() => openSite({ javaScriptEnabled }));

    test('a record can be opened, changed and saved with the keyboard alone', async () => {
      const page = await site.open();
      await page.goto('/admin/');
      assert.equal(await focused(page).getAttribute('name'), 'username');
      await page.keyboard.type('admin');
      await page.keyboard.press('Tab');
      await page.keyboard.type('pw-admin');
      await press(page, 'Enter');

      await tabTo(page, page.getByRole('rowheader').getByRole('link', { name: 'Trips' }));
      await press(page, 'Enter');
      await tabTo(page, page.getByRole('link', { name: 'Trip 03', exact: true }));
      await press(page, 'Enter');
      await tabTo(page, page.getByLabel('Name'));
      await page.keyboard.press('Control+A');
      await page.keyboard.type('Trip 03 on foot');
      await tabTo(page, page.getByLabel('Guide'));
      await page.keyboard.type('grace');
      await tabTo(page, page.getByRole('button', { name: 'Save', exact: true }));
      await press(page, 'Enter');
      await expectMessage(page, 'Trips: “Trip 03 on foot” was changed.');
      await expectVisible(page.getByRole('row').filter({ hasText: 'Trip 03 on foot' }).getByText('grace'));
    });

    test('the first link of a page skips to its content', async () => {
      const page = await site.openAs();
      await page.goto('/admin/trip/');
      await page.keyboard.press('Tab');
      const skip = page.getByRole('link', { name: 'Skip to content' });
      assert.equal(await isFocused(skip), true);
      await assertFocusVisible(page);
      await page.keyboard.press('Enter');
      await page.keyboard.press('Tab');
      assert.equal(await page.getByRole('main').locator(':focus').count(), 1);
    });

    test('every focus that Tab reaches is visible, in both color schemes', async () => {
      const page = await site.openAs();
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        for (const path of ['/admin/trip/?id__lte=5', '/admin/thing/-/add/', '/admin/trip/2/']) {
          await page.goto(path);
          const last = page.locator('a[href]:visible, button:visible:not([tabindex="-1"])').last();
          await tabTo(page, last);
        }
      }
    });

    test('the errors of a form are announced and link to their fields', async () => {
      const page = await site.openAs();
      await page.goto('/admin/thing/-/add/');
      await page.getByLabel('Name').focus();
      await page.keyboard.type('Anvil');
      await press(page, 'Enter');
      const summary = page.getByRole('alert');
      await tabTo(page, summary.getByRole('link', { name: 'Name' }));
      await page.keyboard.press('Enter');
      const field = page.getByLabel('Name');
      assert.equal(await isFocused(field), true);
      const described = (await field.getAttribute('aria-describedby'))?.split(' ') ?? [];
      const texts = await Promise.all(described.map((id) => page.locator(`[id="${id}"]`).innerText()));
      assert.match(texts.join(' '), /What it is called\..*Another record has this value/s);
    });
  });
}

/** A model with a foreign key to texts. */
const stay = {
  model: 'stay',
  columns: { land: { type: 'foreignKey', references: 'land' } },
} satisfies Resource;

/** A model whose records give the focus to a field that the script replaces. */
const halt = {
  model: 'halt',
  columns: { name: { type: 'string' }, town: { type: 'foreignKey', references: 'town' } },
  admin: { focus: 'town' },
} satisfies Resource;

describe('the script', () => {
  let page: Page;
  const site: Site = useStarted(
    () => openSite({}, [stay, halt]),
    async () => {
      page = await site.openAs();
    },
  );

  test('has single keys for the search, the rows and a record', async () => {
    await page.goto('/admin/trip/');
    await page.keyboard.press('/');
    assert.equal(await isFocused(page.getByRole('searchbox')), true);
    await page.keyboard.type('j');
    assert.equal(await page.getByRole('searchbox').inputValue(), 'j');
    await page.goto('/admin/trip/?ordering=name');
    for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
    assert.equal(await focused(page).innerText(), 'Trip 02');
    await page.keyboard.press('x');
    assert.equal(await page.getByLabel('Select Trip 02').isChecked(), true);
    await press(page, 'e');
    assert.equal(await heading(page), 'Trip 02');
  });

  test('has keys that save and go through a list, also while typing', async () => {
    await site.service
      .sql`insert into halt (name, town_id) select 'Halt ' || n, n from generate_series(1, 3) n`;
    await page.goto('/admin/halt/?ordering=id');
    await page.keyboard.press('j');
    await press(page, 'e');
    const town = page.getByRole('combobox', { name: 'Town' });
    assert.equal(await isFocused(town), true);
    await page.keyboard.press('Control+A');
    await page.keyboard.type('town 050');
    await press(page, 'Control+Enter');
    await expectMessage(page, 'was changed.');
    assert.equal(await heading(page), 'Halt 2');
    assert.equal(await isFocused(town), true);
    await page.getByLabel('Name').fill('Halt 2, for long');
    await press(page, 'Control+s');
    await expectMessage(page, 'was changed.');
    assert.equal(await heading(page), 'Halt 2, for long');
    await page.getByRole('heading', { level: 1 }).click();
    await press(page, 'j');
    assert.equal(await heading(page), 'Halt 3');
    await page.getByRole('heading', { level: 1 }).click();
    await press(page, 'k');
    assert.equal(await heading(page), 'Halt 2, for long');
    await page.goto('/admin/halt/1/');
    assert.equal(await town.inputValue(), 'Town 050');
    await page.getByLabel('Name').fill('The first');
    // Without a list there is no next record.
    await press(page, 'Control+Enter');
    assert.equal(await heading(page), 'Halt');
  });

  test('goes to any record by its name', async () => {
    await page.goto('/admin/thing/-/add/');
    await page.getByLabel('Name').focus();
    await page.keyboard.press('Control+k');
    assert.equal(await isFocused(page.getByLabel('Go to')), true);
    await page.keyboard.type('town 11');
    const results = page.getByRole('search', { name: 'Go to' }).getByRole('link');
    await expectVisible(results.filter({ hasText: 'Town 110' }));
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await assertFocusVisible(page);
    assert.equal(await focused(page).innerText(), 'Town 111');
    await page.keyboard.press('Escape');
    assert.equal(await isFocused(page.getByLabel('Go to')), true);
    assert.equal(await results.first().isVisible(), false);
    await page.keyboard.press('Control+A');
    await page.keyboard.type('town 112');
    await press(page, 'Enter');
    assert.equal(await heading(page), 'Town 112');
  });

  test('lists its keys, which can be disabled', async () => {
    await page.goto('/admin/trip/');
    await press(page, '?');
    await expectVisible(page.getByRole('row', { name: '/ Go to the search' }));
    await page.getByLabel('Use keyboard shortcuts in this browser').uncheck();
    await page.goto('/admin/trip/');
    await page.keyboard.press('/');
    assert.equal(await isFocused(page.getByRole('searchbox')), false);
    await page.goto('/admin/-/keys/');
    await page.getByLabel('Use keyboard shortcuts in this browser').check();
  });

  test('searches related records, and arrow keys, Enter and Escape choose one', async () => {
    await page.goto('/admin/trip/-/add/');
    const town = page.getByRole('combobox', { name: 'Town' });
    const options = page.getByRole('option').filter({ hasText: 'Town' });
    await town.focus();
    await page.keyboard.type('town 10');
    await expectVisible(options.filter({ hasText: 'Town 109' }));
    assert.equal(await town.getAttribute('aria-expanded'), 'true');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    const active = await town.getAttribute('aria-activedescendant');
    assert.equal(await page.locator(`[id="${active}"]`).getAttribute('aria-selected'), 'true');
    const chosen = (await page.locator(`[id="${active}"]`).innerText()).slice(0, 8);
    await page.keyboard.press('Enter');
    assert.equal(await town.inputValue(), chosen);
    assert.equal(await town.getAttribute('aria-expanded'), 'false');
    await town.fill('town 05');
    await expectVisible(options.filter({ hasText: 'Town 050' }));
    await page.keyboard.press('Escape');
    assert.equal(await town.inputValue(), chosen);
    await page.getByLabel('Name').fill('By keys');
    await page.keyboard.press('Enter');
    await expectMessage(page, 'was added.');
    await page.goto('/admin/trip/?name=By%20keys');
    await expectVisible(
      page.getByRole('row').filter({ hasText: 'By keys' }).getByRole('link', { name: chosen }),
    );
  });

  test('chooses the only matching record on Tab, and says when more records match than it shows', async () => {
    await page.goto('/admin/trip/-/add/');
    const town = page.getByRole('combobox', { name: 'Town' });
    const status = page.locator('.reference', { has: town }).getByRole('status');
    await town.focus();
    await page.keyboard.type('town');
    await expectVisible(
      page.getByRole('option', { name: 'More records match. Type more words.', disabled: true }),
    );
    assert.equal(await status.innerText(), 'The first 20. More records match. Type more words.');
    await page.keyboard.press('Tab');
    assert.equal(await isFocused(page.getByRole('combobox', { name: 'Guide' })), true);
    await town.fill('town 07');
    await page.keyboard.press('Tab');
    assert.equal(await town.inputValue(), 'town 07');
    await town.fill('town 077');
    await page.keyboard.press('Tab');
    await expectVisible(status.filter({ hasText: 'Town 077 was chosen.' }));
    assert.equal(await town.inputValue(), 'Town 077');
    assert.equal(await town.getAttribute('aria-expanded'), 'false');
    const cookies = await page.context().cookies();
    await page.context().clearCookies();
    await town.fill('town 08');
    await expectVisible(status.filter({ hasText: 'Your session has expired.' }));
    await page.context().addCookies(cookies);
    // Clears the field, so that the page can be left without a dialog.
    await town.fill('');
    await page.keyboard.press('Tab');
  });

  test('takes a typed text for the same record on Tab as on Save', async () => {
    const { sql } = site.service;
    await sql`insert into town (name) values ('12'), ('Town of 98765')`;
    await page.goto('/admin/trip/-/add/');
    const town = page.getByRole('combobox', { name: 'Town' });
    const field = page.locator('.reference', { has: town });
    const status = field.getByRole('status');
    const sent = field.locator('input[name=town_id]');
    await town.fill('12');
    await expectVisible(page.getByRole('option', { name: 'Town 012' }));
    await page.keyboard.press('Tab');
    // It is the key of one record and the name of another, so that the form asks.
    assert.deepEqual([await town.inputValue(), await sent.inputValue()], ['12', '12']);
    assert.doesNotMatch(await status.innerText(), /was chosen/);
    // It may be the key of a deleted record.
    await town.fill('98765');
    await expectVisible(page.getByRole('option', { name: 'Town of 98765' }));
    await page.keyboard.press('Tab');
    assert.deepEqual([await town.inputValue(), await sent.inputValue()], ['98765', '98765']);
    // The label of the chosen record keeps its choice, even if the label is the key of another record and was typed again.
    await town.fill('12');
    await page.getByRole('option', { name: '12 ', exact: false }).filter({ hasNotText: 'Town' }).click();
    const chosen = await sent.inputValue();
    assert.notEqual(chosen, '12');
    await town.focus();
    await page.keyboard.type('3');
    await page.keyboard.press('Backspace');
    await page.getByLabel('Name').evaluate((input: { value: string }) => (input.value = 'By label'));
    await page.keyboard.press('Enter');
    await expectMessage(page, 'was added.');
    const [row] = await sql`select town_id from trip where name = 'By label'`;
    assert.equal(String(row?.['town_id']), chosen);
  });

  test('keeps a chosen record whose label has line breaks', async () => {
    const { sql } = site.service;
    await sql`insert into town (name) values ('Line'), (E'Line\n'), (E'First\n second')`;
    const keyOf = async (name: string): Promise<string> =>
      String((await sql`select id from town where name = ${name}`)[0]?.['id']);
    const [ended, broken] = [await keyOf('Line\n'), await keyOf('First\n second')];
    await page.goto('/admin/trip/-/add/');
    const town = page.getByRole('combobox', { name: 'Town' });
    const field = page.locator('.reference', { has: town });
    const sent = field.locator('input[name=town_id]');
    const status = field.getByRole('status');
    await page.getByLabel('Name').fill('With breaks');
    for (const [words, id, shown] of [
      ['line', ended, 'Line'],
      ['first', broken, 'First second'],
    ] as const) {
      await town.fill(words);
      await page.getByRole('option').filter({ hasText: id }).click();
      await page.keyboard.press('Tab');
      // The list offers all records only if the text counts as the label of the chosen one.
      await town.click();
      await expectVisible(page.getByRole('option', { name: 'More records match.' }));
      await page.keyboard.press('Escape');
      assert.deepEqual([await town.inputValue(), await sent.inputValue()], [shown, id]);
      assert.doesNotMatch(await status.innerText(), /No matching|was chosen/);
    }
    await town.focus();
    await press(page, 'Enter');
    await expectMessage(page, 'was added.');
    const [row] = await sql`select id, town_id from trip where name = 'With breaks'`;
    assert.equal(String(row?.['town_id']), broken);
    await page.goto(`/admin/trip/${row?.['id']}/`);
    assert.equal(await town.inputValue(), 'First second');
    await town.focus();
    await page.keyboard.press('Tab');
    assert.deepEqual([await town.inputValue(), await sent.inputValue()], ['First second', broken]);
  });

  test('links to a chosen record with the key “-”', async () => {
    const { sql } = site.service;
    await sql`insert into land (code, name) select 'code ' || n, 'Land ' || n from generate_series(1, 120) n`;
    await sql`insert into land (code, name) values ('-', 'Nowhere')`;
    await page.goto('/admin/stay/-/add/');
    await page.getByRole('combobox', { name: 'Land' }).fill('nowhere');
    await page.getByRole('option', { name: 'Nowhere' }).click();
    await press(page, 'Enter');
    await expectMessage(page, 'was added.');
    const [row] = await sql`select id from stay where land_id = '-'`;
    await page.goto(`/admin/stay/${row?.['id']}/`);
    await follow(page.getByRole('link', { name: 'Open Nowhere' }));
    assert.equal(await heading(page), 'Nowhere');
  });

  // Safari clears such an input without an event, then shows the page.
  test('shows the chosen record on a page from the cache of a browser that has cleared the input', async () => {
    await page.goto('/admin/trip/11/');
    const town = page.getByRole('combobox', { name: 'Town' });
    const sent = page.locator('.reference', { has: town }).locator('input[name=town_id]');
    await town.evaluate((input: { value: string }) => (input.value = ''));
    await page.evaluate("window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))");
    await town.focus();
    await page.keyboard.press('Tab');
    assert.deepEqual([await town.inputValue(), await sent.inputValue()], ['Town 011', '11']);
  });

  test('keeps a stored key without a record on Enter, Escape and Tab', async () => {
    const { sql } = site.service;
    await sql`alter table trip drop constraint trip_town_id_fkey`;
    await sql`insert into town (name) values ('Town of 4711')`;
    await sql`update trip set town_id = 4711 where id = 44`;
    await page.goto('/admin/trip/44/');
    const town = page.getByRole('combobox', { name: 'Town' });
    const field = page.locator('.reference', { has: town });
    const sent = field.locator('input[name=town_id]');
    assert.equal(await field.getByRole('link').isVisible(), false);
    await town.focus();
    await page.keyboard.type('0');
    await page.keyboard.press('Escape');
    assert.deepEqual([await town.inputValue(), await sent.inputValue()], ['4711', '4711']);
    await page.keyboard.press('Tab');
    await page.getByLabel('Rating').fill('2');
    await town.focus();
    await press(page, 'Enter');
    await expectMessage(page, 'was changed.');
    const [row] = await sql`select town_id, rating from trip where id = 44`;
    assert.deepEqual({ ...row }, { town_id: 4711, rating: 2 });
  });

  test('does not ask before only the password of the login is lost, which browsers fill in', async () => {
    const other = await page.context().newPage();
    const dialogs: string[] = [];
    other.on('dialog', (dialog) => {
      dialogs.push(dialog.type());
      void dialog.accept();
    });
    await other.goto('/admin/user/2/');
    await other.getByLabel('Your current password').fill('pw-admin');
    await link(other, 'History').click();
    await other.waitForURL('**/history/');
    assert.deepEqual(dialogs, []);
    await other.close();
  });

  test('asks before typed values are lost, but not after a save', async () => {
    const dialogs: string[] = [];
    page.on('dialog', (dialog) => {
      dialogs.push(dialog.type());
      void dialog.dismiss();
    });
    await page.goto('/admin/note/1/');
    await link(page, 'History').click();
    await page.waitForURL('**/history/');
    await page.goto('/admin/note/1/');
    await page.getByLabel('Message').fill('Half a sentence');
    const shown = page.waitForEvent('dialog');
    await link(page, 'History').click({ noWaitAfter: true });
    await shown;
    assert.deepEqual(dialogs, ['beforeunload']);
    assert.equal(await page.getByLabel('Message').inputValue(), 'Half a sentence');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await expectMessage(page, 'was changed.');
    assert.deepEqual(dialogs, ['beforeunload']);
  });
});
