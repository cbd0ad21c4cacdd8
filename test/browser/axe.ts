import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import type { BrowserContext, Page } from 'playwright-core';
import { makeHistory, PLACES } from './pages.ts';
import { openStage, type Stage } from './stage.ts';

/** Dark and light, wide, and as narrow as a phone or as 1280 px at 400 %. */
export const LOOKS = [
  { look: 'light, 1280 px', colorScheme: 'light', width: 1280, height: 720 },
  { look: 'dark, 1280 px', colorScheme: 'dark', width: 1280, height: 720 },
  { look: 'dark, 320 px', colorScheme: 'dark', width: 320, height: 256 },
  { look: 'light, 320 px', colorScheme: 'light', width: 320, height: 256 },
] as const;

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const source = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary?: string }[];
}

/** What axe-core finds wrong with a page as it is shown now, each fault on a line. */
export async function violationsOf(page: Page): Promise<string[]> {
  // As the developer tools would: the page's own policy lets no foreign script in.
  await page.evaluate(`typeof axe === 'undefined' && (() => { ${source} })()`);
  const options = JSON.stringify({ runOnly: TAGS, resultTypes: ['violations'] });
  const { violations } = await page.evaluate<{ violations: Violation[] }>(`axe.run(document, ${options})`);
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary = '' }) => `${id} (${help}): ${target.join(' ')}: ${failureSummary}`),
  );
}

/** How much wider than the window the page is, in pixels. */
export const overflowOf = (page: Page): Promise<number> =>
  page.evaluate<number>(
    '((root) => Math.max(0, root.scrollWidth - root.clientWidth))(document.scrollingElement)',
  );

/**
 * Tests that there is nothing to be found on any page.
 * @param prepare what is to be done with the browser before it goes there
 */
export function testPlaces(
  looks: readonly (typeof LOOKS)[number][],
  isScripted: boolean,
  prepare: (context: BrowserContext) => Promise<unknown>,
): void {
  let stage: Stage;
  let context: BrowserContext;
  before(async () => {
    stage = await openStage();
    const page = await stage.enter();
    context = page.context();
    await prepare(context);
    await makeHistory(page);
  });
  after(() => stage.close());

  for (const { name, open, onlyWith } of PLACES) {
    if (onlyWith !== undefined && onlyWith !== (isScripted ? 'script' : 'no script')) continue;
    test(name, async () => {
      const tab = await context.newPage();
      const page = (await open(tab, stage)) ?? tab;
      const found: string[] = [];
      for (const { look, colorScheme, width, height } of looks) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height });
        found.push(...(await violationsOf(page)).map((violation) => `${look}: ${violation}`));
        const overflow = await overflowOf(page);
        if (overflow > 0) found.push(`${look}: the page is ${overflow} px wider than the window`);
      }
      await Promise.all([page.close(), tab.close()]);
      assert.deepEqual(found, []);
    });
  }
}
