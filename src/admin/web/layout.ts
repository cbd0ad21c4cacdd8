// The document around every page: head, header, breadcrumbs, flash message, security headers.
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { Named } from '../../resources/records/look-up.ts';
import type { Reply } from '../../http/message/message.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import { scriptPath, STYLE_PATH } from './assets.ts';
import { setCookie } from './cookies.ts';
import { attributes, html, rawHtml, type Content, type Html } from './html.ts';
import { listGroups, listMenu } from './list-menu.ts';
import { links, type Link } from './admin-links.ts';
import { shortened } from './display-text.ts';
import { t } from './language.ts';
import { brand, language } from './presentation.ts';
import type { AdminContext } from './admin-context.ts';

/** Allows only the service's own script and stylesheet, and no embedding in frames. @param images further hosts of images */
const policyFor = (images: readonly string[]): string =>
  `default-src 'none'; style-src 'self'; img-src ${["'self'", 'data:', ...images].join(' ')}; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`;

export const SAFE_HEADERS = {
  'Content-Security-Policy': policyFor([]),
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
} as const;

/** A breadcrumb; the last one is the page itself and has no link. */
export type Crumb = Link | string;

/** The breadcrumb of a list. @param list the query of the list that the user came from */
export const listCrumb = ({ name, title }: AdminView, list?: string): Link => ({
  text: title,
  href: links.back(name, list),
});

/** The breadcrumb of a record. */
export const recordCrumb = ({ name }: AdminView, { id, label }: Named, list?: string): Link => ({
  text: shortened(label, 40),
  href: links.from(list, links.record(name, id)),
});

export interface AdminPage {
  readonly title: string;
  readonly crumbs?: readonly Crumb[];
  /** Content beside the title: the state of a record. */
  readonly badges?: Content;
  /** Buttons and links beside the heading. */
  readonly actions?: Content;
  /** What is below the heading. */
  readonly below?: Content;
  readonly body: Content;
  readonly status?: number;
  /** Sets the CSS class of the body: `login`, `list`, `form`. */
  readonly kind?: string;
}

export const crumbList = (
  crumbs: readonly Crumb[],
  start: Link = { text: t('start'), href: links.dashboard },
): Html =>
  html`<nav class="crumbs" aria-label="${t('breadcrumb')}">
    <ol>
      <li><a href="${start.href}">${start.text}</a></li>
      ${crumbs.map((crumb) =>
        typeof crumb === 'string'
          ? html`<li aria-current="page">${crumb}</li>`
          : html`<li><a href="${crumb.href}">${crumb.text}</a></li>`,
      )}
    </ol>
  </nav>`;

/** A form that consists of one button. @param field what the button sends */
export const buttonForm = (
  action: string,
  csrf: string,
  label: Content,
  className = 'plain',
  [name, value]: readonly [name?: string, value?: string] = [],
): Html =>
  html`<form method="post" action="${action}">
    <input type="hidden" name="_csrf" value="${csrf}" /><button
      class="${className}"
      ${attributes({ name, value })}
    >
      ${label}
    </button>
  </form>`;

/** The search field of all pages. Not of type `search`, which is that of the list. */
function goForm({ request }: AdminContext): Html {
  const address = links.page('go');
  const isHere = withBasePath(request.path).replace(/\/?$/, '/') === address;
  const words = isHere ? new URLSearchParams(request.query).get('q') : '';
  return html`<form class="go" role="search" aria-label="${t('goTo')}" action="${address}">
    <label for="go" class="hidden">${t('goTo')}</label>
    <input
      id="go"
      name="q"
      value="${words}"
      placeholder="${t('goToMore')}"
      autocomplete="off"
      enterkeyhint="go"
    />
  </form>`;
}

/** The title of the admin area, after its logo. */
function brandName(): Content {
  const { title = t('admin'), logo } = brand();
  return html`${logo && html`<img src="${withBasePath(logo.path)}" alt="" /> `}${title}`;
}

