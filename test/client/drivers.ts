// The typed client and one that is generated from the OpenAPI document, behind one face, so that the same cases run on both.
import createOpenApiClient from 'openapi-fetch';
import { createClient, etagOf, VitrineError, type ClientOptions } from '../../src/client.ts';

type Values = Readonly<Record<string, unknown>>;

export interface Call {
  readonly signal?: AbortSignal;
  readonly etag?: string;
}

export interface Answered {
  readonly record: Record<string, unknown>;
  readonly etag: string | undefined;
}

export interface Driver {
  readonly list: (
    model: string,
    query?: Values,
    call?: Call,
  ) => Promise<{ meta: Record<string, unknown>; objects: Record<string, unknown>[] }>;
  readonly all: (model: string, query?: Values) => Promise<Record<string, unknown>[]>;
  readonly count: (model: string, query?: Values) => Promise<number>;
  readonly get: (model: string, id: string | number) => Promise<Answered>;
  readonly create: (model: string, body: Values) => Promise<Answered>;
  readonly update: (model: string, id: string | number, body: Values, call?: Call) => Promise<Answered>;
  readonly remove: (model: string, id: string | number, call?: Call) => Promise<void>;
}

export type Connect = (options: Pick<ClientOptions, 'baseUrl' | 'credentials' | 'headers'>) => Driver;

/* eslint-disable @typescript-eslint/no-explicit-any -- the types of both clients have tests of their own */

const typed: Connect = (options) => {
  const client = createClient<any>(options) as Record<string, any>;
  const answered = (record: Record<string, unknown>): Answered => ({ record, etag: etagOf(record) });
  return {
    list: (model, query, call) => client[model].list(query, call),
    all: async (model, query) => {
      const found: Record<string, unknown>[] = [];
      for await (const record of client[model].all(query)) found.push(record);
      return found;
    },
    count: (model, query) => client[model].count(query),
    get: async (model, id) => answered(await client[model].get(id)),
    create: async (model, body) => answered(await client[model].create(body)),
    update: async (model, id, body, call) => answered(await client[model].update(id, body, call)),
    remove: (model, id, call) => client[model].delete(id, call),
  };
};

const quoted = (value: unknown): string => `"${String(value).replaceAll('"', '""')}"`;

/** What the document says of filters: an `in` is a text in CSV, and what it does not list goes into `_filters`. */
function parametersOf(query: Values = {}): Values {
  const listed: Record<string, unknown> = {};
  const further: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(query)) {
    const isListed = !name.startsWith('-') && name.split('__').length < 4;
    const target = isListed ? listed : further;
    if (name.endsWith('__in') && Array.isArray(value)) target[name] = value.map(quoted).join(',');
    else target[name] = name === 'ordering' && Array.isArray(value) ? value.join(',') : value;
  }
  return { ...listed, _filters: further };
}

const generated: Connect = ({ baseUrl, credentials, headers }) => {
  const text = credentials && Buffer.from(`${credentials.username}:${credentials.password}`);
  const client = createOpenApiClient<any>({
    baseUrl,
    headers: { ...headers, ...(text ? { Authorization: `Basic ${text.toString('base64')}` } : {}) },
    querySerializer: { object: { style: 'form', explode: true } },
  }) as any;
  /** Of an error what the typed client makes of it, so that the cases can look at it. */
  const settle = async (answer: Promise<any>): Promise<any> => {
    const { data, error, response } = await answer;
    if (response.ok) return { data, response };
    const retryAfter = response.headers.get('retry-after');
    const problem = typeof error === 'object' ? error : undefined;
    throw new VitrineError(response.status, problem, retryAfter === null ? undefined : Number(retryAfter));
  };
  const answered = async (answer: Promise<any>): Promise<Answered> => {
    const { data, response } = await settle(answer);
    return { record: data, etag: response.headers.get('etag') ?? undefined };
  };
  const path = (id: string | number, { etag, signal }: Call = {}) => ({
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
    get: (model, id) => answered(client.GET(`/api/${model}/{id}`, path(id))),
    create: (model, body) => answered(client.POST(`/api/${model}`, { body })),
    update: (model, id, body, call) =>
      answered(client.PUT(`/api/${model}/{id}`, { ...path(id, call), body })),
    remove: async (model, id, call) => {
      await settle(client.DELETE(`/api/${model}/{id}`, path(id, call)));
    },
  };
};

export const DRIVERS: Readonly<Record<string, Connect>> = {
  'the typed client': typed,
  'a client of the OpenAPI document': generated,
};
