// The script asks before a page is left with typed values that are not saved.
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import type { Resource } from '../../src/index.ts';
import { button, expectVisible, follow, heading, link, openSite, type Site } from './support.ts';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';

/** Its fields have names of properties of a form, which they replace. */
const measurement = {
  model: 'measurement',
  columns: {
    dataset: { type: 'string' },
    addEventListener: { type: 'string', null: true },
    classList: { type: 'string', null: true },
    querySelectorAll: { type: 'string', null: true },
    setAttribute: { type: 'string', null: true },
    count: { type: 'integer', min: 1 },
    town: { type: 'foreignKey', references: 'town', null: true },
  },
} satisfies Resource;

describe('the script', () => {
  let site: Site;
  let page: Page;
  let dialogs: string[];
  before(async () => {
    site = await openSite({}, [measurement]);
  });
  beforeEach(async () => {
    page = await site.openAs();
    dialogs = [];
    page.on('dialog', (dialog) => {
      dialogs.push(dialog.type());
      void dialog.dismiss();
    });
  });
  afterEach(() => page.context().close());
  after(() => site.close());

  /** Leaves the page by its first breadcrumb, and stays because of the dialog. */
  async function assertAsks(): Promise<void> {
    const shown = page.waitForEvent('dialog');
    const crumbs = page.getByRole('navigation', { name: 'Breadcrumb' });
    await crumbs.getByRole('link').first().click({ noWaitAfter: true });
    await shown;
    assert.deepEqual(dialogs.splice(0), ['beforeunload']);
  }

  test('asks before the typed values of an edit conflict are lost, unless they are discarded', async () => {
    await page.goto('/admin/trip/7/');
    await site.service.sql`update trip set name = name || '!' where id = 7`;
    await page.getByLabel('Name').fill('Mine');
    await follow(button(page, 'Save'));
    await expectVisible(page.getByRole('alert').filter({ hasText: 'Your changes are not lost' }));
    await assertAsks();
    const opened = page.context().waitForEvent('page');
    await link(page, 'Discard my changes').click({ modifiers: ['ControlOrMeta'] });
    await (await opened).close();
    await assertAsks();
    await follow(link(page, 'Discard my changes'));
    assert.equal(await heading(page), 'Trip 07!');
    assert.deepEqual(dialogs, []);
  });

  test('works in a form whose columns are named like properties of forms', async () => {
    await page.goto('/admin/measurement/-/add/');
    await expectVisible(page.getByRole('combobox', { name: 'Town' }));
    await page.getByLabel('Dataset').fill('Rain');
    await follow(button(page, 'Save'));
    assert.equal(await page.locator('#field-dataset').inputValue(), 'Rain');
    await assertAsks();
    await page.getByRole('textbox', { name: 'Count' }).fill('7');
    await follow(button(page, 'Save'));
    await expectVisible(page.getByRole('status').filter({ hasText: 'was added' }));
  });

  test('asks before what was typed is lost after more rows were shown', async () => {
    await page.goto('/admin/parcel/-/add/');
    await page.locator('[name=name]').fill('Gift');
    await follow(button(page, 'Show 5 more rows'));
    assert.equal(await page.locator('[name=name]').inputValue(), 'Gift');
    await assertAsks();
  });

  test('asks again after a save that the user has stopped', async () => {
    const { sql } = site.service;
    await page.goto('/admin/note/1/');
    await page.getByLabel('Message').fill('Half a sentence');
    const devTools = await page.context().newCDPSession(page);
    await sql.begin(async (transaction) => {
      await transaction`select from note where id = 1 for update`;
      const sent = page.waitForRequest((request) => request.method() === 'POST');
      await button(page, 'Save').click({ noWaitAfter: true });
      await sent;
      // What the stop button of the browser does.
      await devTools.send('Page.stopLoading');
    });
    assert.equal(await page.getByLabel('Message').inputValue(), 'Half a sentence');
    await assertAsks();
  });

  test('asks before an invalid value of a bulk action is lost, unless it is canceled', async () => {
    await page.goto('/admin/thing/');
    await page.locator('tbody input[type=checkbox]').first().check();
    await page.getByLabel(/^With /).selectOption('Change …');
    await follow(button(page, 'Continue'));
    await page.getByLabel('Extra', { exact: true }).fill('{');
    await follow(button(page, 'Continue'));
    assert.equal(await page.getByLabel('Extra', { exact: true }).inputValue(), '{');
    await assertAsks();
    await follow(link(page, 'Cancel'));
    assert.equal(await heading(page), 'Things');
    assert.deepEqual(dialogs, []);
  });

  test('asks before a pasted text with errors is lost, but not after a file with errors', async () => {
    const text = 'id,rating\n2,99';
    await page.goto('/admin/trip/-/import/');
    await page.getByLabel('Or paste the text').fill(text);
    await follow(button(page, 'Preview'));
    assert.equal(await page.getByLabel('Or paste the text').inputValue(), text);
    await assertAsks();
    await page.getByLabel('Or paste the text').fill('');
    await page
      .getByLabel('CSV file')
      .setInputFiles({ name: 'trips.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });
    await follow(button(page, 'Preview again'));
    await expectVisible(page.getByRole('alert').filter({ hasText: '1 row has errors' }));
    await follow(page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link').first());
    assert.equal(await heading(page), 'Start');
    assert.deepEqual(dialogs, []);
  });
});
