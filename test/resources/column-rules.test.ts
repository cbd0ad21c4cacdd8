// What a registry says of values beyond their types: sets of columns that are unique together, patterns, bounds of dates.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import {
  errorsIn,
  fieldsOf,
  hiddenFields,
  readable,
  runBulk,
  unescaped,
  useAdmin,
} from '../admin/support.ts';
import { startFaults, startOnce, users } from '../db/helpers.ts';
import { sendAs, serverUrl, useDatabase } from '../support.ts';

const patient: Resource = {
  model: 'patient',
  columns: {
    given: { type: 'string' },
    family: { type: 'string', column: 'surname' },
    born: { type: 'date', null: true },
    doctor: { type: 'foreignKey', references: 'user', null: true },
  },
  unique: [
    ['given', 'family', 'born'],
    ['doctor', 'born'],
  ],
  access: 'user',
};

/** The lines of the error message of a start, which the registry alone decides. */
const registryFaults = (resources: unknown): Promise<string[]> =>
  startFaults({ url: new URL('/vitrine_test_none', serverUrl()).href }, resources as Resource[]);

describe('sets of columns that are unique together', () => {
  const { service, ada } = useAdmin([users, patient]);
  const ann = { given: 'Ann', family: 'Lee', born: '1980-02-29' };
  const taken = ['another record has these values together (given, family, born)'];

  test('a duplicate is 409 and names the columns, also in an array, and another value or NULL is none', async () => {
    const send = sendAs(service, 'ada');
    assert.equal((await send('POST', '/api/patient/', ann)).status, 201);
    const again = await send('POST', '/api/patient/', ann);
    assert.equal(again.status, 409);
    assert.deepEqual(again.json.errors, { given: taken, family: taken, born: taken });
    const several = await send('POST', '/api/patient/', [{ ...ann, born: null }, ann]);
    assert.deepEqual(several.json.errors, { '1.given': taken, '1.family': taken, '1.born': taken });
    for (const other of [{ given: 'Bob' }, { born: null }, { born: null }])
      assert.equal((await send('POST', '/api/patient/', { ...ann, ...other })).status, 201);
    const bob = (await send('GET', '/api/patient/?given=Bob')).json.objects[0];
    const renamed = await send('PUT', `/api/patient/${bob.id}/`, { given: 'Ann' });
    assert.deepEqual([renamed.status, renamed.json.errors], [409, { given: taken }]);
  });

  test('the admin area shows the error at each of the fields', async () => {
    const form = await ada.get('/admin/patient/-/add/');
    const refused = await ada.post('/admin/patient/-/add/', { ...fieldsOf(form), ...ann });
    assert.equal(refused.status, 409);
    const [text] = Object.values(errorsIn(refused));
    assert.match(text ?? '', /Another record has these values together \(Given, Family, Born\)/);
    assert.deepEqual(errorsIn(refused), { given: text, family: text, born: text });
  });

  test('setting one of the columns in several records names the others', async () => {
    const { sql } = service;
    const made = await sql`insert into patient (given, surname, born) values ('Cid', 'Roe', '1990-01-01'), ('Dan', 'Roe', '1990-01-01') returning id`;
    const ids = made.map(({ id }) => String(id));
    const refused = await runBulk(ada, 'patient', { _action: 'set', _id: ids, _column: 'given', given: 'Eve' });
    assert.equal(refused.status, 409);
    assert.match(readable(refused), /Must be unique together \(Given, Family, Born\), so two records cannot have the same values\./);
  }); // prettier-ignore

  test('the OpenAPI document describes them for writers', async () => {
    const { json } = await sendAs(service, 'ada')('GET', '/api/openapi.json');
    for (const name of ['patient.New', 'patient.Change'])
      assert.match(
        json.components.schemas[name].description,
        /^No two records have the same `given`, `family`, `born`\. No two .* `doctor_id`, `born`\.$/,
      );
    assert.equal(json.components.schemas['user.New'].description, undefined);
  });
});

