// A client of the API for Node.js, Deno, Bun and browsers. It uses only `fetch`, and takes its types from the registry.
import type {
  AllOptions,
  CallOptions,
  ChangeOptions,
  ChangePage,
  ClientOptions,
  CountOptions,
  CreateManyOptions,
  Client,
  FeedOptions,
  Id,
  Page,
} from './client-types.ts';
import type { WrittenResource } from './resources/definition/resource.ts';

export type * from './client-types.ts';
export type { Registry, WrittenResource as Resource, Row } from './resources/definition/resource.ts';

/** The problem document of an error (RFC 9457). */
export interface ProblemDocument {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  /** The faults by parameter or field. */
  readonly errors?: Readonly<Record<string, readonly string[]>>;
  readonly requestId?: string;
}

/** A response other than success. */
export class VitrineError extends Error {
  readonly status: number;
  /** Undefined when the response is not a problem document: a 401, or a response from a proxy. */
  readonly problem: ProblemDocument | undefined;
  /** Seconds, from the `Retry-After` header. */
  readonly retryAfter: number | undefined;

  constructor(status: number, problem: ProblemDocument | undefined, retryAfter: number | undefined) {
    const faults = Object.entries(problem?.errors ?? {}).map(
      ([name, texts]) => `${name}: ${[texts].flat().join('; ')}`,
    );
    super([problem?.detail ?? `The service answered with status ${status}.`, ...faults].join(' '));
    this.name = 'VitrineError';
    this.status = status;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

const etags = new WeakMap<object, string>();

/** The ETag of a record that `get`, `create`, `createAt` or `update` returned, for `update` and `delete`. Undefined for records of a list. */
export const etagOf = (record: object): string | undefined => etags.get(record);

type Scalar = string | number | bigint | boolean | null;

/** The values of an `in` or `contains` filter as CSV. */
const encodeList = (values: readonly Scalar[]): string =>
  values
    .map(String)
    .map((text) => (/^$|[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text))
    .join(',');

function encodeQuery(query: object): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query) as [string, Scalar | readonly Scalar[] | undefined][]) {
    if (value === undefined) continue;
    const values = Array.isArray(value) ? (value as readonly Scalar[]) : undefined;
    // No values would match no record, but without the parameter every record would match.
    if (values?.length === 0) throw new TypeError(`${name} needs at least one value.`);
    if (!values) parameters.append(name, String(value));
    else if (/__(in|contains)$/.test(name)) parameters.append(name, encodeList(values));
    else if (name === 'ordering') parameters.append(name, values.join(','));
    else for (const one of values) parameters.append(name, String(one));
  }
  return parameters;
}

/**
 * The JSON of a record or of several ones. Bigints become strings: the service accepts both, and a number would lose digits.
 * @throws TypeError for NaN and Infinity, which JSON would turn into null
 */
const encodeBody = (body: object): string =>
  JSON.stringify(body, (key, value: unknown) => {
    if (typeof value === 'number' && !Number.isFinite(value))
      throw new TypeError(`${key} is ${value}, which JSON cannot contain`);
    return typeof value === 'bigint' ? String(value) : value;
  });

const toBase64 = (text: string): string =>
  btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''));

/** The seconds of a `Retry-After` header. Proxies may send a date instead. */
function secondsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function parseProblem(text: string): ProblemDocument | undefined {
  try {
    return JSON.parse(text) as ProblemDocument;
  } catch {
    return undefined;
  }
}

async function errorOf(response: Response): Promise<VitrineError> {
  const isProblem = (response.headers.get('content-type') ?? '').startsWith('application/problem+json');
  const text = await response.text();
  const retryAfter = secondsOf(response.headers.get('retry-after'));
  return new VitrineError(response.status, isProblem ? parseProblem(text) : undefined, retryAfter);
}

const MAX_PAUSE = 600; // seconds; a longer `Retry-After` is left to the caller

const pause = (seconds: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
  });

