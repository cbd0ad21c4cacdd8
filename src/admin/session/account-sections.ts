// Parts of the account page and of the page about a user's access: sessions, tokens, and a secret that is shown once.
import type { Sessions } from '../../resources/users/sessions.ts';
import type { Tokens } from '../../resources/users/tokens.ts';
import { moment } from '../web/display-text.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { buttonForm } from '../web/layout.ts';
import { table } from '../web/widgets.ts';

/** @param more the button that ends sessions, or why there is none */
export const sessionSection = (
  title: string,
  list: Awaited<ReturnType<Sessions['list']>>,
  more: Html,
): Html =>
  html`<section>
    <h2>${title}</h2>
    ${
      list.length > 0 &&
      table(
        ['Browser', 'Address', 'Since', 'Last used'],
        list.map(({ agent, address, created, seen, isCurrent }) => [
          html`${agent || 'unknown'}${isCurrent && html` <span class="badge">this session</span>`}`,
          address,
          moment(created),
          moment(seen),
        ]),
      )
    }
    ${more}
  </section>`;

/** @param action where the buttons that revoke a token send its id */
export const tokenSection = (
  title: string,
  list: Awaited<ReturnType<Tokens['list']>>,
  action: string,
  csrf: string,
  more?: Content,
): Html =>
  html`<section>
    <h2>${title}</h2>
    ${
      list.length === 0
        ? html`<p class="hint">There are no tokens.</p>`
        : table(
            ['Token', 'Resources', 'Methods', 'Expires', 'Last used', 'Revoke'],
            list.map(({ id, label, scope, expires, used, isValid }) => [
              html`${label || `Token ${id}`}${!isValid && html` <span class="badge">not valid</span>`}`,
              scope.models?.join(', ') ?? 'all',
              scope.methods?.join(', ') ?? 'all',
              expires === null ? 'never' : moment(expires),
              used === null ? 'never' : moment(used),
              buttonForm(action, csrf, html`Revoke <span class="hidden">${label || id}</span>`, 'secondary', [
                '_revoke',
                id,
              ]),
            ]),
          )
    }
    ${more}
  </section>`;

/** A secret to copy, on the only page that shows it. */
export const shownOnce = (label: string, secret: string): Html =>
  html`<div class="field">
    <label for="secret">${label}</label>
    <input id="secret" value="${secret}" readonly autocomplete="off" spellcheck="false" />
  </div>`;