describe('a database without these sets', () => {
  const database = useDatabase();
  const model = {
    ...patient,
    access: 'default',
    columns: { ...patient.columns, doctor: { type: 'integer', null: true } },
  } as const;

  test('stops a start with SCHEMA=check; SCHEMA=apply creates them once, in any order of columns', async () => {
    const { sql } = database;
    await sql`create table patient (id serial primary key, given varchar(255) not null, surname varchar(255) not null, born date, doctor integer)`;
    await sql`create unique index on patient (born, doctor)`;
    const fault = '  - patient: unique: given, surname, born are not unique together in the database';
    assert.deepEqual(await startFaults(database, [model], { schema: 'check' }), [fault]);
    await startOnce(database, [model]);
    await startOnce(database, [model], { schema: 'check' });
    const indexes = await sql`select from pg_indexes where tablename = 'patient'`;
    assert.equal(indexes.count, 3);
  });

  for (const [unique, text] of [
    ['given', 'must be an array of sets of 2 to 32 columns'],
    [[['given']], 'must be an array of sets of 2 to 32 columns'],
    [[], 'must be an array of sets of 2 to 32 columns'],
    [[['given', 'given']], 'must not name a column twice'],
    [[['given', 'nick']], 'there is no column nick'],
  ] as const)
    test(`unique: ${JSON.stringify(unique)} is a fault of the registry`, async () => {
      assert.deepEqual(await registryFaults([{ ...model, unique }]), [`  - patient: unique: ${text}`]);
    });
});

/** Patterns that JavaScript and the service must understand alike, and texts that they may match. */
const ATOMS = [
  'a',
  'b',
  '.',
  '\\d',
  '\\W',
  '[ab]',
  '[^a\\]]',
  '\\.',
  '\\u{1F600}',
  '\\p{Lu}',
  '^',
  '$',
  '-',
  'é',
];
const pattern = fc.letrec<{ pattern: string; term: string }>((tie) => ({
  pattern: fc
    .array(
      fc.array(tie('term'), { maxLength: 4 }).map((terms) => terms.join('')),
      { minLength: 1, maxLength: 3 },
    )
    .map((options) => options.join('|')),
  term: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(...ATOMS),
    fc
      .tuple(
        fc.constantFrom('a', 'b', '[ab]', '.'),
        fc.constantFrom('*', '+', '?', '{2}', '{1,3}', '{2,}', '*?'),
      )
      .map((both) => both.join('')),
    fc
      .tuple(tie('pattern'), fc.constantFrom('(', '(?:'), fc.constantFrom('', '*', '+', '{0,2}'))
      .map(([inner, open, times]) => `${open}${inner})${times}`),
  ),
})).pattern;
const PATTERNS = fc.sample(pattern, { numRuns: 150, seed: 15 }).filter((one) => one !== '');
const subject = fc.string({
  unit: fc.constantFrom('a', 'b', 'A', '1', '-', '.', ']', 'é', '😀', '\n'),
  maxLength: 8,
});

