// The same as axe.browser.ts, without the script of the pages.
import { describe } from 'node:test';
import { testPages, VIEWPORTS } from './axe.ts';

describe('without the script, axe-core finds no violation on', () => {
  // One viewport suffices, because the markup is the same in all of them, and axe.browser.ts tests most of it in each.
  const viewports = VIEWPORTS.filter(({ viewport }) => viewport === 'dark, 320 px');
  // JavaScript stays enabled for axe-core. An empty response replaces the script of the pages.
  testPages(viewports, false, (context) =>
    context.route(/\/script-\w+\.js$/, (route) =>
      route.fulfill({ contentType: 'text/javascript', body: '' }),
    ),
  );
});
