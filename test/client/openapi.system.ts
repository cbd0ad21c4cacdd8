import assert from 'node:assert/strict';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';
import { ROOT } from '../docs/pages.ts';
import { resolve, validator } from '../http/openapi.ts';
import { basic, type Answer, type RequestOptions, type TestService } from '../support.ts';
import { eventually } from '../http/expect.ts';
import { USERS, startSampleService } from './sample-service.ts';
import { after, before, describe, test } from 'node:test';

/* eslint-disable @typescript-eslint/no-explicit-any -- the tests read documents without types */

/** A program that uses the types of the document. */
const PROGRAM = `
import createClient from 'openapi-fetch';
import type { components, paths } from './api.js';

type Media = 'application/json' | 'application/problem+json' | 'text/html';
type Message = components['schemas']['message'];

export async function run(baseUrl: string, authorization: string): Promise<unknown> {
  const client = createClient<paths, Media>({
    baseUrl,
    headers: { authorization },
    querySerializer: { object: { style: 'form', explode: true } },
  });
  const found: unknown[] = [];

  const page = await client.GET('/api/message', {
    params: {
      query: { user__username: 'ada', stars__is: 'null', ordering: '-id', limit: 1 },
      header: { Prefer: 'count=exact' },
    },
  });
  const first: Message | undefined = page.data?.objects[0];
  const id: number | undefined = first?.id;
  found.push([{ content: first?.content, stars: first?.stars }, id]);

  const negated = await client.GET('/api/message', {
    params: { query: { limit: 100, id__lte: 45, _filters: { '-stars__is': 'null' } } },
  });
  found.push(negated.data?.objects.length);

  const user = await client.GET('/api/user/{id}', { params: { path: { id: 2 } } });
  // @ts-expect-error the record has no excluded column
  found.push([user.data?.username, user.data?.password ?? null]);

  const made = await client.POST('/api/message', { body: { content: 'x' } });
  // One record was sent, so the response is no array.
  const path = { id: Array.isArray(made.data) ? 0 : (made.data?.id ?? 0) };
  const header = { 'If-Match': made.response.headers.get('etag') ?? '' };
  const changed = await client.PUT('/api/message/{id}', { params: { path, header }, body: { stars: 5 } });
  const late = await client.PUT('/api/message/{id}', { params: { path, header }, body: { stars: 6 } });
  const gone = await client.DELETE('/api/message/{id}', { params: { path } });
  const missing = await client.GET('/api/message/{id}', { params: { path } });
  found.push([made, changed, late, gone, missing].map(({ response }) => response.status));

  // @ts-expect-error a required field is missing
  const invalid = await client.POST('/api/land', { body: { id: 'x' } });
  found.push(typeof invalid.error === 'object' ? invalid.error.errors?.['name'] : invalid.error);

  const vault = await client.GET('/api/vault');
  const diary = await client.GET('/api/diary', { headers: { authorization: null } });
  found.push([vault.response.status, diary.response.status]);

  // @ts-expect-error there is no such parameter
  void client.GET('/api/message', { params: { query: { contents: 'x' } } }).catch(() => undefined);
  // @ts-expect-error the value is not of the type
  void client.GET('/api/message', { params: { query: { stars: 'x' } } }).catch(() => undefined);
  return found;
}
`;