describe('patterns', () => {
  const fields = Object.fromEntries(
    PATTERNS.map((one, index) => [`p${index}`, { type: 'text', maxLength: 100, null: true, pattern: one }]),
  ) as Resource['columns'];
  const code: Resource = {
    model: 'code',
    columns: {
      plain: { type: 'string', maxLength: 12, pattern: '^[A-Z]{2}-[0-9]{4}$', null: true },
      slow: { type: 'text', maxLength: 10_000, pattern: '^(a+)+$|^(a|a)*$|(.*a){20}b', null: true },
    },
    access: 'user',
  };
  const { service, ada } = useAdmin([users, code, { model: 'any', columns: fields, access: 'user' }]);

  test('match the same texts as in JavaScript', async () => {
    const send = sendAs(service, 'ada');
    await fc.assert(
      fc.asyncProperty(fc.array(subject, { minLength: 5, maxLength: 5 }), async (texts) => {
        const body = Object.fromEntries(PATTERNS.map((_, index) => [`p${index}`, texts[index % 5]]));
        const wrong = PATTERNS.flatMap((one, index) =>
          new RegExp(one, 'u').test(texts[index % 5] ?? '') ? [] : [`p${index}`],
        );
        const { status, json } = await send('POST', '/api/any/', body);
        assert.equal(status, wrong.length > 0 ? 400 : 201);
        const reported = Object.keys(json.errors ?? {});
        if (wrong.length > 0) assert.deepEqual(reported, wrong.slice(0, reported.length));
      }),
      { numRuns: 60 },
    );
  });

  test('refuse a value with the pattern in the error, also in the admin area', async () => {
    const send = sendAs(service, 'ada');
    const { json } = await send('POST', '/api/code/', { plain: 'ab-1234' });
    assert.deepEqual(json.errors, {
      plain: ['must match the pattern ^[A-Z]{2}-[0-9]{4}$'],
    });
    assert.equal((await send('POST', '/api/code/', { plain: 'AB-1234' })).status, 201);
    const form = await ada.get('/admin/code/-/add/');
    const refused = await ada.post('/admin/code/-/add/', { ...fieldsOf(form), plain: 'x' });
    assert.match(errorsIn(refused)['plain'] ?? '', /must match the pattern/i);
  });

  test('are no filter, and a stored value that does not match can be kept but not set', async () => {
    const [row] = await service.sql`insert into code (plain) values ('old') returning id`;
    const path = `/api/code/${row?.['id']}/`;
    const send = sendAs(service, 'ada');
    assert.equal((await send('PUT', path, { plain: 'old' })).status, 200);
    assert.equal((await send('PUT', path, { plain: 'older' })).status, 400);
    assert.equal((await send('GET', '/api/code/?plain=old')).json.objects.length, 1);
  });

  test('take time in proportion to the text, where backtracking would never end', async () => {
    const text = 'a'.repeat(9_999);
    const { json } = await sendAs(service, 'ada')('POST', '/api/code/', { slow: `${text}!` });
    assert.match(json.errors.slow[0], /^must match/);
  });

  test('are in the OpenAPI document, with an example that matches', async () => {
    const { json } = await sendAs(service, 'ada')('GET', '/api/openapi.json');
    const { properties, examples } = json.components.schemas['code.New'];
    assert.equal(properties.plain.pattern, '^[A-Z]{2}-[0-9]{4}$');
    assert.equal(json.components.schemas.code.properties.plain.pattern, undefined);
    assert.match(examples[0].plain, /^[A-Z]{2}-[0-9]{4}$/);
  });

  for (const [wrong, text] of [
    ['[', /pattern: is not a regular expression: /],
    ['(a)\\1', /pattern: has back-references, which are not supported$/],
    ['(?<x>a)\\k<x>', /pattern: has back-references/],
    ['(?!a)', /pattern: has lookarounds/],
    ['(?<=a)b', /pattern: has lookarounds/],
    ['a\\b', /pattern: has word boundaries/],
    ['(a{50}){50}', /pattern: is too long, or repeats too much/],
    [/a/u, /pattern: must be a string such as/],
    ['', /pattern: must be a string such as/],
  ] as const)
    test(`${String(wrong)} is a fault of the registry`, async () => {
      const columns = { x: { type: 'string', pattern: wrong } };
      const faults = await registryFaults([{ model: 'one', columns }]);
      assert.equal(faults.length, 1);
      assert.match(faults[0] ?? '', text);
    });

  test('a text with a pattern must be short, and elements of arrays have none', async () => {
    const columns = {
      x: { type: 'text', pattern: 'a' },
      y: { type: 'string', pattern: 'a', maxLength: 10_001 },
      z: { type: 'string', pattern: 'a' },
    };
    assert.deepEqual(await registryFaults([{ model: 'one', columns }]), [
      '  - one: columns.x.pattern: requires a maxLength of at most 10000',
      '  - one: columns.y.pattern: requires a maxLength of at most 10000',
    ]);
    const array = { type: 'array', of: 'string', elements: { pattern: 'a' } };
    const [fault] = await registryFaults([{ model: 'one', columns: { array } }]);
    assert.match(fault ?? '', /elements\.pattern: elements of type string have no such key/);
  });

  test('a default and choices that do not match are faults', async () => {
    const x = { type: 'string', pattern: '^a' };
    const columns = { x: { ...x, default: 'b' }, y: { ...x, choices: ['a', 'c'] } };
    assert.deepEqual(await registryFaults([{ model: 'one', columns }]), [
      '  - one: columns.x.default: "b" must match the pattern ^a',
      '  - one: columns.y.choices: "c" must match the pattern ^a',
    ]);
  });
});

