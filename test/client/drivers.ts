// The typed client and a client generated from the OpenAPI document, with one interface, so that the same tests run on both.
import createOpenApiClient from 'openapi-fetch';
import { createClient, etagOf, VitrineError, type ClientOptions } from '../../src/client.ts';

type Values = Readonly<Record<string, unknown>>;

/** Options of a call. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly etag?: string;
}

/** A record and its ETag. */
export interface TaggedRecord {
  readonly record: Record<string, unknown>;
  readonly etag: string | undefined;
}

export interface Driver {
  readonly list: (
    model: string,
    query?: Values,
    call?: CallOptions,
  ) => Promise<{ meta: Record<string, unknown>; objects: Record<string, unknown>[] }>;
  readonly all: (model: string, query?: Values) => Promise<Record<string, unknown>[]>;
  readonly count: (model: string, query?: Values) => Promise<number>;
  readonly get: (model: string, id: string | number) => Promise<TaggedRecord>;
  readonly create: (model: string, body: Values) => Promise<TaggedRecord>;
  readonly update: (
    model: string,
    id: string | number,
    body: Values,
    call?: CallOptions,
  ) => Promise<TaggedRecord>;
  readonly remove: (model: string, id: string | number, call?: CallOptions) => Promise<void>;
}

export type Connect = (options: Pick<ClientOptions, 'baseUrl' | 'credentials' | 'headers'>) => Driver;

/* eslint-disable @typescript-eslint/no-explicit-any -- other tests check the types of both clients */

const typed: Connect = (options) => {
  const client = createClient<any>(options) as Record<string, any>;
  const tagged = (record: Record<string, unknown>): TaggedRecord => ({ record, etag: etagOf(record) });
  return {
    list: (model, query, call) => client[model].list(query, call),
    all: async (model, query) => {
      const found: Record<string, unknown>[] = [];
      for await (const record of client[model].all(query)) found.push(record);
      return found;
    },
    count: (model, query) => client[model].count(query),
    get: async (model, id) => tagged(await client[model].get(id)),
    create: async (model, body) => tagged(await client[model].create(body)),
    update: async (model, id, body, call) => tagged(await client[model].update(id, body, call)),
    remove: (model, id, call) => client[model].delete(id, call),
  };
};

const quoted = (value: unknown): string => `"${String(value).replaceAll('"', '""')}"`;

/** The parameters as the document defines them: `in` takes CSV, and filters that it does not list go into `_filters`. */
function parametersOf(query: Values = {}): Values {
  const listed: Record<string, unknown> = {};
  const unlisted: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(query)) {
    const isListed = !name.startsWith('-') && name.split('__').length < 4;
    const target = isListed ? listed : unlisted;
    if (name.endsWith('__in') && Array.isArray(value)) target[name] = value.map(quoted).join(',');
    else target[name] = name === 'ordering' && Array.isArray(value) ? value.join(',') : value;
  }
  return { ...listed, _filters: unlisted };
}

const generated: Connect = ({ baseUrl, credentials, headers }) => {
  const text = credentials && Buffer.from(`${credentials.username}:${credentials.password}`);
  const client = createOpenApiClient<any>({
    baseUrl,
    headers: { ...headers, ...(text ? { Authorization: `Basic ${text.toString('base64')}` } : {}) },
    querySerializer: { object: { style: 'form', explode: true } },
  }) as any;
  /** Throws the error of the typed client, so that the tests can check it. */
  const settle = async (call: Promise<any>): Promise<any> => {
    const { data, error, response } = await call;
    if (response.ok) return { data, response };
    const retryAfter = response.headers.get('retry-after');
    const problem = typeof error === 'object' ? error : undefined;
    throw new VitrineError(response.status, problem, retryAfter === null ? undefined : Number(retryAfter));
  };
  const tagged = async (call: Promise<any>): Promise<TaggedRecord> => {
    const { data, response } = await settle(call);
    return { record: data, etag: response.headers.get('etag') ?? undefined };
  };
  const path = (id: string | number, { etag, signal }: CallOptions = {}) => ({
    params: { path: { id }, header: etag === undefined ? {} : { 'If-Match': etag } },
    ...(signal ? { signal } : {}),
  });
  const list: Driver['list'] = async (model, query, { signal } = {}) => {
    const params = { query: parametersOf(query) };
    return (await settle(client.GET(`/api/${model}`, { params, ...(signal ? { signal } : {}) }))).data;
  };
  return {
    list,
    all: async (model, query = {}) => {
      const found: Record<string, unknown>[] = [];
      for (let page = 1; ; page += 1) {
        const { meta, objects } = await list(model, { ...query, page });
        found.push(...objects);
        if (meta['next'] === '') return found;
      }
    },
    count: async (model, query) => {
      const params = { query: { ...parametersOf(query), limit: 1 }, header: { Prefer: 'count=exact' } };
      const { response } = await settle(client.GET(`/api/${model}`, { params }));
      return Number(response.headers.get('x-total-count'));
    },
    get: (model, id) => tagged(client.GET(`/api/${model}/{id}`, path(id))),
    create: (model, body) => tagged(client.POST(`/api/${model}`, { body })),
    update: (model, id, body, call) => tagged(client.PUT(`/api/${model}/{id}`, { ...path(id, call), body })),
    remove: async (model, id, call) => {
      await settle(client.DELETE(`/api/${model}/{id}`, path(id, call)));
    },
  };
};

export const DRIVERS: Readonly<Record<string, Connect>> = {
  'the typed client': typed,
  'a client generated from the OpenAPI document': generated,
};
