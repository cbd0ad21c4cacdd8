// Coming in, changing one's password, ending other logins, and leaving.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { button, follow, heading, link, logIn, MODES, openStage, sees, told, type Stage } from './stage.ts';

for (const { mode, javaScriptEnabled } of MODES) {
  describe(mode, () => {
    let stage: Stage;
    before(async () => {
      stage = await openStage({ javaScriptEnabled });
    });
    after(() => stage.close());

    test('somebody logs in, with a wrong password first, and comes to the page that was asked for', async () => {
      const page = await stage.open();
      await page.goto('/admin/trip/?rating=5&ordering=name');
      assert.equal(await heading(page), 'Log in');
      await logIn(page, 'admin', 'wrong');
      await sees(page.getByRole('alert').filter({ hasText: 'Wrong user name or password' }));
      assert.equal(await page.getByLabel('User name').inputValue(), 'admin');
      assert.equal(await page.getByLabel('Password').inputValue(), '');
      await logIn(page, 'admin');
      assert.equal(page.url(), `${stage.service.base}/admin/trip/?rating=5&ordering=name`);
      assert.equal(await heading(page), 'Trips');
    });

    test('users who are no admins do not come in', async () => {
      const page = await stage.open();
      await page.goto('/admin/');
      await logIn(page, 'ada');
      await sees(page.getByRole('alert').filter({ hasText: 'Wrong user name or password' }));
    });

    test('a new password needs the present one, ends the logins elsewhere, and is the one that counts', async () => {
      await stage.service.addUser('mover', { admin: true });
      const [here, there] = [await stage.enter('mover'), await stage.enter('mover')];
      await follow(link(here, 'mover'));
      const change = async (current: string, repeat: string): Promise<void> => {
        await here.getByLabel('Current password').fill(current);
        await here.getByLabel(/^New password( \*)?$/).fill('another password');
        await here.getByLabel('New password, again').fill(repeat);
        await follow(button(here, 'Change password'));
      };
      await change('wrong', 'another password');
      const alert = here.getByRole('alert');
      await sees(alert.filter({ hasText: 'is not your password' }));
      await alert.getByRole('link', { name: 'Current password' }).click();
      assert.equal(await here.locator(':focus').getAttribute('autocomplete'), 'current-password');
      await change('pw-mover', 'something else');
      await sees(here.getByRole('alert').filter({ hasText: 'does not match the new password' }));
      await change('pw-mover', 'another password');
      await told(here, 'Your password was changed.');
      await follow(here.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link').first());
      assert.equal(await heading(here), 'Start');

      await follow(link(there, 'Trips').last());
      assert.equal(await heading(there), 'Log in');
      await logIn(there, 'mover');
      await sees(there.getByRole('alert'));
      await logIn(there, 'mover', 'another password');
      assert.equal(await heading(there), 'Trips');
    });

    test('the logins elsewhere can be seen and ended', async () => {
      await stage.service.addUser('nomad', { admin: true });
      const [here, there] = [await stage.enter('nomad'), await stage.enter('nomad')];
      await follow(link(here, 'nomad'));
      assert.equal(await here.getByRole('row').filter({ hasText: 'Chrome' }).count(), 2);
      assert.equal(await here.getByRole('row').filter({ hasText: 'this session' }).count(), 1);
      await follow(button(here, 'End other sessions'));
      await told(here, 'One other session was ended.');
      await sees(here.getByText('You have no other sessions.'));
      await there.reload();
      assert.equal(await heading(there), 'Log in');
    });

    test('somebody sets the password of another user, who can then log in with it', async () => {
      await stage.service.addUser('newcomer', { admin: true });
      const page = await stage.enter();
      await follow(link(page, 'Users').last());
      await follow(link(page, 'newcomer'));
      await follow(link(page, 'Set password'));
      await page.getByLabel(/^New password( \*)?$/).fill('fresh password');
      await page.getByLabel('New password, again').fill('fresh password');
      await page.getByLabel(/^Your current password/).fill('pw-admin');
      await follow(button(page, 'Set password'));
      await told(page, 'The password was set.');
      const other = await stage.open();
      await other.goto('/admin/');
      await logIn(other, 'newcomer', 'fresh password');
      assert.equal(await heading(other), 'Start');
    });

    test('somebody logs out, and going back shows nothing any more', async () => {
      const page = await stage.enter();
      await follow(link(page, 'Trips').last());
      await follow(button(page, 'Log out'));
      assert.equal(await heading(page), 'Log in');
      await page.goBack();
      assert.equal(await heading(page), 'Log in');
    });
  });
}
