// What axe-core finds on every page: nothing, in light and dark, wide and narrow.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { LOOKS, overflowOf, testPlaces, violationsOf } from './axe.ts';
import { openStage, type Stage } from './stage.ts';

describe('with the script, axe-core finds nothing on', () => {
  testPlaces(LOOKS, true, () => Promise.resolve());
});

describe('axe-core', () => {
  let stage: Stage;
  before(async () => {
    stage = await openStage();
  });
  after(() => stage.close());

  test('finds what is wrong with a page that is not as ours are', async () => {
    const page = await stage.open();
    const tiny = '<button style="width: 8px; height: 8px; padding: 0" aria-label="x"></button>';
    const text = '<p style="color: #ccc; width: 3000px">Faint and wide</p>';
    await page.setContent(`<title>x</title>${text}<input>${tiny}${tiny}`);
    const ids = (await violationsOf(page)).map((violation) => violation.split(' ', 1)[0]);
    const wanted = ['color-contrast', 'html-has-lang', 'label', 'landmark-one-main', 'page-has-heading-one', 'target-size']; // prettier-ignore
    for (const id of wanted) assert.ok(ids.includes(id), `${id} is not among ${ids.join()}`);
    assert.ok((await overflowOf(page)) > 1000);
  });
});
