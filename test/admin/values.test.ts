// What people type, at every door and in every language: what is stored, what is refused, and how it is shown.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { errorsIn, fieldsOf, hiddenFields, readable, unescaped, useAdmin, type Fields } from './support.ts';

const columns = {
  price: { type: 'decimal', null: true, min: 0.5, precision: 9, scale: 3 },
  count: { type: 'integer', null: true },
  ratio: { type: 'float', null: true },
  hour: { type: 'time', null: true },
  day: { type: 'date', null: true },
  at: { type: 'datetime', null: true },
  sums: { type: 'array', of: 'decimal', null: true },
} as const;
type Name = keyof typeof columns;

const resources: Resource[] = [
  user,
  {
    model: 'ware',
    columns: { name: { type: 'string' }, ...columns },
    admin: {
      filters: Object.keys(columns),
      list: ['name', 'price', 'sums'],
      inlines: [{ model: 'part', extra: 1 }],
      actions: [
        {
          name: 'reprice',
          title: 'Reprice',
          on: ['list'],
          fields: columns,
          confirm: 'Sure?',
          run: async ({ records, values, operations }) => {
            for (const { id } of records) await operations.update('ware', Number(id), values);
          },
        },
      ],
    },
    access: 'admin',
  },
  {
    model: 'part',
    columns: { ware: { type: 'foreignKey', references: 'ware', onDelete: 'cascade' }, ...columns },
    access: 'admin',
  },
];

const LANGUAGES = ['en', 'de', 'fr', 'es'] as const;
type Language = (typeof LANGUAGES)[number];

/** What is typed, and what is stored in English, and in German, French and Spanish; undefined if it is refused. */
const CASES: readonly (readonly [Name, string, string | undefined, string | undefined])[] = [
  ['price', '12,50', '12.500', '12.500'],
  ['price', '12.50', '12.500', '12.500'],
  ['price', '1,234', undefined, '1.234'],
  ['price', '1.234', '1.234', undefined],
  ['price', '1.234,5', '1234.500', '1234.500'],
  ['count', '1.234', undefined, '1234'],
  ['count', '1,5', undefined, undefined],
  ['ratio', '0,125', '0.125', '0.125'],
  ['hour', '8:30 PM', '20:30:00', '20:30:00'],
  ['day', '31.12.2026', '2026-12-31', '2026-12-31'],
  ['day', '01/02/2026', undefined, undefined],
  ['at', '31.12.2026 8:30', '2026-12-31 08:30:00', '2026-12-31 08:30:00'],
  ['sums', '12,5\r\n0.25', '{12.5,0.25}', '{12.5,0.25}'],
  ['sums', '12,5\r\nx', undefined, undefined],
];

