// The same as axe.browser.ts, without the script of the pages.
import { testPages, VIEWPORTS } from './axe.ts';
import { describe } from 'node:test';

describe('without the script, axe-core finds no violation on', () => {
  // One wide and one narrow viewport suffice, because axe.browser.ts tests most of the markup in all of them.
  const viewports = VIEWPORTS.filter((_, index) => index % 2 === 0);
  // JavaScript stays enabled for axe-core. An empty response replaces the script of the pages.
  testPages(viewports, false, (context) =>
    context.route(/\/script-\w+\.js$/, (route) =>
      route.fulfill({ contentType: 'text/javascript', body: '' }),
    ),
  );
});
