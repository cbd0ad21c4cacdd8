// The API's pages in a real browser: what axe-core finds, what people do there, and that the browser has nothing to say about it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { openShelf } from '../http/shelf.ts';
import type { TestService } from '../support.ts';
import { LOOKS, overflowOf, violationsOf } from './axe.ts';
import { launchChromium } from './chromium.ts';
import { LONG_WORD } from './registry.ts';
import { button, follow, heading, link, sees } from './stage.ts';

const HOSTILE = `<img src=x onerror=alert(1)> </code></pre><script>alert(2)</script> "'&amp;`;

describe('the API’s pages', () => {
  let service: TestService;
  let browser: Browser;
  const faults: string[] = [];

  before(async () => {
    service = await openShelf();
    await service.sql`insert into book (title) values (${HOSTILE}), (${LONG_WORD.repeat(3)})`;
    await service.sql`insert into book (title) select 'Book ' || n from generate_series(1, 30) n`;
    browser = await launchChromium();
  });
  after(async () => {
    await browser.close();
    await service.close();
  });

  async function open(options: BrowserContextOptions = {}): Promise<Page> {
    const context = await browser.newContext({
      baseURL: service.base,
      locale: 'en-GB',
      reducedMotion: 'reduce',
      ...options,
    });
    context.setDefaultTimeout(20_000);
    context.on('console', (message) => {
      if (!/status of 4\d\d/.test(message.text())) faults.push(message.text());
    });
    context.on('weberror', (error) => faults.push(error.error().message));
    context.on('dialog', (dialog) => {
      faults.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    return context.newPage();
  }
  const credentials = (username: string): BrowserContextOptions => ({
    httpCredentials: { username, password: `pw-${username}` },
  });

  for (const [name, path, options] of [
    ['the list of resources', '/api/', {}],
    ['a collection', '/api/book/', {}],
    ['a page of a collection with filters, and the form for one', '/api/book/?title__ilike=%25o%25&-lent=true&limit=2&page=2&_filter=reader__username&_count=exact', {}], // prettier-ignore
    ['a form for a truth value', '/api/book/?_filter=lent', {}],
    ['a collection without records', '/api/book/?id=9999', {}],
    ['a collection for users', '/api/letter/', credentials('bob')],
    ['a record', '/api/book/1/', {}],
    ['a record with markup in it', '/api/book/4/', {}],
    ['faulty parameters', `/api/book/?nope=${LONG_WORD}&limit=a&_x=1&lent=true`, {}],
    ['a record that is not there', '/api/book/999/', {}],
    ['a resource for admins alone', '/api/secret/', credentials('bob')],
  ] as const) {
    test(`have nothing that axe-core finds: ${name}`, async () => {
      const page = await open(options);
      await page.goto(path);
      const found: string[] = [];
      for (const { look, colorScheme, width, height } of LOOKS) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height });
        found.push(...(await violationsOf(page)).map((violation) => `${look}: ${violation}`));
        const overflow = await overflowOf(page);
        if (overflow > 0) found.push(`${look}: the page is ${overflow} px wider than the window`);
      }
      await page.context().close();
      assert.deepEqual(found, []);
    });
  }

  test('lead from the list to a record, along a key, and to another page, without script', async () => {
    const page = await open({ javaScriptEnabled: false });
    await page.goto('/api/');
    await follow(link(page, 'book'));
    assert.equal(await heading(page), 'book');
    await follow(link(page, 'Next'));
    await sees(page.getByText('Page 2', { exact: true }));
    await follow(link(page, 'Previous'));
    await page.goto('/api/book/1/');
    assert.equal(await heading(page), 'book 1');
    await follow(page.locator('a[href="/api/user/1/"]'));
    assert.equal(await heading(page), 'user 1');
    await page.context().close();
  });

  test('build a filter and take it away again, without script', async () => {
    const page = await open({ javaScriptEnabled: false });
    await page.goto('/api/book/');
    await page.getByText('Add a filter').click();
    await follow(link(page, 'reader__username'));
    await sees(page.locator('#filter-how:focus')); // the browser says so where somebody was quicker than it
    await page.getByLabel('reader__username').selectOption({ label: 'is' });
    await page.getByLabel('Value').fill('bob');
    await follow(button(page, 'Filter'));
    assert.equal(new URL(page.url()).search, '?reader__username=bob');
    const shown = JSON.parse(await page.locator('pre.json').innerText()) as { objects: { id: number }[] };
    assert.deepEqual(
      shown.objects.map(({ id }) => id),
      [3],
    );
    await follow(link(page, 'Remove the parameter reader__username'));
    assert.equal(new URL(page.url()).search, '');
    await page.context().close();
  });

  test('show what only users may read to a browser that has their name and password', async () => {
    const page = await open(credentials('bob'));
    await page.goto('/api/letter/');
    await sees(page.getByText('to Ada'));
    assert.equal((await page.goto('/api/secret/'))?.status(), 403);
    await page.context().close();
    const nobody = await open();
    // The browser would ask for them here; without a window it gives up.
    await assert.rejects(nobody.goto('/api/letter/'), /ERR_INVALID_AUTH_CREDENTIALS/);
    await nobody.context().close();
  });

  test('show texts as they are and run none of them', async () => {
    const page = await open();
    await page.goto('/api/book/4/');
    const { title } = JSON.parse(await page.locator('pre.json').innerText()) as { title: string };
    assert.equal(title, HOSTILE);
    await page.context().close();
  });

  test('have given the browser nothing to complain about', () => {
    assert.deepEqual(faults, []);
  });
});
