import { STATUS_CODES } from 'node:http';
import { Problem } from '../../errors.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import { MEDIA_TYPES } from '../../http/api/negotiation.ts';
import type { ApiPages } from '../../http/api/api-pages.ts';
import { pageLinks, type PageLinks } from '../../http/api/page-links.ts';
import { OPENAPI_PATH } from '../../http/api/api-routes.ts';
import { parseParameters } from '../../query/parse/grammar.ts';
import type { RecordPage } from '../../resources/records/listing.ts';
import {
  meets,
  type Caller,
  type ServedResource,
  type ServedResources,
} from '../../resources/serve/served-resource.ts';
import { columnTable, levelsOf } from './api-columns.ts';
import { apiFilterPanel, filteredAddress, parameterChips } from './api-filter.ts';
import { collectionJson, recordJson } from './api-json.ts';
import { apiPageReply } from './api-layout.ts';
import { apiLinks, curlCommand, JSON_QUERY } from './api-links.ts';
import { apiAsset } from '../web/assets.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { Parameters } from '../web/admin-links.ts';
import { grouped } from '../web/display-text.ts';
import { redirect } from '../web/admin-request.ts';
import { sentence } from '../web/widgets.ts';

/** The parameters that the page of a collection takes beside those of the API. */
const OWN = ['_filter', '_count'];

/** A query as it was sent, without them: encoded anew it might be too long. */
const withoutOwn = (query: string): string =>
  parseParameters(query)
    .filter(({ name }) => !OWN.includes(name))
    .map(({ part }) => part)
    .join('&');

/** The resources that a request of the caller could GET. */
const visibleTo = (resources: ServedResources, caller: Caller | undefined): ServedResources =>
  new Map([...resources].filter(([, { methods, read }]) => methods.has('GET') && meets(read, caller)));

const jsonBlock = (json: Html): Html => html`<pre class="json"><code>${json}</code></pre>`;

const commands = (title: string, list: readonly string[]): Html =>
  html`<section>
    <h2>${title}</h2>
    ${list.map((command) => html`<pre><code>${command}</code></pre>`)}
  </section>`;

/** What asks for the same: with the total where it is shown, as CSV, and all records as lines. */
function collectionCommands(
  request: ApiRequest,
  { name }: ServedResource,
  parameters: Parameters,
  isCounted: boolean,
  caller: Caller | undefined,
): Html {
  const address = apiLinks.collection(name, parameters);
  const whole = apiLinks.collection(name, parameters.without('limit', 'page'));
  return html`${commands('With curl', [curlCommand(request, address, caller, isCounted ? ['Prefer: count=exact'] : [])])}
  ${commands('As CSV', [curlCommand(request, address, caller, [`Accept: ${MEDIA_TYPES.csv}`])])}
  ${commands('All records, a line each', [
    curlCommand(request, whole, caller, [`Accept: ${MEDIA_TYPES.ndjson}`]),
  ])}`;
}

/** The total, or the way to it: no page costs a count unless it is asked for. */
function total({ total: count }: RecordPage, name: string, parameters: Parameters): Content {
  if (count !== undefined) return html`${grouped(Number(count))} ${count === '1' ? 'record' : 'records'}`;
  return html`<a href="${apiLinks.collection(name, parameters.with('_count', 'exact'))}"
    >Count the records</a
  >`;
}

function pager(page: RecordPage, { next, previous }: PageLinks, name: string, parameters: Parameters): Html {
  return html`<nav class="pager" aria-label="Pages">
    <p>${total(page, name, parameters)}</p>
    <ul>
      ${previous !== '' && html`<li><a href="${previous}" rel="prev">Previous</a></li>`}
      <li aria-current="page">Page ${page.query.page}</li>
      ${next !== '' && html`<li><a href="${next}" rel="next">Next</a></li>`}
    </ul>
  </nav>`;
}