interface Sent {
  readonly method?: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

type Send = (path: string, sent?: Sent) => Promise<Response>;

const POSITION = 'vitrine-position';
/** Sent when a write's position is unknown. The service sends reads with an invalid position to the primary. */
const UNKNOWN = 'unknown';
/** Maximum positions that the service reads from a request. With more, the client sends `UNKNOWN` instead of all of them. */
const MAX_POSITIONS = 22;

function createSend(
  { baseUrl, credentials, headers = {}, fetch: given, retries = 0 }: ClientOptions,
  encode = encodeBody,
): Send {
  const base = baseUrl.replace(/\/+$/, '');
  const defaults = new Headers(headers);
  defaults.set('Accept', 'application/json');
  if (credentials)
    defaults.set('Authorization', `Basic ${toBase64(`${credentials.username}:${credentials.password}`)}`);

  /** The positions of the last writes, and when they came. Reads carry them, so that replicas show these writes. */
  let positions: readonly (readonly [position: string, came: number])[] = [];
  let clock = 0;

  /** Notes the position of a write. It replaces positions received before the write was sent; those of concurrent writes stay. */
  function note(position: string, sent: number): void {
    const others = positions.filter(([other, came]) => came > sent && other !== position);
    const isLong = others.length >= MAX_POSITIONS;
    positions = [[isLong ? UNKNOWN : position, (clock += 1)], ...(isLong ? [] : others)];
  }

  return async (path, { method = 'GET', body, headers: more = {}, signal } = {}) => {
    const all = new Headers(defaults);
    for (const [name, value] of Object.entries(more)) all.set(name, value);
    if (body) all.set('Content-Type', 'application/json');
    const request: RequestInit = {
      method,
      headers: all,
      // Otherwise a browser adds stored credentials, and shows a password dialog after a 401.
      credentials: 'omit',
      ...(body ? { body: encode(body) } : {}),
      ...(signal ? { signal } : {}),
    };
    for (let left = retries; ; left -= 1) {
      if (positions.length > 0) all.set(POSITION, positions.map(([position]) => position).join());
      const sent = (clock += 1);
      let position: string | null = UNKNOWN;
      let response: Response;
      try {
        response = await (given ?? fetch)(`${base}${path}`, request);
        position = response.headers.get(POSITION) ?? (response.status < 500 ? null : UNKNOWN);
      } finally {
        // A write whose answer was lost may have been carried out.
        if (position !== null && (position !== UNKNOWN || method !== 'GET')) note(position, sent);
      }
      if (response.ok) return response;
      const error = await errorOf(response);
      const mayRepeat = error.status === 429 || (error.status === 503 && method === 'GET');
      const { retryAfter = Infinity } = error;
      if (left <= 0 || !mayRepeat || retryAfter > MAX_PAUSE) throw error;
      await pause(retryAfter, signal);
    }
  };
}

async function recordOf(response: Response): Promise<object> {
  const record = (await response.json()) as object;
  const etag = response.headers.get('etag');
  if (etag !== null) etags.set(record, etag);
  return record;
}

const conditions = ({ etag, signal }: ChangeOptions): Sent => ({
  headers: etag === undefined ? {} : { 'If-Match': etag },
  signal,
});

/**
 * A key for use in a URL.
 * @throws TypeError for a key that would address another record, or none
 */
function keyText(id: Id): string {
  // A number beyond 2^53 lost digits when the JSON was parsed, so it may be the key of another record.
  if (typeof id === 'number' && !Number.isSafeInteger(id))
    throw new TypeError(`${id} is not a safe integer: pass the key as a string or a bigint`);
  const text = String(id);
  // URLs drop these path segments.
  if (['', '.', '..'].includes(text)) throw new TypeError(`${JSON.stringify(text)} is not a valid key`);
  return text;
}

/** The options of `list`, whose types need the registry. */
interface ListSettings extends CallOptions {
  readonly related?: readonly string[] | Readonly<Record<string, string>> | undefined;
  readonly count?: string | undefined;
}

/** `Array.isArray` does not narrow to readonly arrays. */
const isList = (related: ListSettings['related']): related is readonly string[] => Array.isArray(related);

/** Keys in one request: as many UUIDs fit into its URL. */
const MAX_KEYS = 150;

/** Records by their keys. */
async function recordsOf(
  model: string,
  ids: readonly Id[],
  send: Send,
  signal: AbortSignal | undefined,
): Promise<Map<unknown, object>> {
  const records = new Map<unknown, object>();
  for (let from = 0; from < ids.length; from += MAX_KEYS) {
    const query = { id__in: ids.slice(from, from + MAX_KEYS), limit: MAX_KEYS };
    for await (const record of createResourceClient(model, send).all(query, { signal }))
      records.set((record as { readonly id: unknown }).id, record);
  }
  return records;
}

function createResourceClient(model: string, send: Send) {
  const collection = `/api/${model}/`;
  const record = (id: Id): string => `${collection}${encodeURIComponent(keyText(id))}/`;
  const pathOf = (query: object): string => {
    const text = encodeQuery(query).toString();
    return text === '' ? collection : `${collection}?${text}`;
  };
  const page = async (path: string, sent: Sent): Promise<Page<object>> =>
    (await send(path, sent)).json() as Promise<Page<object>>;
  const totalOf = ({ headers }: Response): number => {
    const total = headers.get('x-total-count');
    if (total === null) throw new Error('The response has no X-Total-Count header.');
    return parseInt(total, 10); // `10000+` is more than 10,000
  };
  return {
    async list(query: object = {}, { signal, related, count }: ListSettings = {}) {
      const headers = count === undefined ? {} : { Prefer: `count=${count}` };
      const response = await send(pathOf(query), { headers, signal });
      const found = (await response.json()) as Page<Readonly<Record<string, unknown>>>;
      const models = isList(related)
        ? related.map((name) => [name, name] as const)
        : Object.entries(related ?? {});
      const fetched = models.map(async ([name, other]) => {
        const ids = new Set(found.objects.map((one) => one[`${name}_id`] as Id | null));
        ids.delete(null);
        return [name, await recordsOf(other, [...ids] as Id[], send, signal)] as const;
      });
      return {
        ...found,
        ...(count === undefined ? {} : { total: totalOf(response) }),
        ...(related === undefined ? {} : { related: Object.fromEntries(await Promise.all(fetched)) }),
      };
    },
    async *all(query: object = {}, { signal, paging }: AllOptions = {}) {
      const headers = paging === undefined ? {} : { Prefer: `paging=${paging}` };
      for (let path = pathOf(query); path !== '';) {
        const { objects, meta } = await page(path, { signal, headers });
        yield* objects;
        // Only its query, because a proxy may serve the API at another path.
        path = meta.next === '' ? '' : collection + meta.next.slice(meta.next.indexOf('?'));
      }
    },
    async count(query: object = {}, { signal, counting = 'exact' }: CountOptions = {}) {
      const headers = { Prefer: `count=${counting}` };
      const response = await send(pathOf({ ...query, limit: 1 }), { headers, signal });
      await response.arrayBuffer();
      return totalOf(response);
    },
    get: async (id: Id, { signal }: CallOptions = {}) => recordOf(await send(record(id), { signal })),
    create: async (body: object, { signal }: CallOptions = {}) =>
      recordOf(await send(collection, { method: 'POST', body, signal })),
    async createMany(bodies: readonly object[], { signal, return: returned }: CreateManyOptions = {}) {
      const headers = returned === undefined ? {} : { Prefer: `return=${returned}` };
      const response = await send(collection, { method: 'POST', body: bodies, headers, signal });
      return response.json() as Promise<(object | Id)[]>;
    },
    createAt: async (id: Id, body: object, { signal }: CallOptions = {}) =>
      recordOf(await send(record(id), { method: 'PUT', body, headers: { 'If-None-Match': '*' }, signal })),
    update: async (id: Id, body: object, options: ChangeOptions = {}) =>
      recordOf(await send(record(id), { method: 'PUT', body, ...conditions(options) })),
    delete: async (id: Id, options: ChangeOptions = {}) => {
      await (await send(record(id), { method: 'DELETE', ...conditions(options) })).arrayBuffer();
    },
  };
}

/**
 * Creates a client for the resources of a registry: `createClient<typeof resources>({ baseUrl })`. It takes all names from the
 * type, and does not need the registry at run time.
 */
export function createClient<const Resources extends readonly WrittenResource[]>(
  options: ClientOptions,
  encode?: (body: object) => string,
): Client<Resources> {
  const send = createSend(options, encode);
  const clients = new Map<string, object>();
  return new Proxy(Object.create(null) as Client<Resources>, {
    get(_, model) {
      // `await client` looks for `then`, which must not be a resource.
      if (typeof model !== 'string' || model === 'then') return undefined;
      const client = clients.get(model) ?? createResourceClient(model, send);
      clients.set(model, client);
      return client;
    },
  });
}

/** A page of the change feed: the changes of all resources that the caller may see, the oldest first. */
export async function listChanges<const Resources extends readonly WrittenResource[]>(
  options: ClientOptions,
  { after, signal }: FeedOptions = {},
): Promise<ChangePage<Resources[number]>> {
  const query = after === undefined ? '' : `?${encodeQuery({ after }).toString()}`;
  const response = await createSend(options)(`/api/-/changes/${query}`, { signal });
  return response.json() as Promise<ChangePage<Resources[number]>>;
}
