// What `introspect` makes of columns that triggers fill, served as it is printed.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { logIn } from '../admin/support.ts';
import { temporaryFolder } from '../process/support.ts';
import { createDatabase, startService, type TestService } from '../support.ts';
import { run } from './support.ts';
import { after, before, describe, test } from 'node:test';

interface Case {
  readonly about: string;
  /** The body of the function. */
  readonly body: string;
  /** `filled`: a POST may lack the column. `perhaps`: there is no POST. Otherwise a POST needs the column. */
  readonly effect: 'filled' | 'perhaps' | 'changed' | 'unset';
  readonly when?: string;
  /** Another state of the trigger. */
  readonly then?: string;
}

const CASES: readonly Case[] = [
  { about: 'an assignment', body: 'begin new.slug := lower(new.name); return new; end', effect: 'filled' },
  {
    about: 'an assignment with an equals sign, capitals and comments',
    body: `<<b>> DECLARE t text := 'begin'; BEGIN -- the slug\n t := new.name; /* here */ NEW."slug" = t || '-1'; RETURN NEW; END b`,
    effect: 'filled',
  },
  {
    about: 'a fallback',
    body: 'begin new.slug := coalesce(new.slug, lower(new.name)); return new; end',
    effect: 'filled',
  },
  {
    about: 'an assignment where it is NULL',
    body: 'begin if new.slug is null then new.slug := lower(new.name); end if; return new; end',
    effect: 'filled',
  },
  {
    about: 'an assignment in some cases',
    body: `begin if new.name > 'm' then new.slug := lower(new.name); end if; return new; end`,
    effect: 'perhaps',
  },
  {
    about: 'an assignment after a return',
    body: `begin if new.name > 'm' then return new; end if; new.slug := 'x'; return new; end`,
    effect: 'perhaps',
  },
  {
    about: 'an assignment of the column itself',
    body: 'begin new.slug := lower(new.slug); return new; end',
    effect: 'changed',
  },
  {
    about: 'an assignment where it is NULL, of the column itself',
    body: 'begin if new.slug is null then new.slug := lower(new.slug); end if; return new; end',
    effect: 'changed',
  },
  {
    about: 'an assignment that is undone',
    body: `begin new.slug := 'x'; if new.name > 'm' then new.slug := null; end if; return new; end`,
    effect: 'perhaps',
  },
  {
    about: 'a query',
    body: 'begin select min(relname) into new.slug from pg_class; return new; end',
    effect: 'perhaps',
  },
  {
    about: 'a whole record',
    body: `begin new := jsonb_populate_record(new, '{"slug": "x"}'); return new; end`,
    effect: 'perhaps',
  },
  {
    about: 'an exception',
    body: `begin new.slug := 1 / length(new.name); return new; exception when others then return new; end`,
    effect: 'perhaps',
  },
  {
    about: 'a condition of the trigger',
    body: `begin new.slug := 'x'; return new; end`,
    effect: 'perhaps',
    when: `when (new.name > 'm')`,
  },
  {
    about: 'a check',
    body: `begin if new.slug = '' then raise exception 'empty'; end if; return new; end`,
    effect: 'unset',
  },
  {
    about: 'an assignment in a comment and in a string',
    body: `begin /* new.slug := 1; */ raise notice 'new.slug := 2; %', new.name; return new; end`,
    effect: 'unset',
  },
  {
    about: 'another column',
    body: `begin new.id := 1 + new.id; return new; end`,
    effect: 'unset',
  },
  {
    about: 'a trigger that is off',
    body: `begin new.slug := 'x'; return new; end`,
    effect: 'unset',
    then: 'alter table {} disable trigger {}_slug',
  },
];

