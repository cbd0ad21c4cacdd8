// The API as HTML pages: the index of resources, a collection, a record, and errors.
import { STATUS_CODES } from 'node:http';
import { hasSeveralColumns } from '../../db/schema/composite-key.ts';
import { namedColumns } from '../../db/schema/model.ts';
import type { ApiRequest, Reply } from '../../http/message/message.ts';
import type { ApiPages } from '../../http/api/api-reads.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import { keyOfSegment } from '../../http/message/key-segment.ts';
import { pageLinks } from '../../http/api/page-links.ts';
import { OPENAPI_PATH } from '../../http/api/api-routes.ts';
import { MAX_HTML } from '../../resources/records/api-listing.ts';
import type { ResourceView, ResourceViews } from '../../resources/access/resource-view.ts';
import { isLinked, collectionJsonHtml, indexJsonHtml, recordJsonHtml } from './api-json.ts';
import type { Caller } from '../../resources/access/access.ts';
import { apiLinks, curlCommand } from './api-links.ts';
import { API_STYLE_PATH, apiAsset, isAsset } from '../web/assets.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { links } from '../web/admin-links.ts';
import { crumbList, headingOf, SAFE_HEADERS, shell, type Crumb } from '../web/layout.ts';
import { sentence, table } from '../web/widgets.ts';

/** What an HTML page of the API shows besides its title. */
interface ApiPage {
  readonly body: Content;
  /** Breadcrumbs below the list of resources; absent on that list itself. */
  readonly crumbs?: readonly Crumb[];
  readonly caller?: Caller | undefined;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The JSON of a request, and the command that returns it. */
const jsonAndCommand = (json: Html, request: ApiRequest, caller?: Caller): Html =>
  html`<pre class="json"><code>${json}</code></pre>
    <pre><code>${curlCommand(request, caller)}</code></pre>`;

/** The columns and operators of filters. A foreign key leads to the columns that may follow it after `__`. */
function filterTable({ model, output, all }: ResourceView): Html {
  const rows = namedColumns(model, output).map(({ name, type, references }) => {
    const related = references && all.get(references.name);
    return [
      html`<code>${name}</code>`,
      [...type.operators].join(', '),
      related &&
        isLinked(related) &&
        html`<a href="${apiLinks.collection(related.name)}">${related.name}</a>`,
    ];
  });
  return html`<section>
    <h2>Filters</h2>
    ${table(['Column', 'Operators', 'Refers to'], rows, { caption: 'Filters' })}
  </section>`;
}

/** The pages of the API. Callers check access and read the records; these functions only format them. */
export function createApiPages(resources: ResourceViews, hasAdmin: boolean): ApiPages {
  /** Responds with a page in the layout of the admin area, but without its script. */
  function pageOf(title: string, { body, crumbs, caller, status = 200, headers }: ApiPage): Reply {
    const account = html`<nav class="who" aria-label="Account">
      ${caller && html`<span>${caller.name}</span>`}
      ${hasAdmin && html`<a href="${links.dashboard}">Admin area</a>`}
    </nav>`;
    const top = html`<header class="top">
        <a class="brand" href="${apiLinks.index}">API</a> ${(caller || hasAdmin) && account}
      </header>
      ${crumbs && crumbList(crumbs, { text: 'API', href: apiLinks.index })}`;
    const document = shell({
      title: title === 'API' ? title : `${title} · API`,
      kind: 'api',
      style: withBasePath(API_STYLE_PATH),
      top,
      main: html`${headingOf(title)} ${body}`,
    });
    return {
      status,
      headers: { 'Content-Type': 'text/html; charset=utf-8', ...SAFE_HEADERS, ...headers },
      body: document.toString(),
    };
  }

  return {
    asset: apiAsset,
    isAsset: (path) => path === API_STYLE_PATH || (hasAdmin && isAsset(path)),

    home() {
      const body = html`<ul>
        <li><a href="${apiLinks.index}">The API</a>, with a page for each resource</li>
        <li><a href="${withBasePath(OPENAPI_PATH)}">The OpenAPI document</a></li>
        ${hasAdmin && html`<li><a href="${links.dashboard}">The admin area</a></li>`}
      </ul>`;
      return pageOf('Home', { body });
    },

    index(request, json) {
      const body = html`<p class="lead">
          The resources that this service serves as JSON. There is also an
          <a href="${withBasePath(OPENAPI_PATH)}">OpenAPI document</a>.
        </p>
        ${jsonAndCommand(indexJsonHtml(json, resources), request)}`;
      return pageOf('API', { body });
    },

    async collection(request, resource, page) {
      const { caller } = request;
      const json = await collectionJsonHtml(page, pageLinks(resource, page), resource);
      const body = html`${jsonAndCommand(json, request, caller)} ${filterTable(resource)}`;
      return pageOf(resource.name, { body, crumbs: [{ text: resource.name }], caller });
    },

    async record(request, resource, record) {
      const { caller } = request;
      const { name, model } = resource;
      const segment = request.path.replace(/\/$/, '').split('/').at(-1) ?? '';
      const id = keyOfSegment(segment, hasSeveralColumns(model.primaryKey)) ?? segment;
      const json =
        record.length > MAX_HTML
          ? html`This record is too long for a page.`
          : await recordJsonHtml(record.toString(), resource);
      const crumbs = [{ text: name, href: apiLinks.collection(name) }, { text: id }];
      return pageOf(`${name} ${id}`, { body: jsonAndCommand(json, request, caller), crumbs, caller });
    },

    problem({ status, message, headers, errors = {} }, requestId) {
      const title = `${status} ${STATUS_CODES[status] ?? 'Error'}`;
      const faults = Object.entries(errors).map(
        ([name, messages]) =>
          html`<li><code>${name}</code>: <span class="error">${sentence(messages.join('; '))}</span></li>`,
      );
      const body = html`<p class="lead">${message}</p>
        ${
          faults.length > 0 &&
          html`<ul>
            ${faults}
          </ul>`
        }
        ${status === 500 && html`<p>See the log for details: request <code>${requestId}</code>.</p>`}
        <p><a href="${apiLinks.index}">Go to the list of resources</a></p>`;
      return pageOf(title, { body, crumbs: [{ text: title }], status, headers });
    },
  };
}
