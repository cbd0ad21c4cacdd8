// The help page of the keyboard shortcuts.
import type { Reply } from '../../http/message/message.ts';
import { html } from './html.ts';
import { pageReply } from './layout.ts';
import type { AdminContext } from './admin-context.ts';
import { table } from './widgets.ts';

/** What each key does; `script.js` implements them. */
const KEYS = {
  'On every page': [
    ['Ctrl+K', 'Go to a list or a record'],
    ['?', 'Show this page'],
  ],
  'In a list': [
    ['/', 'Go to the search'],
    ['j', 'Go to the next record'],
    ['k', 'Go to the previous record'],
    ['e', 'Open the record'],
    ['x', 'Select the record, or deselect it'],
    ['n', 'Add a record'],
  ],
  'In the form of a record, also while typing': [
    ['Ctrl+Enter', 'Save, and open the next record if there is one'],
    ['Ctrl+S', 'Save and continue editing'],
  ],
  'On the page of a record that was opened from a list': [
    ['j', 'Open the next record'],
    ['k', 'Open the previous record'],
  ],
  'In a field that searches for a record': [
    ['↓', 'Show matching records, then go to the next one'],
    ['↑', 'Go to the previous one'],
    ['Enter', 'Choose it'],
    ['Esc', 'Close the list and keep the earlier choice'],
  ],
} as const;

export function showKeyboardHelp(context: AdminContext): Reply {
  const body = html`<p>
      Keyboard shortcuts of one key work while you are not typing in a field. Everything they do also works
      without them.
    </p>
    <noscript><p>They need JavaScript, which is turned off in this browser.</p></noscript>
    <p id="keys-choice" hidden>
      <label class="check"
        ><input type="checkbox" id="keys-on" /> Use keyboard shortcuts in this browser</label
      >
    </p>
    ${Object.entries(KEYS).map(([heading, keys]) => {
      const rows = keys.map(([key, text]) => [html`<kbd>${key}</kbd>`, text]);
      return html`<section>
        <h2>${heading}</h2>
        ${table(['Key', 'What it does'], rows, { className: 'keys' })}
      </section>`;
    })}`;
  return pageReply(context, {
    title: 'Keyboard shortcuts',
    crumbs: ['Keyboard shortcuts'],
    kind: 'keys',
    body,
  });
}
