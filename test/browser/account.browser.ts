// Login, change of the password, other sessions, and logout.
import assert from 'node:assert/strict';
import {
  button,
  follow,
  heading,
  link,
  logIn,
  MODES,
  openSite,
  expectVisible,
  expectMessage,
} from './support.ts';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    const site = useStarted(() => openSite({ javaScriptEnabled }));

    test('a login after a wrong password leads to the requested page', async () => {
      const page = await site.open();
      await page.goto('/admin/trip/?rating=5&ordering=name');
      assert.equal(await heading(page), 'Log in');
      await logIn(page, 'admin', 'wrong');
      await expectVisible(page.getByRole('alert').filter({ hasText: 'Wrong user name or password' }));
      assert.equal(await page.getByLabel('User name').inputValue(), 'admin');
      assert.equal(await page.getByLabel('Password').inputValue(), '');
      await logIn(page, 'admin');
      assert.equal(page.url(), `${site.service.base}/admin/trip/?rating=5&ordering=name`);
      assert.equal(await heading(page), 'Trips');
    });

    test('a new password needs the current one and ends the other sessions', async () => {
      await site.service.addUser('mover', { admin: true });
      const [here, there] = [await site.openAs('mover'), await site.openAs('mover')];
      await follow(link(here, 'mover'));
      const change = async (current: string, repeat: string): Promise<void> => {
        await here.getByLabel('Current password').fill(current);
        await here.getByLabel(/^New password( \*)?$/).fill('another password');
        await here.getByLabel('New password, again').fill(repeat);
        await follow(button(here, 'Change password'));
      };
      await change('wrong', 'another password');
      const alert = here.getByRole('alert');
      await expectVisible(alert.filter({ hasText: 'is not your password' }));
      await alert.getByRole('link', { name: 'Current password' }).click();
      assert.equal(await here.locator(':focus').getAttribute('autocomplete'), 'current-password');
      await change('pw-mover', 'something else');
      await expectVisible(here.getByRole('alert').filter({ hasText: 'does not match the new password' }));
      await change('pw-mover', 'another password');
      await expectMessage(here, 'Your password was changed.');
      await follow(here.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link').first());
      assert.equal(await heading(here), 'Start');

      await follow(link(there, 'Trips').last());
      assert.equal(await heading(there), 'Log in');
      await logIn(there, 'mover');
      await expectVisible(there.getByRole('alert'));
      await logIn(there, 'mover', 'another password');
      assert.equal(await heading(there), 'Trips');
    });

    test('a long form of an expired session comes back after a login in another tab and a reload', async () => {
      const id = await site.service.addUser(`writer ${mode}`, { admin: true });
      const page = await site.openAs(`writer ${mode}`);
      await page.goto('/admin/thing/1/');
      const text = 'n'.repeat(70_000);
      await page.getByLabel('Note').first().fill(text);
      await site.service
        .sql`update vitrine_session set seen = seen - interval '13 hours' where user_key = ${id}::text`;
      await follow(button(page, 'Save'));
      const opening = page.waitForEvent('popup');
      await link(page, 'Log in in another tab').click();
      const tab = await opening;
      await tab.waitForLoadState();
      await logIn(tab, `writer ${mode}`);
      await page.reload();
      await expectVisible(page.getByRole('alert').filter({ hasText: 'nothing was saved' }));
      assert.equal(await page.getByLabel('Note').first().inputValue(), text);
      await follow(button(page, 'Save'));
      await expectMessage(page, 'was changed');
    });

    test('after the logout, the back button shows the login', async () => {
      const page = await site.openAs();
      await follow(link(page, 'Trips').last());
      await follow(button(page, 'Log out'));
      assert.equal(await heading(page), 'Log in');
      await page.goBack();
      assert.equal(await heading(page), 'Log in');
    });
  });
}
