// The admin area in several languages: the catalogs are complete, and a page is in the language of its reader.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { ENGLISH } from '../../src/admin/texts/english.ts';
import { FRENCH, FRENCH_MESSAGES } from '../../src/admin/texts/french.ts';
import { GERMAN, GERMAN_MESSAGES } from '../../src/admin/texts/german.ts';
import { SPANISH, SPANISH_MESSAGES } from '../../src/admin/texts/spanish.ts';
import { ENGLISH_MESSAGES, inForms } from '../../src/messages.ts';
import { users } from '../db/helpers.ts';
import type { Panel, Resource } from '../../src/index.ts';
import { REPOSITORY } from '../paths.ts';
import { openBrowser, postMultipart, save, unescaped, useAdmin, type AdminAnswer } from './support.ts';

/** The text in its forms for a number, whatever the name of the number. */
const formFor = (number: number, text: string, language = 'en'): string => {
  const numbers = Object.fromEntries([...text.matchAll(/\{(\w+):/g)].map(([, name]) => [name, number]));
  return inForms(text, numbers, new Intl.PluralRules(language));
};
const namesIn = (text: string, marks: RegExp): readonly string[] =>
  [...new Set([...text.matchAll(marks)].map(([, name = '']) => name))].sort();

const CATALOGS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  en: { ...ENGLISH, ...ENGLISH_MESSAGES },
  de: { ...GERMAN, ...GERMAN_MESSAGES },
  fr: { ...FRENCH, ...FRENCH_MESSAGES },
  es: { ...SPANISH, ...SPANISH_MESSAGES },
};

/** A number of things, and the word after it. */
const COUNTED =
  /\{(count|max|min|got|found|shown|words|characters|hours|bytes|added|changed|unchanged|faulty|skipped|rows|same|prefix)\}[\s\u00a0]+([\p{L}’-]+)/gu;
/** Words that are the same after one as after several. */
const INVARIABLE: Readonly<Record<string, RegExp>> = {
  en: /^(?:and|changed|did|found|had|new|of|selected|to|unchanged|will|with)$/,
  de: /^(?:Zeichen|ausgewählten|bis|der|geändert|gefunden|hinzufügen|liegen|mit|neu|sein|unverändert|von|übersprungen)$/,
  fr: /^(?:au|avec|de|des|et|à)$/,
  es: /^(?:a|con|de|sin|y)$/,
};
/** A sign without the space that French has before it; not a sign in a name, a time or an address. */
const UNSPACED = /[^\s:«][:;!?](?=\s|$)|[^\u00a0\u202f]»|«[^\u00a0\u202f]|[^\S\u00a0\u202f][:;!?»]/u;