/** The band that names the environment. */
function ribbonOf(): Html | false {
  const { ribbon } = brand();
  const { text = ribbon, tone = 'warning' } = typeof ribbon === 'object' ? ribbon : {};
  return typeof text === 'string' && html`<p class="ribbon tone-${tone}">${text}</p>`;
}

const header = (context: AdminContext): Html =>
  html`<header class="top">
    ${ribbonOf()}
    <a class="brand" href="${links.dashboard}">${brandName()}</a>
    ${listMenu(context)} ${goForm(context)}
    <nav class="who" aria-label="${t('account')}">
      <a href="${links.page('keys')}">${t('keyboard')}</a>
      <a href="${links.page('account')}">${context.caller.name}</a>
      ${buttonForm(links.page('logout'), context.csrf, t('logOut'))}
    </nav>
  </header>`;

const DOCTYPE = rawHtml('<!doctype html>\n');

/** The parts of a document. */
interface Shell {
  readonly title: string;
  readonly kind?: string | undefined;
  /** Addresses of the stylesheets and the script. */
  readonly styles: readonly string[];
  readonly script?: string;
  /** Content above the main part. */
  readonly top?: Content;
  readonly main: Content;
}

export const shell = ({ title, kind, styles, script, top, main }: Shell): Html =>
  html`${DOCTYPE}<html lang="${language().tag}">
<head>
<meta charset="utf-8" />
<title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<link rel="icon" href="data:," />
${styles.map((style) => html`<link rel="stylesheet" href="${style}" />`)}
${script !== undefined && html`<script src="${script}" defer></script>`}
</head>
<body${attributes({ class: kind && `page-${kind}` })}>
<a class="skip" href="#main">${t('skip')}</a>
${top}
<main id="main" tabindex="-1">
${main}
</main>
</body>
</html>
`;

/** The heading of a page, with its badges and actions beside it, and what is below it. */
export const headingOf = (title: string, actions?: Content, badges?: Content, below?: Content): Html =>
  html`<div class="heading">
    <div>
      <h1>${title}</h1>
      ${below}
    </div>
    ${badges && html`<p>${badges}</p>`} ${actions && html`<div class="actions">${actions}</div>`}
  </div>`;

/** The title of a page in the browser's tabs and history: it names the list too, unless the heading does. */
function tabTitle({ title, crumbs = [] }: AdminPage): string {
  const [first] = crumbs;
  const isNamed = typeof first !== 'object' || title.includes(first.text);
  return `${title}${isNamed ? '' : ` · ${first.text}`} · ${brand().title ?? t('admin')}`;
}

/** A page as a response; without an admin request it has no header. Showing the flash message deletes its cookie. */
export function pageReply(
  context: AdminContext | undefined,
  page: AdminPage,
  headers: Readonly<Record<string, string | readonly string[]>> = {},
): Reply {
  const { title, crumbs, badges, actions, below, body, kind, status = 200 } = page;
  const { style, images } = brand();
  const flash = context?.flash;
  const top =
    context &&
    html`${header(context)} ${kind !== 'dashboard' && listGroups(context)} ${crumbs && crumbList(crumbs)}
    ${flash && html`<p class="flash ${flash.kind}" role="status">${flash.text} ${flash.href !== undefined && html`<a href="${flash.href}">${t('viewRecord')}</a>`} ${flash.undo !== undefined && html`<a href="${flash.undo}">${t('undo')}</a>`}</p>`}`;
  const main = html`${
    !context &&
    html`${ribbonOf()}
      <p class="brand">${brandName()}</p>`
  }
  ${headingOf(title, actions, badges, below)} ${body}`;
  const document = shell({
    title: tabTitle(page),
    kind,
    styles: [STYLE_PATH, ...(style ? [style.path] : [])].map(withBasePath),
    script: withBasePath(scriptPath()),
    top,
    main,
  });
  return {
    status,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      ...SAFE_HEADERS,
      'Content-Security-Policy': policyFor(context ? images : []),
      ...(flash && { 'Set-Cookie': setCookie(context.request, 'flash', '', 0) }),
      ...headers,
    },
    body: document.toString(),
  };
}