describe('the OpenAPI document', () => {
  let service: TestService;
  let directory: string;
  before(async () => {
    service = await startSampleService();
    directory = await mkdtemp(join(tmpdir(), 'vitrine-openapi-'));
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  });
  after(async () => {
    await service.close();
    await rm(directory, { recursive: true });
  });

  const PATH = '/api/openapi.json';
  const get = (options: RequestOptions = {}): Promise<Answer> => service.request(PATH, options);
  const documentFor = async (user?: string): Promise<any> =>
    (await get(user === undefined ? {} : { user })).json;

  test('shows each caller only the resources with access', async () => {
    const tags = (document: any): string[] => document.tags.map(({ name }: any) => name);
    assert.ok(!tags(await documentFor()).includes('diary'));
    assert.ok(
      tags(await documentFor('ada')).includes('diary') && !tags(await documentFor('ada')).includes('vault'),
    );
    assert.ok(tags(await documentFor('root')).includes('vault'));
  });

  test('returns 401 for wrong credentials and 400 for parameters', async () => {
    assert.equal((await get({ headers: { authorization: basic('ada', 'wrong') } })).status, 401);
    const { status, json } = await service.request(`${PATH}?x=1`);
    assert.deepEqual(
      [status, json.errors],
      [400, { x: ['is not allowed: only GET on a collection takes parameters'] }],
    );
  });

  test('supports HEAD, OPTIONS and If-None-Match, and returns 405 for other methods', async () => {
    const { status, headers } = await get();
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
    assert.equal(headers.get('cache-control'), 'no-cache');
    const etag = headers.get('etag') ?? '';
    const head = await get({ method: 'HEAD' });
    assert.deepEqual([head.status, head.text, head.headers.get('etag')], [200, '', etag]);
    assert.equal(head.headers.get('content-length'), headers.get('content-length'));
    const options = await get({ method: 'OPTIONS' });
    assert.deepEqual([options.status, options.headers.get('allow')], [204, 'GET, HEAD, OPTIONS']);
    for (const method of ['POST', 'PUT', 'DELETE']) assert.equal((await get({ method })).status, 405);
    const again = await get({ headers: { 'if-none-match': etag } });
    assert.deepEqual([again.status, again.text, again.headers.get('etag')], [304, '', etag]);
    const other = await get({ user: 'root', headers: { 'if-none-match': etag } });
    assert.deepEqual([other.status, other.headers.get('cache-control')], [200, 'no-store']);
    assert.notEqual(other.headers.get('etag'), etag);
  });

  test('describes every path and the responses of the resources', async () => {
    const document = await documentFor('root');
    const errorsOf = validator(document);
    const requests: [path: string, operation: string, method: string, target: string, body?: object][] = [
      ['/api', 'index', 'get', '/api'],
      ['/healthz', 'health', 'get', '/healthz'],
      ['/readyz', 'ready', 'get', '/readyz'],
      ['/api/openapi.json', 'openapi', 'get', PATH],
      ['/api/message', 'list_message', 'get', '/api/message?limit=3&stars__is=null'],
      ['/api/message', 'list_message', 'get', '/api/message?limit=0'],
      ['/api/message', 'create_message', 'post', '/api/message', { content: 'x' }],
      ['/api/message', 'create_message', 'post', '/api/message', {}],
      ['/api/land', 'create_land', 'post', '/api/land', [{ id: 'd', name: 'x' }]],
      ['/api/land', 'create_land', 'post', '/api/land', [{ id: 'd', name: 'x' }]],
      ['/api/message/{id}', 'get_message', 'get', '/api/message/46'],
      ['/api/message/{id}', 'get_message', 'get', '/api/message/9999'],
      ['/api/message/{id}', 'update_message', 'put', '/api/message/46', { stars: 1 }],
      ['/api/message/{id}', 'update_message', 'put', '/api/message/1', { stars: 1 }],
      ['/api/message/{id}', 'delete_message', 'delete', '/api/message/46'],
      ['/api/land', 'create_land', 'post', '/api/land', { id: 'a/b', name: 'x' }],
      ['/api/land', 'create_land', 'post', '/api/land', { id: 'c', name: 'x' }],
      ['/api/land/{id}', 'get_land', 'get', '/api/land/a%2Fb'],
      ['/api/account', 'create_account', 'post', '/api/account', { land_id: 'a/b', balance: 1.5 }],
      ['/api/user', 'create_user', 'post', '/api/user', { username: 'new', password: 'x' }],
      ['/api/vault', 'list_vault', 'get', '/api/vault'],
    ];
    for (const [path, operationId, method, target, body] of requests) {
      const operation = document.paths[path][method];
      assert.equal(operation.operationId, operationId);
      const answer = await service.request(target, { method: method.toUpperCase(), user: 'root', body });
      const response = resolve(document, operation.responses[answer.status] ?? {});
      const type = answer.headers.get('content-type')?.split(';')[0] ?? '';
      const { schema } = response.content?.[type] ?? {};
      assert.ok(schema, `${method} ${target}: ${answer.status} ${type}`);
      assert.deepEqual(errorsOf(schema, answer.json), [], `${method} ${target}`);
      for (const [name, header] of Object.entries<any>(response.headers ?? {})) {
        const value = answer.headers.get(name);
        if (value !== null) assert.deepEqual(typeof value, 'string', resolve(document, header).description);
        // Several new records have neither of these two.
        else if (Array.isArray(body) && /^(Location|ETag)$/.test(name)) continue;
        else
          assert.match(
            name,
            /^(X-Total-Count|Preference-Applied|Link|Vitrine-Position|Idempotency-Replayed)$/,
            `${method} ${target}`,
          );
      }
      if (body && answer.status < 300) {
        const content = resolve(document, operation.requestBody).content['application/json'];
        assert.deepEqual(errorsOf(content.schema, body), []);
      }
    }
  });

  test('lists only filters and example bodies that the service accepts', async () => {
    const document = await documentFor('root');
    for (const [path, { get: operation }] of Object.entries<any>(document.paths)) {
      if (!operation?.operationId.startsWith('list_')) continue;
      for (const part of operation.parameters ?? []) {
        const { name, in: where, schema, example } = resolve(document, part);
        // A cursor comes from a link.
        if (where !== 'query' || ['_filters', 'cursor', 'after'].includes(name)) continue;
        const { $ref = '' } = schema as { $ref?: string };
        const values: Record<string, string> = { is: 'null', isBoolean: 'true', boolean: 'true' };
        const value =
          example ?? values[$ref.split('Filter.')[1] ?? ''] ?? (/join|date/.test(name) ? '2026-01-15' : '1');
        const { status, text } = await service.request(`${path}?${name}=${value}`, { user: 'root' });
        assert.equal(status, 200, `${path}?${name}=${value}: ${text}`);
      }
    }
    const [example] = document.components.schemas['message.New'].examples;
    assert.equal(
      (await service.request('/api/message', { method: 'POST', user: 'ada', body: example })).status,
      201,
    );
  });

  test('generates a client that compiles and works', async () => {
    const types = astToString(await openapiTS(await documentFor('root')));
    await writeFile(join(directory, 'api.d.ts'), types);
    const main = join(directory, 'main.mts');
    await writeFile(main, PROGRAM);
    const options: ts.CompilerOptions = {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: true,
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2023,
      lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
      types: [],
      outDir: directory,
    };
    const program = ts.createProgram([main], options);
    const messages = ts
      .getPreEmitDiagnostics(program)
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
    assert.deepEqual(messages, []);
    program.emit();
    const { run } = (await import(pathToFileURL(join(directory, 'main.mjs')).href)) as {
      run: (baseUrl: string, authorization: string) => Promise<unknown>;
    };
    // The compiler blocked the event loop of the service, so it refuses requests for a moment.
    await eventually(async () => (await service.request('/api/user/2/')).status === 200, 'a response');
    const { username, password } = USERS.ada;
    assert.deepEqual(await run(service.base, basic(username, password)), [
      [{ content: 'message 45', stars: null }, 45],
      30,
      ['ada', null],
      [201, 200, 412, 200, 404],
      ['is required'],
      [403, 401],
    ]);
  });
});