describe('the catalogs', () => {
  for (const [language, texts] of Object.entries(CATALOGS)) {
    test(`have the parameters of the English texts: ${language}`, () => {
      for (const [code, english] of Object.entries<string>({ ...ENGLISH, ...ENGLISH_MESSAGES })) {
        const text = texts[code] ?? '';
        assert.deepEqual(namesIn(text, /\{(\w+)\}/g), namesIn(english, /\{(\w+)\}/g), code);
        const known = namesIn(english, /\{(\w+)[}:]/g);
        for (const name of namesIn(text, /\{(\w+):/g)) assert.ok(known.includes(name), `${code}: ${name}`);
        for (const number of [1, 2]) {
          const form = formFor(number, text).replace(/\{\w+\}/g, 'x');
          assert.match(form, /^(?=.*\S)[^{}|]*$/, code);
        }
      }
    });

    test(`have forms of the words after a number: ${language}`, () => {
      for (const [code, text] of Object.entries(texts))
        for (const [, name = '', word = ''] of text.matchAll(COUNTED))
          assert.ok(
            INVARIABLE[language]?.test(word) === true || text.includes(`{${name}:`),
            `${code}: ${name} ${word}`,
          );
    });
  }

  test('in French have a space that does not break before the signs of two parts', () => {
    for (const [code, text] of Object.entries(CATALOGS['fr'] ?? {}))
      for (const number of [1, 2])
        assert.doesNotMatch(
          formFor(number, text, 'fr').replace(/(?:Accept|Sec-Fetch-Site): /, ''),
          UNSPACED,
          code,
        );
  });

  // People who speak to their computer say what they read on a button.
  test('name a button with the words that it shows', () => {
    const wordsOf = (text: string): string =>
      ` ${text
        .toLowerCase()
        .replace(/[^\p{L}]+/gu, ' ')
        .trim()} `;
    for (const texts of [ENGLISH, GERMAN, FRENCH, SPANISH])
      for (const [shown, name] of [
        ['searchMore', 'searchIn'],
        ['open', 'openOne'],
        ['preview', 'previewOne'],
        ['add', 'addTo'],
      ] as const)
        assert.ok(wordsOf(texts[name]).includes(wordsOf(texts[shown])), wordsOf(texts[name]));
  });

  test('have no text that no page shows', () => {
    const folder = join(REPOSITORY, 'src/admin');
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.(ts|js)$/.test(name),
    );
    const sources = files
      .filter((name) => !name.startsWith('texts'))
      .map((name) => readFileSync(join(folder, name), 'utf8'));
    const used = new Set(
      sources.flatMap((source) =>
        [...source.matchAll(/'(\w+)'|(\w+): \[/g)].map(([, one, other]) => one ?? other),
      ),
    );
    assert.deepEqual(
      Object.keys(ENGLISH).filter((code) => !used.has(code)),
      [],
    );
  });
});

describe('a page', () => {
  const { service, ada } = useAdmin([users]);
  const languageOf = (text: string): string | undefined => /<html lang="(\w+)">/.exec(text)?.[1];

  for (const [header, language] of [
    ['de', 'de'],
    ['de-CH, en;q=0.5', 'de'],
    ['it, fr;q=0.4, es;q=0.6', 'es'],
    ['FR-ca', 'fr'],
    ['de;q=0, fr;q=0.1', 'fr'],
    ['*', 'en'],
    ['it', 'en'],
    [';;q=x,,de;q=1', 'de'],
    ['', 'en'],
  ] as const)
    test(`is in the language that the browser prefers: "${header}" gives ${language}`, async () => {
      const headers = { 'accept-language': header };
      const login = await openBrowser(service).get('/admin/-/login/', headers);
      assert.equal(languageOf(login.text), language);
      const page = await ada.get('/admin/', headers);
      assert.equal(languageOf(page.text), language);
      const { logOut } = { en: ENGLISH, de: GERMAN, fr: FRENCH, es: SPANISH }[language];
      assert.ok(page.text.includes(`>\n${logOut}\n</button>`));
    });

  test('is in the language that was chosen on the account page, until that of the browser is chosen again', async () => {
    await ada.get('/admin/-/account/');
    const german = { 'accept-language': 'de' };
    assert.equal((await ada.post('/admin/-/display/', { language: 'fr' }, german)).status, 303);
    const { text } = await ada.get('/admin/-/account/', german);
    assert.equal(languageOf(text), 'fr');
    assert.match(text, /<option  ?value="fr" lang="fr" selected>/);
    await ada.post('/admin/-/display/', { language: '' });
    assert.equal(languageOf((await ada.get('/admin/', german)).text), 'de');
  });

  test('has the titles of the history and of its columns in the language', async () => {
    for (const [header, title, column] of [
      ['de', 'Verlauf', 'Wann'],
      ['fr', 'Historique', 'Quand'],
      ['es', 'Historial', 'Cuándo'],
      ['en', 'History', 'When'],
    ] as const) {
      const { text } = await ada.get('/admin/vitrine_history/', { 'accept-language': header });
      assert.ok(text.includes(`<h1>${title}</h1>`), title);
      assert.ok(text.includes(`<legend>${column}</legend>`), column);
    }
  });

  test('shows errors in the language, also those that clients of the API get in English', async () => {
    const headers = { 'accept-language': 'de' };
    const missing = await ada.get('/admin/user/999999/', headers);
    assert.ok(missing.text.includes(GERMAN_MESSAGES.noRecord));
    assert.ok(missing.text.includes(`<h1>${GERMAN.pageNotFound}</h1>`));
    const { text } = await ada.get('/admin/user/?nosuch=1', headers);
    assert.ok(text.includes(GERMAN_MESSAGES.noColumn));
  });

  test('cannot be in another language; a cookie with one has no effect', async () => {
    await ada.get('/admin/-/account/');
    assert.equal((await ada.post('/admin/-/display/', { language: 'it' })).status, 400);
    ada.cookies.set('admin-language', 'constructor');
    assert.equal(languageOf((await ada.get('/admin/')).text), 'en');
    ada.cookies.delete('admin-language');
  });

  test('writes numbers as the language does, and the API speaks English', async () => {
    await service.sql`insert into "user" (username, password, email) select 'u' || n, 'x', 'u' || n from generate_series(1, 1500) n`;
    const { text } = await ada.get('/admin/user/', { 'accept-language': 'de' });
    assert.match(text, /1\.50\d/);
    const answer = await fetch(`${service.base}/api/nosuch/`, { headers: { 'accept-language': 'de' } });
    assert.equal(((await answer.json()) as { detail: string }).detail, ENGLISH_MESSAGES.noResource);
  });
});

describe('a page in French', () => {
  const box: Resource = {
    model: 'box',
    columns: {
      code: { type: 'string', maxLength: 1, unique: true },
      size: { type: 'integer', max: 9, null: true },
    },
    admin: { title: 'Boîtes' },
  };
  const points = [2, 3].map((value) => ({ label: `Jour ${value}`, value }));
  const panels: readonly Panel[] = [{ title: 'Tailles', load: () => Promise.resolve({ series: points }) }];
  const { service, ada } = useAdmin([users, box], { panels }, async () => {
    await ada.post('/admin/-/display/', { language: 'fr' });
    await save(ada, '/admin/box/-/add/', { code: 'a', size: '1' });
    await save(ada, '/admin/box/1/', { size: '2' });
    await save(ada, '/admin/box/-/add/', { code: 'b', size: '1' });
  });
  const textOf = ({ text }: AdminAnswer): string =>
    unescaped(text.replace(/^[\s\S]*<main/, '<main').replace(/<(code|q)[\s\S]*?<\/\1>|<[^>]*>/g, ''));
  const bulk = (fields: Record<string, string>): Promise<AdminAnswer> =>
    ada.post('/admin/box/-/bulk/', { _action: 'set', _state: '', _value: '1', _all: '1', ...fields });

  for (const [name, page, shown] of [
    [
      'a refused form',
      () => save(ada, '/admin/box/-/add/', { code: 'ab', size: '10' }),
      'Code : doit avoir au plus 1 caractère (reçu : 2)',
    ],
    ['the history', () => ada.get('/admin/vitrine_history/'), 'modifié : Size'],
    ['an entry of the history', () => ada.get('/admin/vitrine_history/1/'), 'Ajouté : '],
    ['the start page', () => ada.get('/admin/'), 'Jour 2 : 2'],
    ['the form of a view', () => ada.get('/admin/box/-/view/'), 'Enregistrer cette vue : Boîtes'],
    [
      'the preview of an import',
      () => postMultipart(ada, '/admin/box/-/import/', { _file: '', _text: 'code,size\na,3\nc,4\nde,50' }),
      'Code : doit avoir au plus 1 caractère (reçu : 2)',
    ],
    [
      'a refused change of several records',
      () => bulk({ _replace: 'a', _with: 'bc', _in: 'code', _confirm: '1' }),
      ' : ',
    ],
    [
      'a list with a wrong filter',
      () => ada.get('/admin/box/?size__gte=x&size__gte=y&nosuch=1'),
      'cette colonne n’existe pas',
    ],
    [
      'the login',
      () => openBrowser(service).get('/admin/-/login/', { 'accept-language': 'fr' }),
      'Nom d’utilisateur',
    ],
  ] as const)
    // prettier-ignore
    test(`has the spaces of French around signs: ${name}`, async () => {
      const text = textOf(await page());
      assert.ok(text.replace(/\s/g, ' ').includes(shown), text);
      assert.doesNotMatch(text, UNSPACED);
    });
});
