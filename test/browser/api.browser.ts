// The pages of the API in a browser: accessibility and navigation, and no errors in the console.
import assert from 'node:assert/strict';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { openShelf } from '../http/shelf.ts';
import type { TestService } from '../support.ts';
import { overflowOf, VIEWPORTS, violationsOf } from './axe.ts';
import { launchChromium } from './chromium.ts';
import { LONG_WORD } from './registry.ts';
import { follow, heading, link, expectVisible } from './support.ts';
import { after, before, describe, test } from 'node:test';

const HOSTILE = `<img src=x onerror=alert(1)> </code></pre><script>alert(2)</script> "'&amp;`;

describe('the pages of the API', () => {
  let service: TestService;
  let browser: Browser;
  const errors: string[] = [];

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
      if (!/status of 4\d\d/.test(message.text())) errors.push(message.text());
    });
    context.on('weberror', (error) => errors.push(error.error().message));
    context.on('dialog', (dialog) => {
      errors.push(`dialog ${dialog.message()}`);
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
    ['a page of a collection with filters', '/api/book/?title__ilike=%25o%25&-lent=true&limit=2&page=2', {}],
    ['a collection without records', '/api/book/?id=9999', {}],
    ['a collection for users', '/api/letter/', credentials('bob')],
    ['a record', '/api/book/1/', {}],
    ['a record with markup in it', '/api/book/4/', {}],
    ['invalid parameters', `/api/book/?nope=${LONG_WORD}&limit=a&_x=1&lent=true`, {}],
    ['a missing record', '/api/book/999/', {}],
    ['a resource for admins only', '/api/secret/', credentials('bob')],
  ] as const) {
    test(`have no violation that axe-core finds: ${name}`, async () => {
      const page = await open(options);
      await page.goto(path);
      const found: string[] = [];
      for (const { viewport, colorScheme, width, height, isSameLayout } of VIEWPORTS) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height });
        found.push(
          ...(await violationsOf(page, isSameLayout)).map((violation) => `${viewport}: ${violation}`),
        );
        const overflow = await overflowOf(page);
        if (overflow > 0) found.push(`${viewport}: the page is ${overflow} px wider than the window`);
      }
      await page.context().close();
      assert.deepEqual(found, []);
    });
  }

  test('link to records, related records and other pages without JavaScript', async () => {
    const page = await open({ javaScriptEnabled: false });
    await page.goto('/api/');
    await follow(link(page, '/api/book/'));
    assert.equal(await heading(page), 'book');
    await follow(page.locator('a[href$="page=2"]'));
    await follow(page.locator('a[href$="page=1"]'));
    await page.goto('/api/book/1/');
    assert.equal(await heading(page), 'book 1');
    await follow(page.locator('a[href="/api/user/1/"]'));
    assert.equal(await heading(page), 'user 1');
    await page.context().close();
  });

  test('show records for users only to a browser with credentials', async () => {
    const page = await open(credentials('bob'));
    await page.goto('/api/letter/');
    await expectVisible(page.getByText('to Ada'));
    assert.equal((await page.goto('/api/secret/'))?.status(), 403);
    await page.context().close();
    const anonymous = await open();
    // Without a window nobody can be asked for credentials. Chromium fails then, and its headless shell shows the 401.
    const outcome = await anonymous.goto('/api/letter/').then((answer) => answer?.status(), String);
    assert.match(String(outcome), /^401$|ERR_INVALID_AUTH_CREDENTIALS/);
    await anonymous.context().close();
  });

  test('show hostile text as text', async () => {
    const page = await open();
    await page.goto('/api/book/4/');
    const { title } = JSON.parse(await page.locator('pre.json').innerText()) as { title: string };
    assert.equal(title, HOSTILE);
    await page.context().close();
  });

  test('have caused no error in the browser', () => {
    assert.deepEqual(errors, []);
  });
});
