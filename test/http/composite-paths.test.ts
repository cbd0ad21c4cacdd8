// Where foreign keys of several columns can be found: in the OpenAPI document, the pages of the API and the admin area.
import assert from 'node:assert/strict';
import { fieldsOf, logIn, readable, type Browser } from '../admin/support.ts';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { award, casting as pair, film } from '../castings.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const casting: Resource = { ...pair, admin: { label: '{actor} in {film__title}' } };
/** The foreign key has a column that the API and the admin area do not show. */
const covert: Resource = {
  ...award,
  model: 'covert',
  exclude: ['actor'],
  admin: { exclude: ['actor'] },
};
const listed: Resource = { ...award, model: 'listed', admin: { list: ['name', 'casting'], filters: [] } };
const secret: Resource = { ...casting, model: 'secret', read: 'user' };
const deep: Resource = {
  ...award,
  model: 'deep',
  foreignKeys: { secret: { columns: ['film_id', 'actor'], references: 'secret' } },
};

describe('foreign keys of several columns', () => {
  let service: TestService;
  let ada: Browser;
  before(async () => {
    service = await startService([user, film, casting, award, covert, listed, secret, deep]);
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
    await service.sql.unsafe(`
      insert into film (title) values ('Alien'), ('Brazil');
      insert into casting values (1, 'Weaver, S.', 'Ripley'), (2, 'Pryce', 'Sam');
      insert into award (name, film_id, actor) values ('Saturn', 1, 'Weaver, S.'), ('None', 2, null);
      insert into listed (name, film_id, actor) values ('Saturn', 1, 'Weaver, S.')`);
  });
  after(() => service.close());

  const parametersOf = async (
    model: string,
    as?: string,
  ): Promise<{ name: string; description: string }[]> => {
    const { json } = await service.request('/api/openapi.json', as === undefined ? {} : { user: as });
    return json.paths[`/api/${model}`].get.parameters;
  };

  const documented: [model: string, as: string | undefined, has: readonly string[], lacks: RegExp][] = [
    [
      'award',
      undefined,
      ['casting', 'casting__in', 'casting__is', 'casting__role', 'casting__film'],
      /__id$/,
    ],
    ['covert', undefined, ['film_id'], /casting/],
    ['deep', undefined, ['secret'], /secret__role/],
    ['deep', 'ada', ['secret', 'secret__role__ilike'], /__id$/],
  ];
  for (const [model, as, has, lacks] of documented)
    test(`are parameters of ${model} for ${as ?? 'anonymous callers'}, and work as filters`, async () => {
      const parameters = await parametersOf(model, as);
      const names = parameters.flatMap(({ name }) => name ?? []);
      for (const name of has) {
        assert.ok(names.includes(name), name);
        const value = name.endsWith('is')
          ? 'null'
          : name.includes('film')
            ? '1'
            : name.endsWith('in')
              ? '"1,x"'
              : '1,x';
        const answer = await service.request(`/api/${model}/?${name}=${value}`, as ? { user: as } : {});
        assert.equal(answer.status, 200, answer.text);
      }
      assert.ok(!names.some((name) => lacks.test(name)));
      const ordering = parameters.find(({ name }) => name === 'ordering')?.description ?? '';
      assert.equal(/\b(casting|secret)\b/.test(ordering), model !== 'covert', ordering);
    });

  test('make credentials count where they lead to a resource for users', async () => {
    const { json } = await service.request('/api/openapi.json');
    assert.deepEqual(json.paths['/api/deep'].get.security, [{}, { user: [] }]);
    assert.deepEqual(json.paths['/api/award'].get.security, []);
  });

  const named = [
    'casting=1,Weaver%252C%2520S.',
    'casting_id=1,Weaver%252C%2520S.',
    'casting_id__role=Ripley',
  ];
  for (const query of [...named, '-casting_id__is=null', 'casting_id__in="1,Weaver%252C%2520S."'])
    test(`are filters with and without _id: ${query}`, async () => {
      const { status, json, text } = await service.request(`/api/award/?${query}&ordering=-casting_id`);
      assert.equal(status, 200, text);
      assert.deepEqual(
        json.objects.map(({ name }: { name: string }) => name),
        ['Saturn'],
      );
    });

  const headers = { Accept: 'text/html' };
  test('are among the filters of the pages of the API', async () => {
    const page = await service.request('/api/award/', { headers });
    assert.match(page.text, /<code>casting<\/code>/);
    assert.doesNotMatch((await service.request('/api/covert/', { headers })).text, /<code>casting/);
  });

  test('are filters of the admin area by a related record', async () => {
    const list = await ada.get('/admin/award/');
    assert.match(list.text, /href="\/admin\/award\/\?_filter=casting"/);
    const form = await ada.get('/admin/award/?_filter=casting');
    assert.match(readable(form), /Weaver, S\. in Alien/);
    const fields = { ...fieldsOf(form), _how: 'eq', _value: '1,Weaver%2C%20S.' };
    const filtered = await ada.get(`/admin/award/-/filter/?${new URLSearchParams(fields).toString()}`);
    const found = readable(await ada.follow(filtered));
    assert.match(found, /Casting is Weaver, S\. in Alien.*Saturn/);
    assert.doesNotMatch(found, /None/);
    assert.doesNotMatch((await ada.get('/admin/covert/')).text, /_filter=casting/);
  });

  test('are links to the related record, in lists and forms of the admin area', async () => {
    const link = /<a href="(\/admin\/casting\/[^"]*)"[^>]*>Weaver, S\. in Alien<\/a>/;
    for (const path of ['/admin/award/', '/admin/award/1/', '/admin/listed/', '/admin/listed/1/']) {
      const page = await ada.get(path);
      const [, target = ''] = link.exec(page.text) ?? [];
      assert.notEqual(target, '', `${path}: ${page.text}`);
      assert.match(readable(await ada.get(target)), /Weaver, S\. in Alien/);
    }
    assert.doesNotMatch((await ada.get('/admin/award/2/')).text, /href="\/admin\/casting\/[^"?]/);
    const sorted = await ada.get('/admin/listed/?ordering=casting__actor');
    assert.equal(sorted.status, 200);
    const form = await ada.get('/admin/award/1/');
    const saved = await ada.post('/admin/award/1/', { ...fieldsOf(form), name: 'Saturn Award' });
    assert.equal(saved.status, 303, readable(saved));
    await ada.post('/admin/award/1/', { ...fieldsOf(await ada.get('/admin/award/1/')), name: 'Saturn' });
  });
});