describe('a typed value', () => {
  const { service, ada } = useAdmin(resources);
  const insert = async (): Promise<string> => {
    const [ware] = await service.sql`insert into ware (name) values ('w') returning id`;
    await service.sql`insert into part (ware_id) values (${Number(ware?.['id'])})`;
    return String(ware?.['id']);
  };
  const stored = async (table: 'ware' | 'part', name: Name, id: string): Promise<string | null> => {
    const { sql } = service;
    const key = sql(table === 'ware' ? 'id' : 'ware_id');
    const [row] = await sql`select ${sql(name)}::text as one from ${sql(table)} where ${key} = ${Number(id)}`;
    return row?.['one'] as string | null;
  };
  const speak = async (language: Language): Promise<void> => {
    await ada.get('/admin/-/account/');
    await ada.post('/admin/-/display/', { language });
  };
  const bulk = async (id: string, sent: Fields): Promise<unknown> => {
    const path = '/admin/ware/-/bulk/';
    const asked = await ada.post(path, { _state: '', _id: id, _value: '1', ...sent });
    return asked.status === 200 ? ada.post(path, hiddenFields(asked, 'record')) : asked;
  };

  /** Types a text at a door. @returns what is stored then */
  const DOORS: Readonly<Record<string, (name: Name, text: string, id: string) => Promise<string | null>>> = {
    form: async (name, text, id) => {
      const path = `/admin/ware/${id}/`;
      await ada.post(path, { ...fieldsOf(await ada.get(path)), [name]: text });
      return stored('ware', name, id);
    },
    row: async (name, text, id) => {
      const path = `/admin/ware/${id}/`;
      await ada.post(path, { ...fieldsOf(await ada.get(path)), [`part.0.${name}`]: text });
      return stored('part', name, id);
    },
    'bulk change': async (name, text, id) => {
      await bulk(id, { _action: 'set', _column: name, [name]: text });
      return stored('ware', name, id);
    },
    action: async (name, text, id) => {
      await bulk(id, { _action: 'do.reprice', [name]: text });
      return stored('ware', name, id);
    },
    filter: async (name, text, id) => {
      const sent = new URLSearchParams({ _path: name, _how: 'eq', _value: text });
      const { location = '' } = await ada.get(`/admin/ware/-/filter/?${sent.toString()}`);
      const value = new URL(location, service.base).searchParams.get(name);
      if (value === null) return null;
      // The value that the filter compares with.
      const { sql } = service;
      await sql`update ware set ${sql(name)} = null where id = ${Number(id)}`;
      await sql.unsafe(`update ware set ${name} = $1::text::${name === 'count' ? 'numeric' : { price: 'numeric', ratio: 'float', hour: 'time', day: 'date', at: 'timestamp' }[name as 'price']} where id = $2`, [value, id]); // prettier-ignore
      const found = await ada.get(`${location}&id=${id}`);
      return found.text.includes(`/admin/ware/${id}/`) ? stored('ware', name, id) : null;
    },
  };

  for (const [door, type] of Object.entries(DOORS))
    for (const [name, text, english, others] of CASES)
      if (door !== 'filter' || (name !== 'sums' && name !== 'count'))
        test(`${JSON.stringify(text)} in ${name}, at the door ${door}`, async () => {
          for (const language of LANGUAGES) {
            await speak(language);
            const expected = language === 'en' ? english : others;
            assert.equal(await type(name, text, await insert()), expected ?? null, language);
          }
        });

  test('that may be two is refused, and both are offered as the language writes them', async () => {
    const id = await insert();
    for (const [language, text, error] of [
      ['en', '1,234', 'May mean 1234 or 1.234: enter one of them.'],
      ['de', '1.234', 'Kann 1234 oder 1,234 bedeuten: geben Sie eines davon ein.'],
      ['fr', '1.234', 'Peut signifier 1234 ou 1,234\u00a0: saisissez l’un d’eux.'],
      ['es', '1.234', 'Puede significar 1234 o 1,234: introduzca uno de ellos.'],
    ] as const) {
      await speak(language);
      const path = `/admin/ware/${id}/`;
      const refused = await ada.post(path, { ...fieldsOf(await ada.get(path)), price: text });
      assert.deepEqual([refused.status, errorsIn(refused)], [400, { price: error }]);
      assert.equal(fieldsOf(refused)['price'], text);
      const offered = /(?:mean|Kann|signifier|significar) 1234 \S+ (\S+?)(?=[:\s])/.exec(error)?.[1] ?? '';
      await DOORS['form']?.('price', offered, id);
      assert.equal(await stored('ware', 'price', id), '1.234');
      await service.sql`update ware set price = null`;
    }
    await speak('de');
    const list = await ada.follow(await ada.get('/admin/ware/-/filter/?_panel=1&_from.price=1.234'));
    assert.match(list.text, /Price: 1\.234 kann 1234 oder 1,234 bedeuten/);
    await ada.get('/admin/ware/');
  });

  test('that may be two stays as it was typed on the page of a conflict, and is refused after it', async () => {
    const id = await insert();
    await speak('de');
    const path = `/admin/ware/${id}/`;
    const page = await ada.get(path);
    await service.sql`update ware set price = 2.5, name = 'new' where id = ${Number(id)}`;
    const conflict = await ada.post(path, { ...fieldsOf(page), price: '1.234' });
    assert.equal(conflict.status, 409);
    assert.match(readable(conflict), / 1\.234 2,500 /);
    const refused = await ada.post(path, { ...fieldsOf(conflict), '_take.price': 'mine' });
    assert.notEqual(refused.status, 303);
    assert.equal(await stored('ware', 'price', id), '2.500');
  });

  test('keeps its limits, which the error writes as the language does', async () => {
    await speak('de');
    const path = `/admin/ware/${await insert()}/`;
    const refused = await ada.post(path, { ...fieldsOf(await ada.get(path)), price: '0,25' });
    assert.deepEqual(errorsIn(refused), { price: 'Muss mindestens 0,5 sein.' });
    const digits = await ada.post(path, { ...fieldsOf(await ada.get(path)), price: '1,2345' });
    assert.equal(digits.status, 400);
  });

  test('is shown with the decimal separator of the language, and addresses keep the format of the API', async () => {
    const id = await insert();
    await service.sql`update ware set price = 1.234, sums = '{1.5,2.25}', ratio = 1.5 where id = ${Number(id)}`;
    await service.sql`update part set price = 10.9 where ware_id = ${Number(id)}`;
    for (const language of LANGUAGES) {
      await speak(language);
      const semicolon = language === 'fr' ? ' ; ' : '; ';
      const [price, sums] = language === 'en' ? ['1.234', '1.5, 2.25'] : ['1,234', `1,5${semicolon}2,25`];
      const list = await ada.get(`/admin/ware/?id=${id}`);
      assert.ok(readable(list).includes(`w ${price} ${sums}`), readable(list));
      const page = await ada.get(`/admin/ware/${id}/`);
      const fields = fieldsOf(page);
      assert.deepEqual(
        [fields['price'], fields['part.0.price']],
        [price, language === 'en' ? '10.900' : '10,900'],
      );
      assert.match(page.text, /<input[^>]*name="price"[^>]*type="text"[^>]*inputmode="decimal"/);
      assert.match(page.text, /<input[^>]*name="count"[^>]*inputmode="numeric"/);
      assert.equal((await ada.post(`/admin/ware/${id}/`, { ...fields, name: `w ${language}` })).status, 303);
      assert.equal(await stored('ware', 'price', id), '1.234');
      await service.sql`update ware set name = 'w'`;
      const sent = new URLSearchParams({ '_from.price': price, _path: 'ratio', _how: 'in', _value: sums });
      const { location = '' } = await ada.get(`/admin/ware/-/filter/?${sent.toString()}`);
      assert.equal(
        unescaped(decodeURIComponent(location)),
        '/admin/ware/?price__gte=1.234&ratio__in=1.5,2.25',
      );
      const filtered = await ada.get(location);
      assert.match(filtered.text, new RegExp(`name="_from.price"[^>]* value="${price}"`));
      const listed = language === 'en' ? '1.5,2.25' : '1,5; 2,25';
      for (const words of [price, listed])
        assert.ok(new RegExp(`<b>[^<]*${words}`).test(filtered.text), words);
      const export_ = await ada.get(`/admin/ware/-/export.csv?id=${id}`);
      assert.match(export_.text, /,1\.234,/);
    }
    await speak('de');
    await ada.post(`/admin/ware/${id}/`, { ...fieldsOf(await ada.get(`/admin/ware/${id}/`)), price: '99,5' });
    assert.match(readable(await ada.get(`/admin/ware/${id}/history/`)), /1,234 99,500/);
  });
});
