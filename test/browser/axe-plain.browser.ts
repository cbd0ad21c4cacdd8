// The same as axe.browser.ts, for the pages as they are where no script runs.
import { describe } from 'node:test';
import { LOOKS, testPlaces } from './axe.ts';

describe('without the script, axe-core finds nothing on', () => {
  // What the script does not change was looked at with it already, so that one wide look and one narrow one will do.
  const looks = LOOKS.filter((_, index) => index % 2 === 0);
  // Script cannot be switched off, since axe-core is one; so ours answers with nothing.
  testPlaces(looks, false, (context) =>
    context.route(/\/script-\w+\.js$/, (route) =>
      route.fulfill({ contentType: 'text/javascript', body: '' }),
    ),
  );
});