/** The parameters of an address; undefined where they cannot be read. */
function parametersOf({ query }: ApiRequest): Parameters | undefined {
  try {
    return Parameters.parse(query);
  } catch (error) {
    if (error instanceof Problem) return undefined;
    throw error;
  }
}

/** Every parameter of the address with what is wrong with it, and a way to take it away. */
function faultList({ errors = {} }: Problem, request: ApiRequest): Content {
  const names = Object.keys(errors);
  if (names.length === 0) return null;
  const model = /^\/api\/([a-z0-9_]+)\/?$/.exec(request.path)?.[1];
  const parameters = model === undefined ? undefined : parametersOf(request);
  const shown = parameters?.query.without('page').list ?? [];
  const others = names.filter((name) => !shown.some((parameter) => parameter.name === name));
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
  ${model !== undefined && parameters && html`<div class="filters">${parameterChips(model, parameters, errors)}</div>`}`;
}

/** The pages of the API. What they show has been read by its rules; here it only becomes HTML. */
export function createApiPages(resources: ServedResources, hasAdmin: boolean): ApiPages {
  function indexEntry(resource: ServedResource, visible: ServedResources): Html {
    const { name, read, methods } = resource;
    return html`<section>
      <h2>${methods.has('GET') ? html`<a href="${apiLinks.collection(name)}">${name}</a>` : name}</h2>
      ${levelsOf(resource)}
      ${
        visible.has(name)
          ? columnTable(resource, visible)
          : methods.has('GET') &&
            html`<p class="hint">Its columns are shown to ${read === 'admin' ? 'admins' : 'users'} alone.</p>`
      }
    </section>`;
  }

  return {
    asset: apiAsset,

    index(request, caller) {
      const visible = visibleTo(resources, caller);
      const body = html`<p class="lead">
          What this service serves as JSON. Programs read it in <a href="${OPENAPI_PATH}">OpenAPI’s form</a>.
        </p>
        ${[...resources.values()].map((resource) => indexEntry(resource, visible))}
        ${commands('With curl', [curlCommand(request, apiLinks.index, undefined)])}`;
      return apiPageReply({ title: 'API', caller, hasAdmin, body });
    },

    jsonQuery: JSON_QUERY,

    async collection(request, resource, caller, load) {
      const { name } = resource;
      const given = Parameters.parse(request.query);
      const visible = visibleTo(resources, caller);
      const filtered = filteredAddress(given, resource, visible);
      if (filtered !== undefined) return redirect(filtered);
      // Others that begin with an underscore are refused with the rest.
      const parameters = given.without(...OWN);
      const isCounted = given.get('_count') !== undefined;
      const page = await load(withoutOwn(request.query), isCounted);
      const links = pageLinks(resource, page);
      const json = await collectionJson(
        { page: page.query.page, ...links },
        page.objects.toString(),
        resource,
        resources,
      );
      const body = html`${levelsOf(resource)} ${apiFilterPanel(resource, visible, given)} ${jsonBlock(json)}
        ${pager(page, links, name, parameters)}
        ${collectionCommands(request, resource, parameters, isCounted, caller)}
        <section>
          <h2>Columns</h2>
          ${columnTable(resource, visible)}
        </section>`;
      return apiPageReply({ title: name, crumbs: [{ text: name }], caller, hasAdmin, body });
    },

    record(request, resource, caller, record) {
      const { name } = resource;
      const id = decodeURIComponent(request.path.replace(/\/$/, '').split('/').at(-1) ?? '');
      const body = html`${jsonBlock(recordJson(record.toString(), resource, resources))}
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
        ${faultList(problem, request)}
        ${status === 500 && html`<p>The log has more about it, under <code>${requestId}</code>.</p>`}
        <p><a href="${apiLinks.index}">To the list of resources</a></p>`;
      return apiPageReply({ title, crumbs: [{ text: title }], hasAdmin, status, body }, headers);
    },
  };
}
