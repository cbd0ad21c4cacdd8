// Accessibility: axe-core finds no violation on any page, in light and dark, wide and narrow.
import assert from 'node:assert/strict';
import { FIRST_HALF, overflowOf, testPages, VIEWPORTS, violationsOf } from './axe.ts';
import { openSite } from './support.ts';
import { describe, test } from 'node:test';
import { useStarted } from '../support.ts';

describe('with the script, axe-core finds no violation on', () => {
  testPages(VIEWPORTS, true, undefined, FIRST_HALF);
});

describe('axe-core', () => {
  const site = useStarted(openSite);

  test('finds the violations of a page that has some', async () => {
    const page = await site.open();
    const tiny = '<button style="width: 8px; height: 8px; padding: 0" aria-label="x"></button>';
    const text = '<p style="color: #ccc; width: 3000px">Faint and wide</p>';
    await page.setContent(`<title>x</title>${text}<input>${tiny}${tiny}`);
    const ids = (await violationsOf(page)).map((violation) => violation.split(' ', 1)[0]);
    const expected = ['color-contrast', 'html-has-lang', 'label', 'landmark-one-main', 'page-has-heading-one', 'target-size']; // prettier-ignore
    for (const id of expected) assert.ok(ids.includes(id), `${id} is not among ${ids.join()}`);
    const colors = await violationsOf(page, true);
    assert.ok(colors.length > 0 && colors.every((violation) => violation.startsWith('color-contrast ')));
    assert.ok((await overflowOf(page)) > 1000);
  });
});
