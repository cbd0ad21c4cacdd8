// A person in the browser, and what a job takes them.
//
// The rule of counting is the same for every job:
// - One click is a click or a tap on a link, a button, a checkbox or a line of a list; a click into a field; a choice in a select or of
//   a file; Enter that submits or chooses; Tab or a shortcut in place of a click. A shortcut with Ctrl is one.
// - Typing costs nothing beyond the click that gets into the field. A field that has the focus already costs none.
// - Reading and scrolling cost nothing.
// - One page is a document that the browser loads after the one where the job begins. Redirects and downloads are none.
// In the job by keyboard alone each key is counted as a click is, except those of the text.
import type { Download, Locator, Page } from 'playwright-core';

/** Milliseconds for a page to load. */
const PAGE_TIMEOUT = 20_000;

const hasFocus = (target: Locator): Promise<boolean> => target.evaluate((field) => field.matches(':focus'));

export class Person {
  readonly page: Page;
  /** What was done: one line for each click, tap or key. */
  readonly steps: string[] = [];
  /** The addresses of the pages, without their origin. */
  readonly pages: string[] = [];
  readonly #isTouching: boolean;

  /** @param page where the job begins */
  constructor(page: Page, isTouching = false) {
    this.page = page;
    this.#isTouching = isTouching;
    page.on('domcontentloaded', () => {
      const { pathname, search } = new URL(page.url());
      this.pages.push(pathname + search);
    });
  }

  #note(text: string): void {
    this.steps.push(text);
  }

  /** Does something, and waits for the page that it leads to. */
  async #load(work: () => Promise<unknown>): Promise<void> {
    const loaded = this.page.waitForEvent('domcontentloaded', { timeout: PAGE_TIMEOUT });
    await Promise.all([loaded, work()]);
  }

  readonly #touch = (target: Locator): Promise<void> => (this.#isTouching ? target.tap() : target.click());

  /** Clicks or taps on something that is on this page. */
  async click(what: string, target: Locator): Promise<void> {
    this.#note(what);
    await this.#touch(target);
  }

  /** Clicks or taps on what leads to another page. */
  async follow(what: string, target: Locator): Promise<void> {
    this.#note(what);
    await this.#load(() => this.#touch(target));
  }

  async download(what: string, target: Locator): Promise<Download> {
    this.#note(what);
    const [file] = await Promise.all([this.page.waitForEvent('download'), this.#touch(target)]);
    return file;
  }

  /** Chooses in a select, by what it shows. */
  async choose(what: string, target: Locator, label: string): Promise<void> {
    this.#note(`${what}: ${label}`);
    await target.selectOption({ label });
  }

  async chooseFile(
    what: string,
    target: Locator,
    file: Parameters<Locator['setInputFiles']>[0],
  ): Promise<void> {
    this.#note(what);
    await target.setInputFiles(file);
  }

  /** Gets into a field, unless it has the focus, and types. What was in it is replaced. */
  async type(what: string, target: Locator, text: string): Promise<void> {
    if (!(await hasFocus(target))) await this.click(what, target);
    await target.fill(text);
  }

  /** Gets to the next field with Tab, and types. @throws Error if Tab leads elsewhere */
  async tabAndType(what: string, target: Locator, text: string): Promise<void> {
    this.#note(`Tab: ${what}`);
    await this.page.keyboard.press('Tab');
    if (!(await hasFocus(target))) throw new Error(`Tab does not lead to ${what}.`);
    await target.fill(text);
  }

  /** Presses a key that leads to no other page. */
  async press(key: string, why: string): Promise<void> {
    this.#note(`${key}: ${why}`);
    await this.page.keyboard.press(key);
  }

  /** Presses a key that leads to another page. */
  async pressAndLoad(key: string, why: string): Promise<void> {
    this.#note(`${key}: ${why}`);
    await this.#load(() => this.page.keyboard.press(key));
  }

  /** Types into the field that has the focus. */
  async write(text: string): Promise<void> {
    await this.page.keyboard.type(text);
  }
}
