// The other pages of axe.browser.ts.
import { describe } from 'node:test';
import { SECOND_HALF, testPages, VIEWPORTS } from './axe.ts';

describe('with the script, axe-core finds no violation on', () => {
  testPages(VIEWPORTS, true, undefined, SECOND_HALF);
});
