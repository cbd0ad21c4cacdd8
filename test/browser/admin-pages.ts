// Every page of the admin area, and the steps to open it.
import type { Page } from 'playwright-core';
import { LONG_WORD } from './registry.ts';
import { button, follow, link, logIn, type Site } from './support.ts';

export interface AdminPage {
  readonly name: string;
  /** Opens the page in a given tab with a session. @returns the tab, if it is another one */
  readonly open: (page: Page, site: Site) => Promise<Page | void>;
  /** The page exists only with, or only without, JavaScript. */
  readonly onlyWith?: 'script' | 'no script';
}

const at =
  (path: string): AdminPage['open'] =>
  async (page) =>
    void (await page.goto(path));

const startAction = async (page: Page, action: string): Promise<void> => {
  await page.getByLabel(/^With /).selectOption(action);
  await follow(button(page, 'Continue'));
};

const startActionOnFirst = async (page: Page, path: string, action: string): Promise<void> => {
  await page.goto(path);
  await page.locator('tbody input[type=checkbox]').first().check();
  await startAction(page, action);
};

async function setColumn(page: Page, path: string, column: string, value: string): Promise<void> {
  await startActionOnFirst(page, path, 'Change …');
  await page.getByLabel(`Set ${column}`).check();
  await page.getByLabel(column, { exact: true }).fill(value);
  await follow(button(page, 'Continue'));
}

async function move(page: Page, seat: string, isConfirmed: boolean): Promise<void> {
  await startActionOnFirst(page, '/admin/ticket/', 'Move');
  await page.getByLabel('Seat').fill(seat);
  await follow(button(page, 'Continue'));
  if (isConfirmed) await follow(button(page, 'Move'));
}

async function replaceText(page: Page, path: string, find: string, by: string): Promise<void> {
  await page.goto(path);
  await page.getByRole('checkbox', { name: /^all / }).check();
  await startAction(page, 'Change …');
  await page.getByLabel('Find').fill(find);
  await page.getByLabel('Replace with').fill(by);
  for (const box of await page.getByRole('group', { name: 'Columns to search' }).getByRole('checkbox').all())
    await box.check();
  await follow(button(page, 'Continue'));
}

async function preview(page: Page, text: string): Promise<void> {
  await page.goto('/admin/trip/-/import/');
  await page.getByLabel('Or paste the text').fill(text);
  await follow(button(page, 'Preview'));
}

async function conflict(page: Page, { service }: Site): Promise<void> {
  await page.goto('/admin/trip/7/');
  await service.sql`update trip set name = name || '!', rating = rating % 5 + 1 where id = 7`;
  await page.getByLabel('Name').fill('Mine');
  await page.getByLabel('Day').fill('2026-07-07');
  await follow(button(page, 'Save'));
}

async function sendInvalidThing(page: Page): Promise<void> {
  await page.goto('/admin/thing/-/add/');
  await page.getByLabel('Name').fill('Anvil');
  await page.getByLabel('Note').first().fill('A text\nof several lines');
  await page.getByLabel('Extra').first().fill('{');
  await page.getByLabel('Code').first().fill('not a code');
  await follow(button(page, 'Save'));
}

const sendWrongPassword = async (page: Page, path: string, submit: string): Promise<void> => {
  await page.goto(path);
  for (const field of await page.locator('main input[type=password]').all()) await field.fill('wrong');
  await page.getByLabel('New password, again').fill('something else');
  await follow(button(page, submit));
};

async function makeLink(page: Page): Promise<void> {
  await page.goto('/admin/user/2/access/');
  await page.getByLabel('Your current password').fill('pw-admin');
  await follow(button(page, 'Make a link'));
}

/** A form whose first row has been changed by another user, and whose empty row lacks a value. */
async function sendFaultyRows(page: Page, { service }: Site): Promise<void> {
  await page.goto('/admin/parcel/1/');
  await service.sql`update item set name = name || '!' where parcel_id = 1`;
  await page.getByLabel('Line 1, Name').fill('Mine');
  await page.getByLabel('Line 4, Weight').fill('2.5');
  await follow(button(page, 'Save'));
}

/** Runs in the browser. */
function invalidate(field: { value: string }): void {
  field.value = 'invalid';
}

