// The set-up of a second factor, logins with it, and codes before sensitive actions.
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { codeAt, outdateCodes, presentStep } from '../second-factor.ts';
import { overflowOf, violationsOf } from './axe.ts';
import {
  button,
  expectMessage,
  expectVisible,
  follow,
  heading,
  link,
  logIn,
  MODES,
  openSite,
  type Site,
} from './support.ts';
import { after, before, describe, test } from 'node:test';

const CODE = 'Code of your second factor';

/** axe-core needs JavaScript. */
async function check(page: Page, isScripted: boolean): Promise<void> {
  for (const width of [1280, 320]) {
    await page.setViewportSize({ width, height: 720 });
    if (isScripted) assert.deepEqual(await violationsOf(page), []);
    assert.equal(isScripted ? await overflowOf(page) : 0, 0);
  }
}

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    let site: Site;
    before(async () => {
      site = await openSite({ javaScriptEnabled });
    });
    after(() => site.close());

    test('a user sets a second factor up, logs in with it, and confirms a deletion with it', async () => {
      await site.service.addUser('guard', { admin: true });
      const page = await site.openAs('guard');
      const enter = async (code: string, submit: string): Promise<void> => {
        await page.getByLabel(CODE).fill(code);
        await follow(button(page, submit));
      };

      await follow(link(page, 'guard'));
      await check(page, javaScriptEnabled);
      await follow(link(page, 'Set up'));
      assert.equal(await heading(page), 'Second factor');
      await expectVisible(page.getByRole('img', { name: 'QR code with the secret' }));
      await check(page, javaScriptEnabled);
      const secret = (await page.getByText(/^Secret: /).innerText())
        .slice('Secret: '.length)
        .replaceAll(' ', '');
      await page.getByLabel('Your current password').fill('pw-guard');
      await enter('12345', 'Set up');
      await expectVisible(page.getByRole('alert').filter({ hasText: 'is wrong' }));
      await check(page, javaScriptEnabled);
      await page.getByLabel('Your current password').fill('pw-guard');
      const used = codeAt(secret);
      await enter(used, 'Set up');
      assert.equal(await page.locator('.codes li').count(), 10);
      await check(page, javaScriptEnabled);
      const [recovery = ''] = await page.locator('.codes li').allInnerTexts();
      await follow(link(page, 'Continue'));
      await follow(button(page, 'Log out'));

      await page.goto('/admin/trip/');
      await logIn(page, 'guard');
      assert.equal(await heading(page), 'Second factor');
      assert.equal(await page.getByLabel(CODE).getAttribute('autocomplete'), 'one-time-code');
      await check(page, javaScriptEnabled);
      // Used by the set-up.
      await enter(used, 'Log in');
      await expectVisible(page.getByRole('alert').filter({ hasText: 'is wrong, or was used before' }));
      await check(page, javaScriptEnabled);
      await enter(codeAt(secret, presentStep() + 1), 'Log in');
      assert.equal(await heading(page), 'Trips');

      await outdateCodes(site.service);
      await page.locator('tbody input[type=checkbox]').first().check();
      await page.getByLabel(/^With /).selectOption('delete');
      await follow(button(page, 'Continue'));
      await check(page, javaScriptEnabled);
      await enter(recovery, 'Delete 1 record');
      await expectMessage(page, '1 record deleted.');
      await page.goto('/admin/-/confirm/');
      await check(page, javaScriptEnabled);

      const admin = await site.openAs();
      await admin.goto('/admin/user/?username=guard');
      await follow(link(admin, 'guard').last());
      await follow(link(admin, 'Remove second factor'));
      await check(admin, javaScriptEnabled);
      await admin.getByLabel('Your current password').fill('pw-admin');
      await follow(button(admin, 'Remove'));
      await expectMessage(admin, 'The second factor was removed.');
    });
  });
}