/** Tables that functions of PostgreSQL or of its extensions fill, or functions in another language than PL/pgSQL. */
const BUILT_IN: readonly {
  readonly about: string;
  readonly extension?: string;
  /** The columns besides `id` and `name`. */
  readonly columns: string;
  /** Of the table `{}`, without `for each row` and `function`. */
  readonly trigger: string;
  readonly isFilled: boolean;
}[] = [
  {
    about: 'tsvector_update_trigger',
    columns: 'words tsvector not null',
    trigger: `before insert or update on {} execute tsvector_update_trigger(words, 'pg_catalog.english', name)`,
    isFilled: true,
  },
  {
    about: 'tsvector_update_trigger for a column with another name than ASCII has',
    columns: '"wörter \\" tsvector not null',
    trigger: `before insert on {} execute tsvector_update_trigger("wörter \\", 'pg_catalog.english', name)`,
    isFilled: true,
  },
  {
    about: 'tsvector_update_trigger_column',
    columns: `words tsvector not null, config regconfig not null default 'english'`,
    trigger: 'before insert on {} execute tsvector_update_trigger_column(words, config, name)',
    isFilled: true,
  },
  {
    about: 'tsvector_update_trigger with a condition',
    columns: 'words tsvector not null',
    trigger: `before insert on {} when (new.name > 'm') execute tsvector_update_trigger(words, 'pg_catalog.english', name)`,
    isFilled: false,
  },
  {
    about: 'tsvector_update_trigger for updates',
    columns: 'words tsvector not null',
    trigger: `before update on {} execute tsvector_update_trigger(words, 'pg_catalog.english', name)`,
    isFilled: false,
  },
  {
    about: 'PL/pgSQL for a column of a type that is not served',
    columns: 'words tsvector not null',
    trigger: 'before insert on {} execute words()',
    isFilled: true,
  },
  {
    about: 'suppress_redundant_updates_trigger, which fills nothing,',
    columns: 'words tsvector',
    trigger: 'before update on {} execute suppress_redundant_updates_trigger()',
    isFilled: true,
  },
  {
    about: 'insert_username',
    extension: 'insert_username',
    columns: 'editor text not null',
    trigger: 'before insert on {} execute insert_username(editor)',
    isFilled: true,
  },
  {
    about: 'autoinc',
    extension: 'autoinc',
    columns: 'a integer not null, b integer not null',
    trigger: 'before insert on {} execute autoinc(a, counter, b, counter)',
    isFilled: true,
  },
  {
    about: 'moddatetime for a column with a default',
    extension: 'moddatetime',
    columns: 'changed timestamp not null default now()',
    trigger: 'before update on {} execute moddatetime(changed)',
    isFilled: true,
  },
];

const builtInSql = ({ extension, columns, trigger }: (typeof BUILT_IN)[number], index: number): string => {
  const [when = '', call = ''] = trigger.replace('{}', `b${index}`).split(' execute ');
  const sql = `create table b${index} (id int generated by default as identity primary key, name text not null, ${columns});
    create trigger fill ${when.replace(/( when .*)?$/, ' for each row$1')} execute function ${call};`;
  return extension === undefined
    ? sql
    : `do $do$ begin
      if exists (select from pg_available_extensions where name = '${extension}') then
        create extension ${extension}; ${sql}
      end if;
    end $do$;`;
};

const SCHEMA = [
  ...CASES.map(({ body, when = '', then = '' }, index) =>
    `create table {} (id int generated by default as identity primary key, slug text not null, name text not null);
    create function {}_slug() returns trigger language plpgsql as $f$ ${body} $f$;
    create trigger {}_slug before insert on {} for each row ${when} execute function {}_slug();
    ${then};`.replaceAll('{}', `t${index}`),
  ),
  `create table after_insert (id int generated by default as identity primary key, slug text not null, name text not null);
  create trigger later after insert on after_insert for each row execute function t0_slug();
  create trigger each_update before update on after_insert for each row execute function t0_slug();
  create table two (id int generated by default as identity primary key, slug text not null, name text not null);
  create trigger a before insert on two for each row execute function t0_slug();
  create trigger b before insert on two for each row execute function t4_slug();
  create table keyed (slug text primary key, name text not null);
  create trigger key before insert on keyed for each row execute function t0_slug();
  create table coded (slug text primary key, name text not null);
  create view seen as select * from t0;
  create sequence counter;
  create function words() returns trigger language plpgsql as $f$ begin
    new.words := to_tsvector(new.name); return new;
  end $f$;`,
  ...BUILT_IN.map(builtInSql),
].join('\n');

