// The help page of the keyboard shortcuts.
import type { Reply } from '../../http/message/message.ts';
import { html } from './html.ts';
import { t, type PlainCode } from './language.ts';
import { pageReply } from './layout.ts';
import type { AdminContext } from './admin-context.ts';
import { table } from './widgets.ts';

/** What each key does, by where; `script.js` implements them. */
const KEYS: readonly { readonly where: PlainCode; readonly keys: Readonly<Record<string, PlainCode>> }[] = [
  { where: 'onEveryPage', keys: { 'Ctrl+K': 'goToListOrRecord', '?': 'showThisPage' } },
  {
    where: 'inList',
    keys: {
      '/': 'goToSearch',
      j: 'goToNextRecord',
      k: 'goToPreviousRecord',
      e: 'openRecord',
      x: 'selectRecord',
      n: 'addRecord',
    },
  },
  { where: 'inForm', keys: { 'Ctrl+Enter': 'saveAndOpenNext', 'Ctrl+S': 'saveAndStay' } },
  { where: 'onRecordOfList', keys: { j: 'openNextRecord', k: 'openPreviousRecord' } },
  {
    where: 'inSearchField',
    keys: { '↓': 'showMatching', '↑': 'goToPreviousOne', Enter: 'chooseIt', Esc: 'closeList' },
  },
];

export function showKeyboardHelp(context: AdminContext): Reply {
  const body = html`<p>${t('keysIntroduction')}</p>
    <noscript><p>${t('keysNeedScript')}</p></noscript>
    <p id="keys-choice" hidden>
      <label class="check"><input type="checkbox" id="keys-on" /> ${t('useKeys')}</label>
    </p>
    ${KEYS.map(({ where, keys }) => {
      const rows = Object.entries(keys).map(([key, text]) => [html`<kbd>${key}</kbd>`, t(text)]);
      return html`<section>
        <h2>${t(where)}</h2>
        ${table([t('key'), t('whatItDoes')], rows, { className: 'keys' })}
      </section>`;
    })}`;
  return pageReply(context, {
    title: t('keyboardShortcuts'),
    crumbs: [t('keyboardShortcuts')],
    kind: 'keys',
    body,
  });
}
