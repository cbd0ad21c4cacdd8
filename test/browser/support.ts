// A service with records, and browsers that collect their errors.
import assert from 'node:assert/strict';
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { launchChromium } from './chromium.ts';
import { addRecords, panels, registry } from './registry.ts';

/** Each test runs in both modes. */
export const MODES = [
  { mode: 'with JavaScript', javaScriptEnabled: true },
  { mode: 'without JavaScript', javaScriptEnabled: false },
] as const;

/** Timeouts for the load of a page and for a control to appear (milliseconds). */
const PAGE_TIMEOUT = 20_000;
const CONTROL_TIMEOUT = 10_000;

export interface Site {
  readonly service: TestService;
  /** Opens a page in a new browser context without a session. */
  readonly open: (options?: BrowserContextOptions) => Promise<Page>;
  /** Opens the start page in a new browser context, logged in as this admin (default `admin`). */
  readonly openAs: (name?: string, options?: BrowserContextOptions) => Promise<Page>;
  /** Closes everything. @throws AssertionError with the errors of the browsers */
  readonly close: () => Promise<void>;
}

/**
 * Collects errors and warnings of the console, among them violations of the content security policy, exceptions, and failed
 * requests.
 */
function watch(context: BrowserContext, errors: string[]): void {
  const documents = new Set<string>();
  context.on('response', (response) => {
    const request = response.request();
    const isDocument = request.isNavigationRequest();
    if (isDocument) documents.add(response.url());
    if (response.status() >= (isDocument ? 500 : 400)) errors.push(`${response.status()} ${response.url()}`);
  });
  context.on('requestfailed', (request) => {
    // Downloads abort the navigation, and the script aborts a search when the user types on.
    const reason = request.failure()?.errorText ?? '';
    if (reason !== 'net::ERR_ABORTED') errors.push(`${reason} ${request.url()}`);
  });
  context.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return;
    // The console also reports the 4xx status of a page, which is expected for forms with errors, conflicts and missing pages.
    const isStatus = /^Failed to load resource: .* status of 4\d\d/.test(message.text());
    if (isStatus && documents.has(message.location().url)) return;
    errors.push(`${message.type()}: ${message.text()} (${message.page()?.url() ?? ''})`);
  });
  context.on('weberror', (error) => errors.push(`exception: ${error.error().message}`));
}

/** @param further resources beside those of the registry */
export async function openSite(
  shared: BrowserContextOptions = {},
  further: readonly Resource[] = [],
): Promise<Site> {
  const errors: string[] = [];
  const service = await startService([...registry, ...further], { panels });
  let browser: Browser;
  try {
    await addRecords(service);
    browser = await launchChromium();
  } catch (error) {
    await service.close();
    throw error;
  }
  const open: Site['open'] = async (options) => {
    const context = await browser.newContext({
      baseURL: service.base,
      locale: 'en-GB',
      reducedMotion: 'reduce',
      ...shared,
      ...options,
    });
    context.setDefaultTimeout(CONTROL_TIMEOUT);
    watch(context, errors);
    return context.newPage();
  };
  return {
    service,
    open,
    openAs: async (name = 'admin', options) => {
      const page = await open(options);
      await page.goto('/admin/');
      await logIn(page, name);
      return page;
    },
    close: async () => {
      await browser.close();
      await service.close();
      assert.deepEqual(errors, []);
    },
  };
}

/** Fills in and sends the login form of the current page. */
export async function logIn(page: Page, name: string, password = `pw-${name}`): Promise<void> {
  await page.getByLabel('User name').fill(name);
  await page.getByLabel('Password').fill(password);
  await follow(page.getByRole('button', { name: 'Log in' }));
}

const nextLoad = (page: Page): Promise<Page> =>
  page.waitForEvent('domcontentloaded', { timeout: PAGE_TIMEOUT });

/** Clicks on an element and waits for the next page. */
export async function follow(target: Locator): Promise<void> {
  await Promise.all([nextLoad(target.page()), target.click()]);
}

/** Presses a key and waits for the next page. */
export async function press(page: Page, key: string): Promise<void> {
  await Promise.all([nextLoad(page), page.keyboard.press(key)]);
}

/** A link of the page, apart from those to all lists beside it. */
export const link = (page: Page, name: string): Locator =>
  page.locator('body > :not(.side)').getByRole('link', { name, exact: true });
export const button = (page: Page, name: string | RegExp): Locator =>
  page.getByRole('button', { name, exact: true });

/** Waits until an element is visible. */
export const expectVisible = (target: Locator): Promise<void> => target.first().waitFor({ state: 'visible' });

/** Waits for the message about a completed action. */
export const expectMessage = (page: Page, text: string | RegExp): Promise<void> =>
  expectVisible(page.getByRole('status').filter({ hasText: text }));

/** The texts in the first column of a list. */
export const names = async (page: Page): Promise<string[]> =>
  (await page.locator('table.records tbody th[scope=row]').allInnerTexts()).map((text) => text.trim());

/** The text of the `<h1>`. */
export const heading = (page: Page): Promise<string> => page.getByRole('heading', { level: 1 }).innerText();
