// A service with records, and browsers in which people work with it; whatever goes wrong in a browser is written down.
import assert from 'node:assert/strict';
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { startService, type TestService } from '../support.ts';
import { launchChromium } from './chromium.ts';
import { addRecords, panels, registry } from './registry.ts';

/** The ways in which each journey is made. */
export const MODES = [
  { mode: 'with JavaScript', javaScriptEnabled: true },
  { mode: 'without JavaScript', javaScriptEnabled: false },
] as const;

/** So long that only a page that does not come reaches it, and a control that is not there (milliseconds). */
const PATIENCE = 20_000;
const PATIENCE_FOR_CONTROLS = 10_000;

export interface Stage {
  readonly service: TestService;
  /** A new browser that nobody has logged in with. */
  readonly open: (options?: BrowserContextOptions) => Promise<Page>;
  /** A new browser in which an admin is logged in, on the start page. */
  readonly enter: (name?: string, options?: BrowserContextOptions) => Promise<Page>;
  /** Closes everything. @throws AssertionError that names what browsers complained of */
  readonly close: () => Promise<void>;
}

/**
 * Writes down errors and warnings of the console (a breach of the content security policy is one), exceptions, and requests
 * that failed.
 */
function watch(context: BrowserContext, faults: string[]): void {
  const documents = new Set<string>();
  context.on('response', (response) => {
    const request = response.request();
    const isDocument = request.isNavigationRequest();
    if (isDocument) documents.add(response.url());
    if (response.status() >= (isDocument ? 500 : 400)) faults.push(`${response.status()} ${response.url()}`);
  });
  context.on('requestfailed', (request) => {
    // A download is no page, and the script gives up a search when somebody types on.
    const reason = request.failure()?.errorText ?? '';
    if (reason !== 'net::ERR_ABORTED') faults.push(`${reason} ${request.url()}`);
  });
  context.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return;
    // The console repeats that a page has the status of a form with faults, a conflict, or a page that is not there.
    const isStatus = /^Failed to load resource: .* status of 4\d\d/.test(message.text());
    if (isStatus && documents.has(message.location().url)) return;
    faults.push(`${message.type()}: ${message.text()} (${message.page()?.url() ?? ''})`);
  });
  context.on('weberror', (error) => faults.push(`exception: ${error.error().message}`));
}

export async function openStage(shared: BrowserContextOptions = {}): Promise<Stage> {
  const faults: string[] = [];
  const service = await startService(registry, { panels });
  let browser: Browser;
  try {
    await addRecords(service);
    browser = await launchChromium();
  } catch (error) {
    await service.close();
    throw error;
  }
  const open: Stage['open'] = async (options) => {
    const context = await browser.newContext({
      baseURL: service.base,
      locale: 'en-GB',
      reducedMotion: 'reduce',
      ...shared,
      ...options,
    });
    context.setDefaultTimeout(PATIENCE_FOR_CONTROLS);
    watch(context, faults);
    return context.newPage();
  };
  return {
    service,
    open,
    enter: async (name = 'admin', options) => {
      const page = await open(options);
      await page.goto('/admin/');
      await logIn(page, name);
      return page;
    },
    close: async () => {
      await browser.close();
      await service.close();
      assert.deepEqual(faults, []);
    },
  };
}

/** Fills in the login form that is shown, and sends it. */
export async function logIn(page: Page, name: string, password = `pw-${name}`): Promise<void> {
  await page.getByLabel('User name').fill(name);
  await page.getByLabel('Password').fill(password);
  await follow(page.getByRole('button', { name: 'Log in' }));
}

const arrivalOf = (page: Page): Promise<Page> => page.waitForEvent('domcontentloaded', { timeout: PATIENCE });

/** Clicks on what leads to another page, and waits until that is there. */
export async function follow(target: Locator): Promise<void> {
  await Promise.all([arrivalOf(target.page()), target.click()]);
}

/** The same with a key. */
export async function press(page: Page, key: string): Promise<void> {
  await Promise.all([arrivalOf(page), page.keyboard.press(key)]);
}

export const link = (page: Page, name: string): Locator => page.getByRole('link', { name, exact: true });
export const button = (page: Page, name: string | RegExp): Locator =>
  page.getByRole('button', { name, exact: true });

/** Whether people see this, as soon as they do. */
export const sees = (target: Locator): Promise<void> => target.first().waitFor({ state: 'visible' });

/** The message about what was done. */
export const told = (page: Page, text: string | RegExp): Promise<void> =>
  sees(page.getByRole('status').filter({ hasText: text }));

/** What a list shows in its first column. */
export const names = async (page: Page): Promise<string[]> =>
  (await page.locator('table.records tbody th[scope=row]').allInnerTexts()).map((text) => text.trim());

/** What stands at the top of the page. */
export const heading = (page: Page): Promise<string> => page.getByRole('heading', { level: 1 }).innerText();
