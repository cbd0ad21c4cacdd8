// The API as HTML pages: the index of resources, a collection, a record, and errors.
import { STATUS_CODES } from 'node:http';
import { hasSeveralColumns } from '../../db/schema/composite-key.ts';
import { excerpt, type Problem } from '../../errors.ts';
import type { ApiRequest, Reply } from '../../http/message/message.ts';
import { MEDIA_TYPES } from '../../http/api/negotiation.ts';
import type { ApiPages } from '../../http/api/api-pages.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import { keyOfSegment } from '../../http/message/key-segment.ts';
import { pageLinks, type PageLinks } from '../../http/api/page-links.ts';
import { OPENAPI_PATH } from '../../http/api/api-routes.ts';
import { firstParameters, parseParameters } from '../../query/parse/grammar.ts';
import type { RecordPage } from '../../resources/records/api-listing.ts';
import {
  meets,
  type Caller,
  type ServedResource,
  type ServedResources,
} from '../../resources/serve/served-resource.ts';
import { columnTable, accessSummary } from './api-columns.ts';
import { apiFilterPanel, filteredAddress, MAX_CHIPS, pageParameters, parameterChips } from './api-filter.ts';
import { collectionJson, recordJsonHtml } from './api-json.ts';
import { apiLinks, curlCommand, JSON_QUERY } from './api-links.ts';
import { API_STYLE_PATH, apiAsset, isAsset } from '../web/assets.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { compactQuery, links, LinkParameters } from '../web/admin-links.ts';
import { grouped } from '../web/display-text.ts';
import { redirect } from '../web/admin-request.ts';
import { crumbList, headingOf, SAFE_HEADERS, shell, type Crumb } from '../web/layout.ts';
import { sentence } from '../web/widgets.ts';

/** The content of one HTML page of the API. */
interface ApiPage {
  readonly title: string;
  /** Breadcrumbs below the list of resources; absent on that list itself. */
  readonly crumbs?: readonly Crumb[];
  readonly caller?: Caller | undefined;
  readonly hasAdmin: boolean;
  readonly status?: number;
  readonly body: Content;
}

/** Responds with a page of the API, in the layout of the admin area but without its script. */
function apiPageReply(
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
      style: withBasePath(API_STYLE_PATH),
      top,
      main,
    }).toString(),
  };
}

/** The parameters of a collection's page that are not part of the API. */
const PAGE_PARAMETERS = ['_filter', '_count'];

/** A query without them. The rest keeps its encoding: encoded again, it could become too long. */
const withoutPageParameters = (query: ReturnType<typeof parseParameters>): string =>
  query
    .filter(({ name }) => !PAGE_PARAMETERS.includes(name))
    .map(({ encoded }) => encoded)
    .join('&');

/** The resources that the caller can GET. */
const visibleTo = (resources: ServedResources, caller: Caller | undefined): ServedResources =>
  new Map([...resources].filter(([, { methods, read }]) => methods.has('GET') && meets(read, caller)));

const jsonBlock = (json: Html): Html => html`<pre class="json"><code>${json}</code></pre>`;

const commands = (title: string, list: readonly string[], hint?: string): Html =>
  html`<section>
    <h2>${title}</h2>
    ${hint !== undefined && html`<p class="hint">${hint}</p>`}
    ${list.map((command) => html`<pre><code>${command}</code></pre>`)}
  </section>`;

/** Shell commands for the same query: as JSON, as CSV, and as a stream of all records. */
function collectionCommands(
  request: ApiRequest,
  { name, hasCursors, costly }: ServedResource,
  parameters: LinkParameters,
  isCounted: boolean,
  caller: Caller | undefined,
): Html {
  const address = apiLinks.collection(name, parameters);
  const allPages = apiLinks.collection(name, parameters.without('limit', ...pageParameters(hasCursors)));
  // Streams may need a level that the page does not.
  const isStreamReader = meets(costly, caller);
  const streamReader = isStreamReader ? caller : { name: 'USER' };
  const hint = isStreamReader
    ? undefined
    : `Only ${costly === 'admin' ? 'admins' : 'users'} can read all records at once. Replace USER with your user name.`;
  const stream = (...requestHeaders: string[]): string[] => [
    curlCommand(request, allPages, streamReader, requestHeaders),
  ];
  return html`${commands('With curl', [curlCommand(request, address, caller, isCounted ? ['Prefer: count=exact'] : [])])}
  ${commands('This page as CSV', [curlCommand(request, address, caller, [`Accept: ${MEDIA_TYPES.csv}`])])}
  ${commands('All records as CSV', stream(`Accept: ${MEDIA_TYPES.csv}`, 'Prefer: paging=none'), hint)}
  ${commands('All records as JSON, one per line', stream(`Accept: ${MEDIA_TYPES.ndjson}`), hint)}`;
}

/** The total, or a link that counts: counting a large table is slow, so it happens only on request. */
function total({ total: count }: RecordPage, name: string, parameters: LinkParameters): Content {
  if (count?.value.endsWith('+')) return html`more than ${grouped(Number(count.value.slice(0, -1)))} records`;
  if (count) return html`${grouped(Number(count.value))} ${count.value === '1' ? 'record' : 'records'}`;
  return html`<a href="${apiLinks.collection(name, parameters.with('_count', 'exact'))}"
    >Count the records</a
  >`;
}

function pager(
  page: RecordPage,
  { next, previous }: PageLinks,
  name: string,
  parameters: LinkParameters,
): Html {
  return html`<nav class="pager" aria-label="Pages">
    <p>${total(page, name, parameters)}</p>
    <ul>
      ${previous !== '' && html`<li><a href="${previous}" rel="prev">Previous</a></li>`}
      ${page.page > 0n && html`<li aria-current="page">Page ${page.page}</li>`}
      ${next !== '' && html`<li><a href="${next}" rel="next">Next</a></li>`}
    </ul>
  </nav>`;
}

