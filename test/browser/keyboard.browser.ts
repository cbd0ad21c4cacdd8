// Working without a mouse; and what the script adds to the keyboard.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { heading, MODES, openStage, press, sees, told, type Stage } from './stage.ts';

const focused = (page: Page): Locator => page.locator(':focus');
const isFocused = async (target: Locator): Promise<boolean> =>
  (await target.and(focused(target.page())).count()) > 0;

/** As much of a browser's elements as is looked at here. */
interface Shown {
  readonly outerHTML: string;
  readonly contains: (other: Shown) => boolean;
  readonly getBoundingClientRect: () => Record<'left' | 'right' | 'top' | 'bottom', number>;
}
declare const document: { readonly elementFromPoint: (x: number, y: number) => Shown | null };
declare const getComputedStyle: (element: Shown) => Record<'outlineStyle' | 'outlineWidth', string>;
declare const innerWidth: number;
declare const innerHeight: number;

/** What keeps people from seeing where the focus is: no mark of it, or something that lies over it. Runs in the browser. */
function hidesFocus(element: Shown): string | undefined {
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

/** The element that has the focus can be seen; none when the focus is at the browser's own controls. */
async function assertSeen(page: Page): Promise<void> {
  for (const element of await focused(page).all())
    assert.equal(await element.evaluate(hidesFocus as never), undefined);
}

/** Goes on with Tab until the focus is there; each place on the way must be seen. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  await sees(target);
  for (let steps = 0; steps < 80; steps += 1) {
    await page.keyboard.press('Tab');
    await assertSeen(page);
    if (await isFocused(target)) return;
  }
  assert.fail('Tab does not lead there');
}

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    let stage: Stage;
    before(async () => {
      stage = await openStage({ javaScriptEnabled });
    });
    after(() => stage.close());

    test('somebody logs in, opens a record, changes it and saves, with keys alone', async () => {
      const page = await stage.open();
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
      await told(page, 'Trips: “Trip 03 on foot” was changed.');
      await sees(page.getByRole('row').filter({ hasText: 'Trip 03 on foot' }).getByText('grace'));
    });

    test('the first thing on a page leads past its head', async () => {
      const page = await stage.enter();
      await page.goto('/admin/trip/');
      await page.keyboard.press('Tab');
      const skip = page.getByRole('link', { name: 'Skip to content' });
      assert.equal(await isFocused(skip), true);
      await assertSeen(page);
      await page.keyboard.press('Enter');
      await page.keyboard.press('Tab');
      assert.equal(await page.getByRole('main').locator(':focus').count(), 1);
    });

    test('each place that Tab leads to can be seen, in both schemes', async () => {
      const page = await stage.enter();
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        for (const path of ['/admin/trip/?id__lte=5&_filter=name', '/admin/thing/-/add/', '/admin/trip/2/']) {
          await page.goto(path);
          const last = page.locator('a[href]:visible, button:visible:not([tabindex="-1"])').last();
          await tabTo(page, last);
        }
      }
    });

    test('what is wrong with a form is announced, and leads to the field', async () => {
      const page = await stage.enter();
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

describe('the script', () => {
  let stage: Stage;
  let page: Page;
  before(async () => {
    stage = await openStage();
    page = await stage.enter();
  });
  after(() => stage.close());

  test('goes to the search, through the rows and into a record by single keys', async () => {
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

  test('tells of its keys, which can be switched off', async () => {
    await page.goto('/admin/trip/');
    await press(page, '?');
    await sees(page.getByRole('row', { name: '/ Go to the search' }));
    await page.getByLabel('Use keyboard shortcuts in this browser').uncheck();
    await page.goto('/admin/trip/');
    await page.keyboard.press('/');
    assert.equal(await isFocused(page.getByRole('searchbox')), false);
    await page.goto('/admin/-/keys/');
    await page.getByLabel('Use keyboard shortcuts in this browser').check();
  });

  test('searches records in a foreign key’s field, which arrows, Enter and Escape choose from', async () => {
    await page.goto('/admin/trip/-/add/');
    const town = page.getByRole('combobox', { name: 'Town' });
    const options = page.getByRole('option').filter({ hasText: 'Town' });
    await town.focus();
    await page.keyboard.type('town 10');
    await sees(options.filter({ hasText: 'Town 109' }));
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
    await sees(options.filter({ hasText: 'Town 050' }));
    await page.keyboard.press('Escape');
    assert.equal(await town.inputValue(), chosen);
    await page.getByLabel('Name').fill('By keys');
    await page.keyboard.press('Enter');
    await told(page, 'was added.');
    await page.goto('/admin/trip/?name=By%20keys');
    await sees(page.getByRole('row').filter({ hasText: 'By keys' }).getByRole('link', { name: chosen }));
  });

  test('takes the only record that words can mean when one goes on, and tells of more than it shows', async () => {
    await page.goto('/admin/trip/-/add/');
    const town = page.getByRole('combobox', { name: 'Town' });
    const status = page.locator('.reference', { has: town }).getByRole('status');
    await town.focus();
    await page.keyboard.type('town');
    await sees(page.getByRole('option', { name: 'More records match. Type more words.', disabled: true }));
    assert.equal(await status.innerText(), 'The first 20. More records match. Type more words.');
    await town.fill('town 07');
    await page.keyboard.press('Tab');
    assert.equal(await town.inputValue(), 'town 07');
    await town.fill('town 077');
    await page.keyboard.press('Tab');
    await sees(status.filter({ hasText: 'Town 077 was chosen.' }));
    assert.equal(await town.inputValue(), 'Town 077');
    assert.equal(await town.getAttribute('aria-expanded'), 'false');
    const cookies = await page.context().cookies();
    await page.context().clearCookies();
    await town.fill('town 08');
    await sees(status.filter({ hasText: 'Your session has expired.' }));
    await page.context().addCookies(cookies);
    // So that nobody is asked about what was not saved.
    await town.fill('');
    await page.keyboard.press('Tab');
  });

  test('asks before something that was typed gets lost, and not after saving', async () => {
    const asked: string[] = [];
    page.on('dialog', (dialog) => {
      asked.push(dialog.type());
      void dialog.dismiss();
    });
    await page.goto('/admin/note/1/');
    await page.getByRole('link', { name: 'History' }).click();
    await page.waitForURL('**/history/');
    await page.goto('/admin/note/1/');
    await page.getByLabel('Message').fill('Half a sentence');
    const shown = page.waitForEvent('dialog');
    await page.getByRole('link', { name: 'History' }).click({ noWaitAfter: true });
    await shown;
    assert.deepEqual(asked, ['beforeunload']);
    assert.equal(await page.getByLabel('Message').inputValue(), 'Half a sentence');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await told(page, 'was changed.');
    assert.deepEqual(asked, ['beforeunload']);
  });
});
