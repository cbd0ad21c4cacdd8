// The API as HTML pages: the index of resources, a collection, a record, and errors.
import { STATUS_CODES } from 'node:http';
import { hasSeveralColumns, joinKey } from '../../db/schema/composite-key.ts';
import { namedColumns, partsOf, type Column, type Model } from '../../db/schema/model.ts';
import type { ApiRequest, Reply } from '../../http/message/message.ts';
import type { ApiPages } from '../../http/api/api-reads.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import { keyOfSegment, keySegment } from '../../http/message/key-segment.ts';
import { pageLinks, type PageLinks } from '../../http/api/page-links.ts';
import { OPENAPI_PATH } from '../../http/api/api-routes.ts';
import { MAX_HTML, type RecordPage } from '../../resources/records/api-listing.ts';
import type { ResourceView, ResourceViews } from '../../resources/access/resource-view.ts';
import { ANYONE, type Caller } from '../../resources/access/access.ts';
import { API_STYLE_PATH, apiAsset, isAsset } from '../web/assets.ts';
import { html, htmlInPieces, nextTurn, type Content, type Html } from '../web/html.ts';
import { links } from '../web/admin-links.ts';
import { SAFE_HEADERS, crumbList, headingOf, shell, type Crumb } from '../web/layout.ts';
import { sentence, table } from '../web/widgets.ts';
import { hasAddress } from '../../resources/records/checked-body.ts';
import { LARGE_RECORD, textOfField } from '../../resources/records/labeled-record.ts';
import {
  indentJson,
  parseJsonFields,
  splitValues,
  type JsonFields,
} from '../../resources/records/json-fields.ts';
import { shellQuote } from '../web/display-text.ts';

const apiRoot = (): string => withBasePath('/api/');
const collectionOf = (model: string): string => links.api(model, '');
const recordOf = (model: string, id: string): string => `${collectionOf(model)}${keySegment(id)}/`;

/** Characters that curl expands in a URL. */
const EXPANDED = /[[\]{}]/g;

/**
 * The curl command for a request.
 * @param caller the user to log in as; curl asks for the password
 */
function curlCommand(request: ApiRequest, caller: Caller | undefined): string {
  const { path, query } = request;
  const target = `${withBasePath(path)}${query === '' ? '' : `?${query}`}`;
  const url = request.client().origin + target.replace(EXPANDED, encodeURIComponent);
  return `curl ${caller ? `-u ${shellQuote(caller.name)} ` : ''}${shellQuote(url)}`;
}

/** Milliseconds of formatting before other requests may run. */
const MAX_SLICE = 8;

/**
 * The foreign key that a column is, or is part of, and the key that it has in a record. It is null if a part is missing, or may
 * have a fraction of a second, which the output leaves out.
 */
function reference(column: Column, fields: JsonFields, { foreignKeys }: Model): [Column, string | null] {
  const whole = column.references ? undefined : foreignKeys.find((one) => partsOf(one).includes(column));
  if (!whole) return [column, textOfField(fields, column.key)];
  const texts = partsOf(whole).map((part) =>
    part.fractionalSecondDigits ? null : textOfField(fields, part.key),
  );
  const present = texts.filter((text) => text !== null);
  return [whole, present.length === texts.length ? joinKey(present) : null];
}

/**
 * Whether a page links to a resource: to all that the caller may read. Without credentials also to others, where browsers ask for
 * them.
 */
const isLinked = ({ isReadable, methods, seenBy }: ResourceView): boolean =>
  isReadable || (seenBy.key === ANYONE.key && methods.has('GET'));

/** The link of a field's value: to the record itself, or to the record that a foreign key refers to. */
function targetOf(
  column: Column,
  fields: JsonFields,
  { name, model, all }: ResourceView,
): string | undefined {
  const [foreignKey, text] = reference(column, fields, model);
  if (text === null || !hasAddress(text)) return undefined;
  if (column === model.primaryKey) return recordOf(name, text);
  const target = foreignKey.references && all.get(foreignKey.references.name);
  return target && isLinked(target) ? recordOf(target.name, text) : undefined;
}

/** A record as indented JSON, with keys as links. A large record stays as it is: indenting it would block the event loop. */
async function recordJsonHtml(source: string, resource: ResourceView, depth = 0): Promise<Html> {
  if (source.length > LARGE_RECORD) return htmlInPieces(source);
  const fields = parseJsonFields(source);
  const lines = resource.output.map((column, index): Content => {
    const value = indentJson(fields.get(column.key)?.source ?? 'null', depth + 1);
    const target = targetOf(column, fields, resource);
    return [
      `${index === 0 ? '' : ','}\n${'  '.repeat(depth + 1)}${JSON.stringify(column.key)}: `,
      target === undefined ? value : html`<a href="${target}">${value}</a>`,
    ];
  });
  return html`{${lines}${`\n${'  '.repeat(depth)}`}}`;
}

/** The document of a collection as indented JSON. Lets other requests run in between. */
async function collectionJsonHtml(
  { page, objects }: RecordPage,
  { next, previous }: PageLinks,
  resource: ResourceView,
): Promise<Html> {
  const linkTo = (text: string): Content =>
    text === '' ? '""' : html`<a href="${text}">${JSON.stringify(text)}</a>`;
  const records: Content[] = [];
  let start = performance.now();
  for (const source of splitValues(String(Buffer.concat(objects)))) {
    const record = await recordJsonHtml(source, resource, 2);
    records.push(records.length === 0 ? '\n    ' : ',\n    ', record);
    if (performance.now() - start < MAX_SLICE) continue;
    await nextTurn();
    start = performance.now();
  }
  const opening = `{\n  "meta": {\n    "model": ${JSON.stringify(resource.name)},\n    "page": ${page},\n    "next": `;
  return html`${opening}${linkTo(next)}${',\n    "previous": '}${linkTo(previous)}${'\n  },\n  "objects": ['}${records}${records.length > 0 && '\n  '}${']\n}'}`;
}

/** The list of resources as indented JSON, with links to those that a GET can list. */
function indexJsonHtml(source: string, resources: ResourceViews): Html {
  const isListed = (url: string): boolean => {
    const resource = resources.get(url.split('/').at(-2) ?? '');
    return resource !== undefined && isLinked(resource);
  };
  const parts = indentJson(source).split(/(?<="url": ")([^"]*)/);
  return html`${parts.map((part, index) => (index % 2 === 1 && isListed(part) ? html`<a href="${part}">${part}</a>` : part))}`;
}

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
      related && isLinked(related) && html`<a href="${collectionOf(related.name)}">${related.name}</a>`,
    ];
  });
  return html`<section>
    <h2 id="filters">Filters</h2>
    ${table(['Column', 'Operators', 'Refers to'], rows, { labelledBy: 'filters' })}
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
        <a class="brand" href="${apiRoot()}">API</a> ${(caller || hasAdmin) && account}
      </header>
      ${crumbs && crumbList(crumbs, { text: 'API', href: apiRoot() })}`;
    const document = shell({
      title: title === 'API' ? title : `${title} · API`,
      kind: 'api',
      styles: [withBasePath(API_STYLE_PATH)],
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
        <li><a href="${apiRoot()}">The API</a>, with a page for each resource</li>
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
      return pageOf(resource.name, { body, crumbs: [resource.name], caller });
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
      const crumbs = [{ text: name, href: collectionOf(name) }, id];
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
        <p><a href="${apiRoot()}">Go to the list of resources</a></p>`;
      return pageOf(title, { body, crumbs: [title], status, headers });
    },
  };
}