describe('the registry of a schema with triggers', () => {
  let text: string;
  let resources: Resource[];
  let service: TestService;
  before(async () => {
    const database = await createDatabase();
    await database.sql.unsafe(SCHEMA).simple();
    const ended = await run(['introspect'], { env: { DATABASE_URL: database.url } });
    assert.equal(ended.code, 0, ended.stderr);
    text = ended.stdout;
    const file = join(await temporaryFolder(), 'resources.mjs');
    writeFileSync(file, text);
    resources = ((await import(pathToFileURL(file).href)) as { default: Resource[] }).default;
    await database.drop();
    service = await startService([user, ...resources.map((one) => ({ ...one, access: 'user' as const }))], {
      prepare: (sql) => sql.unsafe(SCHEMA).simple(),
    });
    await service.addUser('ada', { admin: true });
  });
  after(() => service.close());

  const commentsOf = (model: string): string =>
    [...(text.split(`model: '${model}',`)[1]?.split('model: ')[0] ?? '').matchAll(/\/\/ (.*)/g)]
      .map(([, comment]) => comment)
      .join(' ');
  const add = (model: string) =>
    service.request(`/api/${model}/`, { method: 'POST', user: 'ada', body: { name: 'Zed' } });

  for (const [index, { about, effect }] of CASES.entries())
    test(`${about}: ${effect}`, async () => {
      const model = `t${index}`;
      const resource = resources.find((one) => one.model === model);
      const { status, json } = await add(model);
      const comments = commentsOf(model);
      const trigger = `${model}_slug`;
      const isFilled = effect === 'filled';
      assert.deepEqual(resource?.columns['slug'], {
        type: 'text',
        ...(isFilled ? { default: 'database' } : {}),
      });
      assert.deepEqual(resource?.methods, effect === 'perhaps' ? ['GET', 'PUT', 'DELETE'] : undefined);
      assert.equal(status, { filled: 201, perhaps: 405, changed: 400, unset: 400 }[effect]);
      if (isFilled) assert.match(json.slug, /^zed/i);
      if (effect === 'unset') return assert.equal(comments, '');
      assert.ok(comments.includes(trigger), comments);
      assert.equal(/default: 'database'/.test(comments), !isFilled, comments);
    });

  for (const [index, { about, extension, isFilled }] of BUILT_IN.entries())
    test(`a table with ${about} ${isFilled ? 'keeps its POST' : 'has no POST'}`, async (t) => {
      const model = `b${index}`;
      const resource = resources.find((one) => one.model === model);
      if (extension && !resource) return t.skip(`this PostgreSQL has no extension ${extension}`);
      assert.deepEqual(resource?.methods, isFilled ? undefined : ['GET', 'PUT', 'DELETE']);
      const { status, text: answer } = await add(model);
      assert.equal(status, isFilled ? 201 : 405, answer);
      const ada = await logIn(service, 'ada');
      assert.equal((await ada.get(`/admin/${model}/-/add/`)).status, isFilled ? 200 : 404);
    });

  test('other triggers do not count, and one that may fill a column counts more', () => {
    const after = resources.find(({ model }) => model === 'after_insert');
    assert.deepEqual(after?.columns['slug'], { type: 'text' });
    assert.equal(commentsOf('after_insert'), '');
    const two = resources.find(({ model }) => model === 'two');
    assert.deepEqual([two?.columns['slug'], two?.methods], [{ type: 'text' }, ['GET', 'PUT', 'DELETE']]);
    assert.match(commentsOf('two'), /The trigger b may fill slug/);
    assert.match(commentsOf('keyed'), /The trigger key may fill the key slug, but clients must send it/);
    assert.equal(commentsOf('seen'), '');
  });
});

test('names with spaces and signs are found in functions that cannot be followed', async () => {
  const database = await createDatabase();
  try {
    await database.sql
      .unsafe(
        `create table odd (
          id integer primary key, "Unit Price (€)" text not null, "a-b" text not null, "say ""hi""" text not null
        );
        create function odd() returns trigger language plpgsql as $$ begin
          if tg_op = 'DELETE' then return old; end if;
          new."Unit Price (€)" := 'x';
          return new;
        end $$;
        create trigger odd before insert or delete on odd for each row execute function odd()`,
      )
      .simple();
    const ended = await run(['introspect'], { env: { DATABASE_URL: database.url } });
    assert.equal(ended.code, 0, ended.stderr);
    const found = [...ended.stdout.matchAll(/The trigger odd may fill (\w+)/g)].map(([, name]) => name);
    assert.deepEqual(found, ['unit_price']);
  } finally {
    await database.drop();
  }
});
