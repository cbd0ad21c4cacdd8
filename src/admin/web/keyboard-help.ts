import type { Reply } from '../../http/message/message.ts';
import { html, type Html } from './html.ts';
import { pageReply } from './layout.ts';
import type { AdminRequest } from './admin-request.ts';

/** Each key with what it does; the script has the doing. */
const KEYS = {
  'On every page': [['?', 'Show this page']],
  'In a list': [
    ['/', 'Go to the search'],
    ['j', 'Go to the next record'],
    ['k', 'Go to the record before'],
    ['e', 'Open the record'],
    ['x', 'Choose the record, or not any more'],
    ['n', 'Add a record'],
  ],
  'In a field that looks for a record': [
    ['↓', 'Show what fits, and go to the next one'],
    ['↑', 'Go to the one before'],
    ['Enter', 'Take it'],
    ['Esc', 'Close the list, and keep what was chosen'],
  ],
} as const;

const table = (heading: string, keys: readonly (readonly [key: string, text: string])[]): Html =>
  html`<section>
    <h2>${heading}</h2>
    <table class="keys">
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">What it does</th>
        </tr>
      </thead>
      <tbody>
        ${keys.map(
          ([key, text]) =>
            html`<tr>
              <th scope="row"><kbd>${key}</kbd></th>
              <td>${text}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`;

/** What the keyboard does, where the script runs. */
export function showKeys(adminRequest: AdminRequest): Reply {
  const body = html`<p>
      Single keys work while no field is being typed in. Everything that they do can be done without them.
    </p>
    <noscript><p>They need JavaScript, which is switched off in this browser.</p></noscript>
    <p id="keys-choice" hidden>
      <label class="check"><input type="checkbox" id="keys-on" /> Use single keys in this browser</label>
    </p>
    ${Object.entries(KEYS).map(([heading, keys]) => table(heading, keys))}`;
  return pageReply(adminRequest, { title: 'Keyboard', crumbs: [{ text: 'Keyboard' }], kind: 'keys', body });
}
