import type { Reply } from '../../http/message/message.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import { apiLinks } from './api-links.ts';
import { API_STYLE_PATH } from '../web/assets.ts';
import { html, type Content } from '../web/html.ts';
import { crumbList, headingOf, SAFE_HEADERS, shell, type Crumb } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';

/** The content of one HTML page of the API. */
export interface ApiPage {
  readonly title: string;
  /** Breadcrumbs below the list of resources; absent on that list itself. */
  readonly crumbs?: readonly Crumb[];
  readonly caller?: Caller | undefined;
  readonly hasAdmin: boolean;
  readonly status?: number;
  readonly body: Content;
}

/** Responds with a page of the API, in the layout of the admin area but without its script. */
export function apiPageReply(
  { title, crumbs, caller, hasAdmin, status = 200, body }: ApiPage,
  headers: Readonly<Record<string, string>> = {},
): Reply {
  const hasAccount = caller !== undefined || hasAdmin;
  const top = html`<header class="top">
      <a class="brand" href="${apiLinks.index}">API</a>
      ${
        hasAccount &&
        html`<nav class="who" aria-label="Account">
          ${caller && html`<span>${caller.name}</span>`}
          ${hasAdmin && html`<a href="${links.dashboard}">Admin area</a>`}
        </nav>`
      }
    </header>
    ${crumbs && crumbList(crumbs, { text: 'API', href: apiLinks.index })}`;
  const main = html`${headingOf(title)} ${body}`;
  return {
    status,
    headers: { 'Content-Type': 'text/html; charset=utf-8', ...SAFE_HEADERS, ...headers },
    body: shell({
      title: title === 'API' ? title : `${title} · API`,
      kind: 'api',
      style: API_STYLE_PATH,
      top,
      main,
    }).toString(),
  };
}
