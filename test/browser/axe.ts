import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { BrowserContext, Page } from 'playwright-core';
import { ADMIN_PAGES, makeHistory } from './admin-pages.ts';
import { openSite, type Site } from './support.ts';
import { test } from 'node:test';
import { useStarted } from '../support.ts';

/**
 * Color schemes and sizes: 320 px is a phone, or 1280 px at a zoom of 400 %. The other color scheme of a size changes only
 * colors.
 */
export const VIEWPORTS = [
  { viewport: 'light, 1280 px', colorScheme: 'light', width: 1280, height: 720, isSameLayout: false },
  { viewport: 'dark, 1280 px', colorScheme: 'dark', width: 1280, height: 720, isSameLayout: true },
  { viewport: 'dark, 320 px', colorScheme: 'dark', width: 320, height: 256, isSameLayout: false },
  { viewport: 'light, 320 px', colorScheme: 'light', width: 320, height: 256, isSameLayout: true },
] as const;

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const source = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly {
    readonly target: readonly string[];
    readonly failureSummary?: string;
    readonly any: readonly { readonly data?: { readonly messageKey?: string } }[];
  }[];
}

interface Results {
  readonly violations: readonly Violation[];
  readonly incomplete: readonly Violation[];
}

/**
 * Runs axe-core on the current page.
 * @param colorsOnly checks only the contrast of colors
 * @returns one line for each violation
 */
export async function violationsOf(page: Page, colorsOnly = false): Promise<string[]> {
  // `evaluate` is exempt from the content security policy of the page.
  // Chromium parses the half megabyte even where it need not run.
  if (!(await page.evaluate(`typeof axe !== 'undefined'`))) await page.evaluate(source);
  const runOnly = colorsOnly ? ['color-contrast'] : TAGS;
  const options = JSON.stringify({ runOnly, resultTypes: ['violations', 'incomplete'] });
  const { violations, incomplete } = await page.evaluate<Results>(`axe.run(document, ${options})`);
  // Text in the color of its background may be hidden on purpose, so axe-core leaves it to people.
  const invisible = incomplete.map(({ nodes, ...rest }) => ({
    ...rest,
    nodes: nodes.filter(({ any }) => any.some(({ data }) => data?.messageKey === 'equalRatio')),
  }));
  return [...violations, ...invisible].flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary = '' }) => `${id} (${help}): ${target.join(' ')}: ${failureSummary}`),
  );
}

/** Half of the pages, for one of two files that run beside each other. */
export const FIRST_HALF = ADMIN_PAGES.slice(0, ADMIN_PAGES.length / 2);
export const SECOND_HALF = ADMIN_PAGES.slice(FIRST_HALF.length);

/** The width of the page beyond the window (pixels). */
export const overflowOf = (page: Page): Promise<number> =>
  page.evaluate<number>(
    '((root) => Math.max(0, root.scrollWidth - root.clientWidth))(document.scrollingElement)',
  );

/**
 * Defines a test for each page: axe-core finds no violation, and the page is not wider than the window.
 * @param prepare runs once, before the pages are opened
 * @param pages which pages
 */
export function testPages(
  viewports: readonly (typeof VIEWPORTS)[number][],
  isScripted: boolean,
  prepare: (context: BrowserContext) => Promise<unknown> = () => Promise.resolve(),
  pages = ADMIN_PAGES,
): void {
  let context: BrowserContext;
  const site: Site = useStarted(openSite, async () => {
    const page = await site.openAs();
    context = page.context();
    await prepare(context);
    await makeHistory(page);
  });

  for (const { name, open, onlyWith } of pages) {
    if (onlyWith !== undefined && onlyWith !== (isScripted ? 'script' : 'no script')) continue;
    test(name, async () => {
      const tab = await context.newPage();
      const page = (await open(tab, site)) ?? tab;
      const found: string[] = [];
      for (const { viewport, colorScheme, width, height, isSameLayout } of viewports) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height });
        found.push(
          ...(await violationsOf(page, isSameLayout)).map((violation) => `${viewport}: ${violation}`),
        );
        const overflow = await overflowOf(page);
        if (overflow > 0) found.push(`${viewport}: the page is ${overflow} px wider than the window`);
      }
      await Promise.all([page.close(), tab.close()]);
      assert.deepEqual(found, []);
    });
  }
}