export const ADMIN_PAGES: readonly AdminPage[] = [
  {
    name: 'the login',
    open: async (_page, site) => {
      const page = await site.open();
      await page.goto('/admin/');
      return page;
    },
  },
  {
    name: 'the login after a wrong password',
    open: async (_page, site) => {
      const page = await site.open();
      await page.goto('/admin/');
      await logIn(page, 'nobody');
      return page;
    },
  },
  { name: 'the start page', open: at('/admin/') },
  { name: 'a list', open: at('/admin/trip/?_search=trip&rating__gte=2&ordering=-rating,name') },
  { name: 'a list with a column of every type', open: at('/admin/thing/') },
  { name: 'a list narrowed to a month', open: at('/admin/trip/?day__gte=2025-12-01&day__lt=2026-01-01') },
  { name: 'a list with the filters in a narrow window', open: at('/admin/trip/?rating__gte=2#filter-0') },
  { name: 'a list with invalid filters', open: at('/admin/trip/?rating=many&name__ilike=%25T%25&ordering=nothing') },
  { name: 'a list with tones and widgets', open: at('/admin/sight/') },
  {
    name: 'a record with widgets and a preview',
    open: async (page) => {
      await page.goto('/admin/sight/4/');
      await follow(button(page, 'Preview Body'));
    },
  },
  { name: 'a list to save as a view', open: at('/admin/trip/-/view/?rating__gte=2') },
  { name: 'a list without records', open: at('/admin/land/') },
  { name: 'a list without matching records', open: at('/admin/trip/?rating=5&_search=nowhere') },
  {
    name: 'a list with all filters and columns',
    open: async (page) => {
      await page.goto('/admin/thing/#filter-0');
      await page.getByText('More filters').click();
      await page.getByText('Columns', { exact: true }).click();
    },
  },
  {
    name: 'a list with a success message',
    open: async (page) => {
      await page.goto('/admin/note/1/');
      await follow(button(page, 'Save'));
    },
  },
  {
    name: 'a list with an error message',
    open: async (page) => {
      await page.goto('/admin/note/');
      await startAction(page, 'Delete …');
    },
  },
  { name: 'a list with records to filter by', open: at('/admin/trip/-/filter/?_panel=1&_find.town=Town%200') },
  { name: 'the form for a new record', open: at('/admin/thing/-/add/') },
  { name: 'the form for a new user', open: at('/admin/user/-/add/') },
  { name: 'the form for a new record with errors', open: sendInvalidThing },
  { name: 'a record', open: at('/admin/thing/1/') },
  { name: 'a record with records that refer to it', open: at('/admin/trip/1/') },
  { name: 'a record with rows of child tables', open: at('/admin/parcel/1/') },
  { name: 'a record with rows of child tables that have errors', open: sendFaultyRows },
  { name: 'a user', open: at('/admin/user/2/') },
  {
    name: 'a search field with its results',
    onlyWith: 'script',
    open: async (page) => {
      await page.goto('/admin/trip/-/add/');
      await page.getByRole('combobox', { name: 'Town' }).fill('town 0');
      await page.getByRole('option').first().waitFor();
      await page.keyboard.press('ArrowDown');
    },
  },
  {
    name: 'the lookup page',
    onlyWith: 'no script',
    open: async (page) => {
      await page.goto('/admin/trip/-/add/');
      await follow(button(page, 'Search Town'));
    },
  },
  { name: 'a conflict', open: conflict },
  { name: 'a deletion that is not possible', open: at('/admin/town/2/delete/') },
  { name: 'a deletion', open: at('/admin/trip/1/delete/') },
  { name: 'a bulk change', open: (page) => startActionOnFirst(page, '/admin/trip/', 'Change …') },
  { name: 'a bulk change: find and replace', open: (page) => replaceText(page, '/admin/trip/', 'rip', 'ide') },
  { name: 'an action of a record', open: at('/admin/ticket/1/action/?name=move') },
  { name: 'an action: an error', open: (page) => move(page, 'none', true) },
  { name: 'an action: the confirmation', open: (page) => move(page, 'Window', false) },
  { name: 'a bulk action: an invalid value', open: (page) => setColumn(page, '/admin/thing/', 'Extra', '{') },
  { name: 'a bulk action: the confirmation', open: (page) => setColumn(page, '/admin/trip/?_search=town', 'Rating', '4') },
  { name: 'a bulk deletion', open: (page) => startActionOnFirst(page, '/admin/trip/', 'Delete …') },
  { name: 'a bulk deletion that is not possible', open: (page) => startActionOnFirst(page, '/admin/town/', 'Delete …') },
  { name: 'an import', open: at('/admin/trip/-/import/') },
  { name: 'an import of an invalid file', open: (page) => preview(page, '"') },
  { name: 'an import of a file without known columns', open: (page) => preview(page, 'no,such\ncolumns,here') },
  { name: 'an import with errors', open: (page) => preview(page, 'id;name;rating;day\n2;Trip two;3;01/02/2026\n3;Trip three;99;\n;New;many;\n4;Trip four;2;') },
  { name: 'the preview of an import', open: (page) => preview(page, 'id,name,town_id\n2,Trip two,9\n,New,5') },
  { name: 'the history of a record', open: at('/admin/note/2/history/') },
  { name: 'the history of a deleted record', open: at('/admin/ticket/3/history/') },
  { name: 'the whole history', open: at('/admin/vitrine_history/') },
  {
    name: 'an entry of the history',
    open: async (page) => {
      await page.goto('/admin/vitrine_history/');
      await follow(page.locator('tbody th[scope=row] a').first());
    },
  },
  { name: 'the account page', open: at('/admin/-/account/') },
  {
    name: 'the account page after a wrong password',
    open: (page) => sendWrongPassword(page, '/admin/-/account/', 'Change password'),
  },
  { name: 'the form for a token', open: at('/admin/-/tokens/') },
  {
    name: 'the form for a token with errors',
    open: async (page) => {
      await page.goto('/admin/-/tokens/');
      await page.getByLabel('note', { exact: true }).check();
      await follow(button(page, 'Add token'));
    },
  },
  {
    name: 'a new token',
    open: async (page) => {
      await page.goto('/admin/-/tokens/');
      await page.getByLabel('Label').fill('nightly import');
      await page.getByLabel('Your current password').fill('pw-admin');
      await follow(button(page, 'Add token'));
    },
  },
  { name: 'the account page with tokens', open: at('/admin/-/account/') },
  { name: 'the access of a user', open: at('/admin/user/2/access/') },
  { name: 'a new link to set a password', open: (page) => makeLink(page) },
  {
    name: 'the page that a link leads to',
    open: async (page, site) => {
      await makeLink(page);
      const address = await page.getByLabel('Link', { exact: true }).inputValue();
      const other = await site.open();
      await other.goto(address);
      return other;
    },
  },
  {
    name: 'the page that a used link leads to',
    open: async (_page, site) => {
      const other = await site.open();
      await other.goto('/admin/-/set-password/?link=used');
      return other;
    },
  },
  { name: 'the keyboard shortcuts', open: at('/admin/-/keys/') },
  { name: 'Go to', open: at('/admin/-/go/?q=trip') },
  { name: 'Go to, with recent records', open: at('/admin/-/go/') },
  { name: 'the password of a user', open: at('/admin/user/2/password/') },
  {
    name: 'the password of a user with errors',
    open: (page) => sendWrongPassword(page, '/admin/user/2/password/', 'Set password'),
  },
  { name: 'a missing page', open: at('/admin/nothing/') },
  {
    name: 'a form with an invalid token',
    open: async (page) => {
      await page.goto('/admin/note/1/');
      await page.locator('main input[name=_csrf]').first().evaluate(invalidate as never);
      await follow(button(page, 'Save'));
    },
  },
  { name: 'a list with long words', open: at(`/admin/thing/?note__ilike=%25${LONG_WORD}%25&_search=${LONG_WORD.slice(0, 50)}`) },
  { name: 'a record with long words', open: at('/admin/thing/2/') },
  { name: 'a deletion of long words', open: at('/admin/note/3/delete/') },
  {
    name: 'a conflict with long words',
    open: async (page, { service }) => {
      await page.goto('/admin/note/3/');
      await page.getByLabel('Message').fill(LONG_WORD.repeat(2));
      await service.sql`update note set created = created + interval '1 day', message = 'x' || message where id = 3`;
      await follow(button(page, 'Save'));
    },
  },
  { name: 'an import with long words', open: (page) => preview(page, `id,name\n2,${LONG_WORD}\n,${LONG_WORD}`) },
]; // prettier-ignore

/** Makes changes that the history shows. */
export async function makeHistory(page: Page): Promise<void> {
  await page.goto('/admin/note/2/');
  await page.getByLabel('Message').fill('The key is with somebody else.');
  await follow(button(page, 'Save'));
  await page.goto('/admin/ticket/3/');
  await follow(link(page, 'Delete'));
  await follow(button(page, 'Delete'));
}
