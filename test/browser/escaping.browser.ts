import assert from 'node:assert/strict';
import { openHostileSite } from '../admin/hostile-site.ts';
import { launchChromium } from './chromium.ts';
import { test } from 'node:test';

test('a browser executes no hostile text and reports no error', async (t) => {
  const { service, ada, addresses } = await openHostileSite();
  const chrome = await launchChromium();
  t.after(async () => {
    await chrome.close();
    await service.close();
  });
  const context = await chrome.newContext();
  await context.addCookies(
    [...ada.cookies].map(([name, value]) => ({ name, value, url: `${service.base}/admin/` })),
  );
  const page = await context.newPage();
  const seen: string[] = [];
  page.on('dialog', (dialog) => {
    seen.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('pageerror', (error) => seen.push(String(error)));
  page.on('console', (message) => {
    // The console also has the 4xx status of pages and advice on forms.
    if (!/status of 4|^\[DOM\]/.test(message.text())) seen.push(message.text());
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.protocol !== 'data:' && url.origin !== service.base) seen.push(request.url());
  });
  for (const address of addresses.filter((_, index) => index % 4 === 0 || index < 20)) {
    await page.goto(service.base + address, { waitUntil: 'load' });
    assert.deepEqual(seen, [], address);
  }
});
