// A query with a name that nothing has is answered with a guess at what was meant.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { users } from '../db/helpers.ts';
import { useService } from '../support.ts';

describe('a name that a query cannot use', () => {
  const service = useService([
    { ...users, exclude: ['password', 'email'] },
    {
      model: 'ticket',
      columns: {
        title: { type: 'string' },
        priority: { type: 'integer' },
        emails: { type: 'integer', null: true },
        user: { type: 'foreignKey', references: 'user' },
        secret: { type: 'foreignKey', references: 'vault', null: true },
        tags: { type: 'array', of: 'string', null: true },
        marks: { type: 'array', of: 'integer', null: true },
      },
    },
    { model: 'vault', columns: { combination: { type: 'string' } }, read: 'admin', access: 'admin' },
    { model: 'sorted', columns: { sort: { type: 'integer' }, offset: { type: 'integer' } } },
  ]);
  const none = 'there is no such column';
  const guess = (fault: string, name: string): string => `${fault}; did you mean ${name}?`;
  const neither = (name: string): string => `"${name}" is neither a column nor an operator here`;
  const noOperator = (name: string): string => `this column does not support the operator ${name}`;

  for (const [query, fault] of [
    ['titel=a', guess(none, 'title')],
    ['Title=a', guess(none, 'title')],
    ['prioritty__gt=1', guess(none, 'priority')],
    ['orderign=id', guess(none, 'ordering')],
    ['orderign__in=id', none],
    ['sort=id', guess(none, 'ordering')],
    ['order_by=id', guess(none, 'ordering')],
    ['offset=20', guess(none, 'page')],
    ['page_size=20', guess(none, 'limit')],
    ['search=a', 'there is no such column; search with a filter such as name__ilike=%word%'],
    ['expand=user', 'there is no such column; read related records in their own collection, by id__in'],
    ['something=1', none],
    ['title__icontains=a', guess(neither('icontains'), 'ilike')],
    ['title__contains=a', guess(noOperator('contains'), 'ilike')],
    ['priority__contains=1', noOperator('contains')],
    ['title__startswith=a', guess(neither('startswith'), 'like')],
    ['priority__isnull=true', guess(neither('isnull'), 'is')],
    ['priority__icontains=1', neither('icontains')],
    ['title__ilik=a', guess(neither('ilik'), 'ilike')],
    ['tags=battery', guess('must be a JSON array', 'tags__contains')],
    ['tags__in=a,b', guess('must be a JSON array', 'tags__contains')],
    ['-marks=5', guess('must be an array', 'marks__contains')],
    ['marks=x', 'must be a JSON array'],
    ['tags=', 'must be a JSON array'],
    ['user__usrename=a', guess(neither('usrename'), 'username')],
    ['user__usrename__ilike=a', guess(neither('usrename__ilike'), 'username')],
  ] as const)
    test(`${query} is 400: ${fault}`, async () => {
      const { status, json } = await service.request(`/api/ticket/?${query}`);
      assert.equal(status, 400);
      assert.deepEqual(json.errors, { [query.split('=')[0] ?? '']: [fault] });
    });

  test('an ordering gets a guess, too', async () => {
    const { json } = await service.request('/api/ticket/?ordering=-titel,zzz');
    assert.deepEqual(json.errors.ordering, [`titel: ${guess(none, 'title')}`, `zzz: ${none}`]);
  });

  test('columns of the resource take precedence over words of other systems', async () => {
    assert.equal((await service.request('/api/sorted/?sort=1&offset=2')).status, 200);
  });

  test('no guess names what the caller may not see, or depends on it', async () => {
    for (const [query, fault] of [
      ['user__pasword=x', neither('pasword')],
      ['user__password=x', neither('password')],
      ['secret__combinatio=x', neither('combinatio')],
      ['secret__combination=x', neither('combination')],
      ['email=x', guess(none, 'emails')],
    ] as const) {
      const { json } = await service.request(`/api/ticket/?${query}`);
      assert.deepEqual(Object.values(json.errors), [[fault]]);
    }
  });

  test('only the first faults of a query get one', async () => {
    const query = Array.from({ length: 20 }, (_, index) => `titel__${index}=a`).join('&');
    const { json } = await service.request(`/api/ticket/?${query}`);
    const faults = Object.values(json.errors as Record<string, string[]>);
    assert.equal(faults.filter(([fault]) => fault?.includes('did you mean')).length, 5);
  });
});
