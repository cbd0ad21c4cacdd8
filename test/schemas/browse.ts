// Gets every page of every resource, by HTTP and in Chromium.
import type { Browser } from 'playwright-core';
import type { Resource } from '../../src/resources/definition/resource.ts';
import { accepts, mayAdd } from './fill.ts';
import { CREDENTIALS, USER } from './values.ts';

/** Widths of the window, in CSS pixels. */
const WIDE = { width: 1280, height: 800 };
const NARROW = { width: 375, height: 800 };

const firstId = (text: string): string | undefined => {
  const { objects } = JSON.parse(text) as { objects: { id: string | number | null }[] };
  // A record whose key is NULL or an empty text has no address.
  return objects.map(({ id }) => String(id ?? '')).find((id) => id !== '');
};

/** Reads each collection and its first record, as JSON and as a page, and the OpenAPI document. @returns what failed */
export async function read(base: string, resources: readonly Resource[]): Promise<string[]> {
  const faults: string[] = [];
  const get = async (path: string, accept: string): Promise<string | undefined> => {
    const response = await fetch(`${base}${path}`, { headers: { accept } });
    const text = await response.text();
    if (response.status === 200) return text;
    faults.push(`GET ${path} (${accept}) is ${response.status}: ${text.slice(0, 300)}`);
    return undefined;
  };
  await get('/api/openapi.json', 'application/json');
  for (const { model } of resources) {
    const list = `/api/${model}/`;
    const text = await get(list, 'application/json');
    await get(list, 'text/html');
    await get(list, 'text/csv');
    const id = text === undefined ? undefined : firstId(text);
    if (id === undefined) continue;
    for (const accept of ['application/json', 'text/html'])
      await get(`${list}${encodeURIComponent(id)}/`, accept);
  }
  return faults;
}

export interface Browsed {
  readonly pages: number;
  readonly faults: readonly string[];
}

/** Opens the pages of each resource in the API and in the admin area. */
export async function browse(
  chromium: Browser,
  base: string,
  resources: readonly Resource[],
): Promise<Browsed> {
  const context = await chromium.newContext({ viewport: WIDE, extraHTTPHeaders: {} });
  const page = await context.newPage();
  const faults: string[] = [];
  let pages = 0;
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(`${page.url()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`));
  const open = async (path: string): Promise<void> => {
    const response = await page.goto(`${base}${path}`);
    pages += 1;
    if (response?.status() !== 200) faults.push(`${path} is ${response?.status()}`);
    for (const size of [WIDE, NARROW]) {
      await page.setViewportSize(size);
      const overflow = await page.evaluate(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      );
      if (Number(overflow) > 0) faults.push(`${path} is ${String(overflow)} px wider than ${size.width} px`);
    }
  };
  await page.goto(`${base}/admin/-/login/`);
  await page.fill('input[name=username]', USER.name);
  await page.fill('input[name=password]', USER.password);
  await Promise.all([page.waitForURL('**/admin/'), page.press('input[name=password]', 'Enter')]);
  await open('/admin/');
  for (const resource of resources) {
    const { model } = resource;
    await open(`/api/${model}/`);
    await open(`/admin/${model}/`);
    if (mayAdd(resource)) await open(`/admin/${model}/-/add/`);
    const response = await fetch(`${base}/api/${model}/`, { headers: CREDENTIALS });
    const id = response.status === 200 ? firstId(await response.text()) : undefined;
    if (id === undefined) continue;
    const segment = encodeURIComponent(id);
    await open(`/api/${model}/${segment}/`);
    await open(`/admin/${model}/${segment}/`);
    if (accepts(resource, 'DELETE')) await open(`/admin/${model}/${segment}/delete/`);
  }
  await context.close();
  return { pages, faults };
}
