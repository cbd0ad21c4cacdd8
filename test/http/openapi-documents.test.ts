import assert from 'node:assert/strict';
import chinook from '../../examples/chinook/resources.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import { openApiDocument } from '../../src/http/openapi/openapi.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import shipped from '../../src/resources/registry.ts';
import { ADMIN, ANYONE, USER, type Access } from '../../src/resources/access/access.ts';
import { createViews } from '../../src/resources/access/resource-view.ts';
import { resources as things } from '../admin/sample-resources.ts';
import { resources as stage } from '../client/sample-service.ts';
import { resolve, validator } from './openapi.ts';
import { describe, test } from 'node:test';

/* eslint-disable @typescript-eslint/no-explicit-any -- the documents have no static type */

const ACCESSES = [ANYONE, USER, ADMIN];
const REGISTRIES: Readonly<Record<string, readonly Resource[]>> = { shipped, chinook, things, stage };

function documentOf(resources: readonly Resource[], access: Access): any {
  const settings = { access: 'default', userModel: 'user' } as const;
  const document = openApiDocument(createViews(resources, buildModels(resources), settings)(access));
  return JSON.parse(JSON.stringify(document));
}

const documents = Object.entries(REGISTRIES).flatMap(([name, resources]) =>
  ACCESSES.map((access) => ({ name: `${name}-${access.key}`, document: documentOf(resources, access) })),
);

/** All schemas of a document with examples, and all parts with an example next to their schema. */
function examplesOf(part: any, path = '#'): { path: string; schema: object; example: unknown }[] {
  if (typeof part !== 'object' || part === null) return [];
  const found = [];
  if (Array.isArray(part.examples)) {
    for (const example of part.examples) found.push({ path, schema: part, example });
  }
  if (part.schema !== undefined && 'example' in part)
    found.push({ path, schema: part.schema, example: part.example });
  return [
    ...found,
    ...Object.entries(part).flatMap(([key, value]) =>
      key === 'example' || key === 'examples' ? [] : examplesOf(value, `${path}/${key}`),
    ),
  ];
}

describe('the OpenAPI document', () => {
  for (const { name, document } of documents) {
    test(`${name}: its examples are valid, and it is smaller than 300 kB`, () => {
      const faults = validator(document);
      const examples = examplesOf(document);
      assert.ok(examples.length > 20);
      for (const { path, schema, example } of examples) assert.deepEqual(faults(schema, example), [], path);
      assert.ok(JSON.stringify(document).length < 300_000);
    });
  }

  test('the parameter names of an operation are unique, and so are the ids of operations', () => {
    for (const { document } of documents) {
      const operations = Object.values<any>(document.paths).flatMap((item) => Object.values<any>(item));
      const ids = operations.flatMap(({ operationId }) => operationId ?? []);
      assert.equal(new Set(ids).size, ids.length);
      for (const { parameters = [] } of operations) {
        const names = parameters
          .map((one: any) => resolve(document, one))
          .map((one: any) => `${one.in} ${one.name}`);
        assert.equal(new Set(names).size, names.length);
      }
    }
  });

  test('excluded columns appear only for callers who may write them', () => {
    const text = (access: Access): string => JSON.stringify(documentOf(shipped, access));
    for (const access of [ANYONE, USER]) {
      assert.doesNotMatch(text(access), /email|"password"|__password/);
    }
    const { schemas } = documentOf(shipped, ADMIN).components;
    assert.deepEqual(Object.keys(schemas['user'].properties), [
      'id',
      'username',
      'join_date',
      'active',
      'admin',
    ]);
    assert.deepEqual(schemas['user.New'].required, ['username', 'password', 'email']);
    assert.doesNotMatch(JSON.stringify(documentOf(shipped, ADMIN).paths), /email|__password/);
    // A new record does not require it, so it does not appear.
    assert.doesNotMatch(JSON.stringify(documentOf(things, ADMIN)), /secret/);
  });

  test('a resource and paths into it appear only for callers who may read it', () => {
    const models = (access: Access): string[] => documentOf(stage, access).tags.map(({ name }: any) => name);
    assert.deepEqual(models(ANYONE), ['user', 'message', 'reply', 'land', 'account']);
    assert.deepEqual(models(USER), [...models(ANYONE), 'diary']);
    assert.deepEqual(models(ADMIN), [...models(USER), 'vault']);
    const hidden: Resource[] = [
      { model: 'a', columns: { b: { type: 'foreignKey', references: 'b' } } },
      { model: 'b', columns: { told: { type: 'text' } }, read: 'admin' },
      { model: 'c', columns: { put: { type: 'text' } }, methods: ['POST'], access: 'user' },
    ];
    assert.doesNotMatch(JSON.stringify(documentOf(hidden, ANYONE)), /told|put_|"put"/);
    assert.deepEqual(Object.keys(documentOf(hidden, USER).paths['/api/c']), ['post']);
    assert.match(JSON.stringify(documentOf(hidden, ADMIN)), /b__told__ilike/);
  });

  test('methods that a resource does not allow do not appear', () => {
    const resources: Resource[] = [
      { model: 'fixed', columns: { x: { type: 'text' } } },
      { model: 'log', columns: { x: { type: 'text' } }, access: 'user', methods: ['GET', 'POST'] },
    ];
    const { paths } = documentOf(resources, USER);
    const methods = Object.entries<any>(paths)
      .filter(([path]) => /fixed|log/.test(path))
      .map(([path, item]) => [path, ...Object.keys(item).filter((key) => key !== 'parameters')]);
    assert.deepEqual(methods, [
      ['/api/fixed', 'get'],
      ['/api/fixed/{id}', 'get'],
      ['/api/log', 'get', 'post'],
      ['/api/log/{id}', 'get'],
    ]);
  });

  test('columns of each type have the schema of their values', () => {
    const { schemas } = documentOf(things, ADMIN).components;
    const types = (name: string) =>
      Object.fromEntries(Object.entries<any>(schemas[name].properties).map(([key, { type }]) => [key, type]));
    assert.deepEqual(types('thing'), {
      id: 'integer',
      name: 'string',
      note: ['string', 'null'],
      amount: ['integer', 'null'],
      big: ['string', 'null'],
      ratio: ['number', 'null'],
      price: ['string', 'null'],
      ready: 'boolean',
      maybe: ['boolean', 'null'],
      at: ['string', 'null'],
      day: ['string', 'null'],
      hour: ['string', 'null'],
      code: ['string', 'null'],
      extra: undefined,
      colour: 'string',
      author_id: ['integer', 'null'],
      fixed: 'integer',
      hidden: 'string',
    });
    assert.deepEqual(schemas['thing.New'].required, ['name']);
    const { name, amount, colour } = schemas['thing.New'].properties;
    assert.deepEqual([name.maxLength, amount.minimum, amount.maximum], [50, 0, 100]);
    assert.deepEqual(colour.enum, ['red', 'green', 'blue']);
    assert.equal(schemas['land.New'], undefined);
  });
});