/** The errors of a query: each parameter with its error and a link that removes it. */
function errorList(
  { errors = {} }: Problem,
  { path, query }: ApiRequest,
  resources: ServedResources,
): Content {
  const names = Object.keys(errors);
  if (names.length === 0) return null;
  const model = /^\/api\/([a-z0-9_]+)\/?$/.exec(path)?.[1];
  const given = model === undefined ? undefined : firstParameters(query, MAX_CHIPS);
  const parameters = new LinkParameters(given?.first);
  const hasCursors = resources.get(model ?? '')?.hasCursors ?? true;
  const { list } = parameters.query.without(...pageParameters(hasCursors));
  const shown = new Set(list.map(({ name }) => excerpt(name)));
  const others = names.filter((name) => !shown.has(name));
  return html`${
    others.length > 0 &&
    html`<ul>
      ${others.map(
        (name) =>
          html`<li>
            <code>${name}</code>: <span class="error">${sentence(errors[name]?.join('; ') ?? '')}</span>
          </li>`,
      )}
    </ul>`
  }
  ${model !== undefined && given && html`<div class="filters">${parameterChips({ name: model, hasCursors }, parameters, { errors, others: given.others })}</div>`}`;
}

/** The pages of the API. Callers check access and read the records; these functions only format them. */
export function createApiPages(resources: ServedResources, hasAdmin: boolean): ApiPages {
  /** The resources on the index, for each set of those that a caller sees: at most one per access level. */
  const indexes = new Map<string, Html>();

  /** Makes them once: for many resources they take milliseconds. */
  function indexEntries(visible: ServedResources): Html {
    const key = [...visible.keys()].join();
    const known = indexes.get(key);
    if (known) return known;
    const made = html`${[...resources.values()].map((resource) => indexEntry(resource, visible))}`;
    indexes.set(key, made);
    return made;
  }

  function indexEntry(resource: ServedResource, visible: ServedResources): Html {
    const { name, read, methods } = resource;
    return html`<section>
      <h2>${methods.has('GET') ? html`<a href="${apiLinks.collection(name)}">${name}</a>` : name}</h2>
      ${accessSummary(resource, visible.has(name))}
      ${
        visible.has(name)
          ? columnTable(resource, visible)
          : methods.has('GET') &&
            html`<p class="hint">Only ${read === 'admin' ? 'admins' : 'users'} can see its columns.</p>`
      }
    </section>`;
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
      return apiPageReply({ title: 'Home', hasAdmin: false, body });
    },

    index(request, caller) {
      const visible = visibleTo(resources, caller);
      const body = html`<p class="lead">
          The resources that this service serves as JSON. There is also an
          <a href="${withBasePath(OPENAPI_PATH)}">OpenAPI document</a>.
        </p>
        ${indexEntries(visible)} ${commands('With curl', [curlCommand(request, apiLinks.index, undefined)])}`;
      return apiPageReply({ title: 'API', caller, hasAdmin, body });
    },

    jsonQuery: JSON_QUERY,

    async collection(request, resource, caller, load) {
      const { name } = resource;
      const query = parseParameters(compactQuery(request.query));
      const given = new LinkParameters(query);
      const visible = visibleTo(resources, caller);
      const filtered = filteredAddress(given, resource, visible);
      if (filtered !== undefined) return redirect(filtered);
      // Other parameters with an underscore stay, and are rejected as unknown.
      const parameters = given.without(...PAGE_PARAMETERS);
      const isCounted = given.get('_count') !== undefined;
      // The query may need credentials where the page does not. Its commands then need them, too.
      const [page, reader] = await load(withoutPageParameters(query), isCounted ? 'exact' : undefined);
      const neighbors = pageLinks(resource, page);
      const json = await collectionJson(
        { page: page.page, ...neighbors },
        String(Buffer.concat(page.objects)),
        resource,
        resources,
      );
      const body = html`${accessSummary(resource)} ${apiFilterPanel(resource, visible, given)}
        ${jsonBlock(json)} ${pager(page, neighbors, name, parameters)}
        ${collectionCommands(request, resource, parameters, isCounted, reader)}
        <section>
          <h2>Columns</h2>
          ${columnTable(resource, visible)}
        </section>`;
      return apiPageReply({ title: name, crumbs: [{ text: name }], caller: reader, hasAdmin, body });
    },

    record(request, resource, caller, record) {
      const { name } = resource;
      const segment = request.path.replace(/\/$/, '').split('/').at(-1) ?? '';
      const id = keyOfSegment(segment, hasSeveralColumns(resource.model.primaryKey)) ?? segment;
      const body = html`${jsonBlock(recordJsonHtml(record.toString(), resource, resources))}
      ${commands('With curl', [curlCommand(request, apiLinks.record(name, id), caller)])}`;
      return apiPageReply({
        title: `${name} ${id}`,
        crumbs: [{ text: name, href: apiLinks.collection(name) }, { text: id }],
        caller,
        hasAdmin,
        body,
      });
    },

    problem(problem, requestId, request) {
      const { status, message, headers } = problem;
      const title = `${status} ${STATUS_CODES[status] ?? 'Error'}`;
      const body = html`<p class="lead">${message}</p>
        ${errorList(problem, request, resources)}
        ${status === 500 && html`<p>See the log for details: request <code>${requestId}</code>.</p>`}
        <p><a href="${apiLinks.index}">Go to the list of resources</a></p>`;
      return apiPageReply({ title, crumbs: [{ text: title }], hasAdmin, status, body }, headers);
    },
  };
}