describe('bounds of dates and times', () => {
  const visit: Resource = {
    model: 'visit',
    columns: {
      born: { type: 'date', min: '1900-01-01', max: 'today', null: true },
      at: { type: 'datetime', min: '2024-05-31 08:00', max: '2999-12-31T20:00:00+02:00', null: true },
      due: { type: 'datetime', min: 'now', null: true },
      day: { type: 'datetime', min: 'today', max: 'today', null: true },
      opens: { type: 'time', min: '07:00', max: '20:00', null: true },
      late: { type: 'time', max: 'now', null: true },
      days: { type: 'array', of: 'date', elements: { max: '2000-12-31' }, null: true },
    },
    access: 'user',
    admin: {
      actions: [
        {
          name: 'note',
          title: 'Note',
          on: ['list'],
          fields: {
            day: { type: 'date', default: 'now' },
            last: { type: 'date', min: 'today', max: 'today', null: true },
          },
          run: ({ values }) => JSON.stringify(values),
        },
      ],
    },
  };
  const { service, ada } = useAdmin([users, visit]);
  const in20Years = `${new Date().getUTCFullYear() + 20}-01-01`;
  const today = (): string => new Date().toISOString().slice(0, 10);

  for (const [body, error] of [
    [{ born: '1899-12-31' }, 'must not be before 1900-01-01'],
    [{ born: '1900-01-01' }],
    [{ born: in20Years }, 'must not be after today'],
    [{ at: '2024-05-31 07:59:59' }, 'must not be before 2024-05-31 08:00:00'],
    [{ at: '2024-05-31T08:00:00Z' }],
    [{ at: '2024-05-31T08:00:00+01:00' }, 'must not be before 2024-05-31 08:00:00'],
    [{ at: '2999-12-31 18:00:01' }, 'must not be after 2999-12-31 18:00:00'],
    [{ due: '2020-01-01 00:00:00' }, 'must not be before now'],
    [{ due: `${in20Years} 00:00:00` }],
    [{ day: '2020-01-01 00:00:00' }, 'must not be before today'],
    [{ day: `${in20Years} 00:00:00` }, 'must not be after today'],
    [{ opens: '06:59' }, 'must not be before 07:00:00'],
    [{ opens: '20:00' }],
    [{ opens: '20:00:01' }, 'must not be after 20:00:00'],
    [{ late: '00:00:00' }],
    [{ days: ['2000-12-31', '2001-01-01'] }, 'element 2: must not be after 2000-12-31'],
  ] as [object, string?][])
    test(`${JSON.stringify(body)} ${error ?? 'is allowed'}`, async () => {
      const { status, json } = await sendAs(service, 'ada')('POST', '/api/visit/', body);
      assert.equal(status, error === undefined ? 201 : 400);
      if (error !== undefined) assert.deepEqual(Object.values(json.errors), [[error]]);
    });

  test('both ends of the day of the write are within it', async () => {
    const day = today();
    const send = sendAs(service, 'ada');
    const answers = await Promise.all(
      ['00:00:00', '23:59:59'].map((time) => send('POST', '/api/visit/', { day: `${day} ${time}` })),
    );
    if (today() === day) assert.deepEqual(answers.map(({ status }) => status), [201, 201]); // prettier-ignore
  });

  for (const [zone, offset] of [
    ['Pacific/Kiritimati', '+14:00'],
    ['Pacific/Pago_Pago', '-11:00'],
  ] as const)
    describe(`with TIME_ZONE=${zone}`, () => {
      const there = useAdmin([users, visit], { timeZone: zone });
      const dayThere = (from = 0): string => new Date(Date.now() + from).toLocaleDateString('sv', { timeZone: zone });
      const DAY = 86_400_000;

      test('the day is that of the zone, whatever zone a user has chosen', async () => {
        const day = dayThere();
        const start = Date.parse(`${day}T00:00:00${offset}`);
        const at = (time: number): string => new Date(time).toISOString();
        const [late, early] = [`must not be after today in ${zone}`, `must not be before today in ${zone}`];
        there.ada.cookies.set('admin-zone', 'UTC');
        for (const [body, error] of [
          [{ born: day }],
          [{ born: dayThere(DAY) }, late],
          [{ day: at(start) }],
          [{ day: at(start - 1000) }, early],
          [{ day: at(start + DAY - 1000) }],
          [{ day: at(start + DAY) }, late],
        ] as [object, string?][]) {
          const { status, json } = await sendAs(there.service, 'ada')('POST', '/api/visit/', body);
          if (dayThere() !== day) return; // midnight has passed meanwhile
          assert.equal(status, error === undefined ? 201 : 400, JSON.stringify([body, json]));
          if (error !== undefined) assert.deepEqual(Object.values(json.errors), [[error]]);
        }
        const form = await there.ada.get('/admin/visit/-/add/');
        const saved = await there.ada.post('/admin/visit/-/add/', { ...fieldsOf(form), born: day });
        if (dayThere() === day) assert.equal(saved.status, 303);
      });

      test('the days of an action are those of the zone, also the one of an empty field', async () => {
        const day = dayThere();
        const visits = '/admin/visit/-/bulk/';
        await there.service.sql`insert into visit (born) values (null)`;
        const chosen = { _state: '', _all: '1', _action: 'do.note' };
        const asked = await there.ada.post(visits, chosen);
        const run = (last: string) => there.ada.post(visits, { ...hiddenFields(asked, 'record'), ...chosen, day: '', last });
        const done = unescaped((await there.ada.follow(await run(day))).text);
        const [early, late] = [await run(dayThere(-DAY)), await run(dayThere(DAY))];
        if (dayThere() !== day) return; // midnight has passed meanwhile
        assert.match(done, new RegExp(`{"day":"${day}","last":"${day}"}`));
        assert.deepEqual([early.status, late.status], [400, 400]);
      });
    }); // prettier-ignore

  test('a stored value outside of them can be sent back, and has no bounds in the form', async () => {
    const [row] =
      await service.sql`insert into visit (born, due) values ('1850-01-01', '2020-01-01') returning id`;
    const path = `/api/visit/${row?.['id']}/`;
    const send = sendAs(service, 'ada');
    const { json } = await send('GET', path);
    assert.equal((await send('PUT', path, json)).status, 200);
    const page = await ada.get(`/admin/visit/${row?.['id']}/`);
    assert.doesNotMatch(/<input[^>]*name="born"[^>]*>/.exec(page.text)?.[0] ?? 'min=', /min=/);
  });

  test('the form has those that are literal', async () => {
    const { text } = await ada.get('/admin/visit/-/add/');
    const input = (name: string): string =>
      new RegExp(`<input[^>]*name="${name}"[^>]*>`).exec(text)?.[0] ?? '';
    assert.match(input('born'), /min="1900-01-01"/);
    assert.doesNotMatch(input('born'), /max=/);
    assert.match(input('at'), /min="2024-05-31T08:00:00"[^>]*max="2999-12-31T18:00:00"/);
    assert.match(input('opens'), /min="07:00:00"[^>]*max="20:00:00"/);
  });

  test('the OpenAPI document names them in bodies, and its examples keep them', async () => {
    const { json } = await sendAs(service, 'ada')('GET', '/api/openapi.json');
    const { properties, examples } = json.components.schemas['visit.New'];
    assert.equal(properties.born.description, 'Not before 1900-01-01. Not after today.');
    assert.equal(
      properties.at.description,
      'YYYY-MM-DD HH:MM:SS, in UTC. Not before 2024-05-31 08:00:00. Not after 2999-12-31 18:00:00.',
    );
    assert.equal(examples[0].days[0], '2000-12-31');
    assert.equal(json.components.schemas.visit.properties.born.description, undefined);
  });

  for (const [column, fault] of [
    [
      { type: 'date', min: 'yesterday' },
      "min: \"yesterday\" must be a date such as 2024-05-31, or 'now' or 'today'",
    ],
    [
      { type: 'datetime', min: 'tomorrow' },
      "min: \"tomorrow\" must be a date and time such as 2024-05-31 18:30:00, or 'now' or 'today'",
    ],
    [{ type: 'date', min: '2024-02-31' }, 'min: "2024-02-31" is not a valid date'],
    [{ type: 'time', max: 'today' }, 'max: "today" must be a time such as 18:30:00, or \'now\''],
    [{ type: 'datetime', min: '2024-01-02', max: '2024-01-01 23:00' }, 'min: must not be greater than max'],
    [{ type: 'date', min: 5 }, "min: must be a date or time as a string, 'now' or 'today'"],
    [{ type: 'integer', min: 'now' }, 'min: must be a number'],
    [
      { type: 'array', of: 'date', elements: { min: 'x' } },
      "elements.min: \"x\" must be a date such as 2024-05-31, or 'now' or 'today'",
    ],
    [
      { type: 'date', min: '2024-01-01', default: '2023-12-31' },
      'default: "2023-12-31" must not be before 2024-01-01',
    ],
  ] as const)
    test(`${JSON.stringify(column)} is a fault of the registry`, async () => {
      assert.deepEqual(await registryFaults([{ model: 'one', columns: { x: column } }]), [
        `  - one: columns.x.${fault}`,
      ]);
    });
});

