// The other pages of axe.browser.ts.
import { SECOND_HALF, testPages, VIEWPORTS } from './axe.ts';
import { describe } from 'node:test';

describe('with the script, axe-core finds no violation on', () => {
  testPages(VIEWPORTS, true, undefined, SECOND_HALF);
});