describe('choices with labels', () => {
  const person: Resource = {
    model: 'person',
    columns: {
      sex: { type: 'string', choices: { f: 'female', m: 'male' }, default: 'f' },
      level: { type: 'integer', choices: { 10: 'beginner', 20: 'expert' }, null: true },
      tags: { type: 'array', of: 'string', choices: { a: 'asthma', d: 'diabetes' }, default: [] },
      smokes: { type: 'boolean', choices: { true: 'smoker', false: 'non-smoker' }, null: true },
    },
    access: 'user',
    admin: { list: ['id', 'sex', 'level', 'tags', 'smokes'], filters: ['sex', 'level'] },
  };
  const { service, ada } = useAdmin([users, person]);

  test('the API takes, shows and filters by values', async () => {
    const send = sendAs(service, 'ada');
    const body = { sex: 'm', level: 20, tags: ['d', 'a'], smokes: false };
    const { status, json } = await send('POST', '/api/person/', body);
    assert.deepEqual([status, json], [201, { id: 1, ...body }]);
    assert.deepEqual(
      (await send('POST', '/api/person/', { sex: 'male', level: 15, tags: ['x'] })).json.errors,
      {
        sex: ['must be one of f, m'],
        level: ['must be one of 10, 20'],
        tags: ['element 1: must be one of a, d'],
      },
    );
    assert.equal((await send('GET', '/api/person/?sex=m&level__in=20,10')).json.objects.length, 1);
  });

  test('the admin area shows the labels in lists, filters, forms and the history', async () => {
    const [list, filtered, form, record, history] = await Promise.all(
      ['', '?sex=m&level__in=10,20', '-/add/', '1/', '1/history/'].map((path) =>
        ada.get(`/admin/person/${path}`),
      ),
    );
    assert.match(list?.text ?? '', />male</);
    assert.match(list?.text ?? '', />\s*expert\s*</);
    assert.match(list?.text ?? '', /diabetes, asthma/);
    assert.match(list?.text ?? '', /non-smoker/);
    assert.match(filtered?.text ?? '', /Sex is\s+<b>male<\/b>/);
    assert.match(filtered?.text ?? '', /Level is one of\s+<b>beginner, expert<\/b>/);
    assert.match(filtered?.text ?? '', /name="_is.sex" value="=m" checked \/> <span>male/);
    assert.match(form?.text ?? '', /<option value="f" +selected[^>]*>female<\/option>/);
    assert.match(form?.text ?? '', /Choices: a \(asthma\), d \(diabetes\)\./);
    assert.match(record?.text ?? '', /<option value="20" +selected[^>]*>expert<\/option>/);
    assert.match(history?.text ?? '', /expert/);
    const saved = await ada.post('/admin/person/1/', {
      ...fieldsOf(await ada.get('/admin/person/1/')),
      sex: 'f',
    });
    assert.equal(saved.status, 303);
    assert.equal((await service.request('/api/person/1/')).json.sex, 'f');
  });

  test('CSV has the values', async () => {
    const csv = await service.request('/api/person/', { headers: { accept: 'text/csv' } });
    assert.match(csv.text, /^1,"f",20,/m);
  });

  test('the OpenAPI document lists values and labels', async () => {
    const { json } = await sendAs(service, 'ada')('GET', '/api/openapi.json');
    const { sex, level } = json.components.schemas['person.New'].properties;
    assert.deepEqual(
      [sex.enum, level.enum],
      [
        ['f', 'm'],
        [10, 20, null],
      ],
    );
    assert.match(sex.description, /`f`: female, `m`: male\./);
    assert.match(json.components.schemas.person.properties.sex.description, /`f`: female, `m`: male\./);
  });

  for (const [column, fault] of [
    [{ type: 'string', choices: {} }, 'choices: must be an object of values and their labels'],
    [{ type: 'string', choices: { a: '' } }, 'choices: must be an object of values and their labels'],
    [{ type: 'integer', choices: { a: 'A' } }, 'choices: "a" must be a whole number'],
    [{ type: 'string', choices: { a: 'A' }, default: 'b' }, 'default: is not one of the choices'],
    [{ type: 'string', choices: 'a' }, 'choices: must be an array of values, or an object such as'],
  ] as const)
    test(`${JSON.stringify(column)} is a fault of the registry`, async () => {
      const faults = await registryFaults([{ model: 'one', columns: { x: column } }]);
      assert.equal(faults.length, 1);
      assert.ok(faults[0]?.startsWith(`  - one: columns.x.${fault}`), faults[0]);
    });
});
