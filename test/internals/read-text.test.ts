// Reads typed texts in every language: what they mean in a column, and that what is shown is read back as the same value.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { choiceLabel } from '../../src/admin/web/display-text.ts';
import { inPresentation, LANGUAGES } from '../../src/admin/web/presentation.ts';
import {
  faultOf,
  pageWriting,
  readText,
  shownText,
  type Readable,
  type Writing,
} from '../../src/admin/web/read-text.ts';
import { t } from '../../src/admin/web/language.ts';
import type { Column } from '../../src/db/schema/model.ts';
import { ARRAY_TYPES } from '../../src/db/types/array-types.ts';
import { COLUMN_TYPES } from '../../src/db/types/column-types.ts';
import type { ApiRequest } from '../../src/http/message/message.ts';
import { textOf } from '../../src/messages.ts';

const { integer, bigint, float, decimal, boolean, date, datetime, time, text, uuid } = COLUMN_TYPES;
const COLUMNS = {
  integer: { type: integer, castType: 'int4' },
  bigint: { type: bigint, castType: 'int8' },
  float: { type: float, castType: 'float8' },
  decimal: { type: decimal, castType: 'numeric' },
  boolean: { type: boolean, castType: 'bool' },
  date: { type: date, castType: 'date' },
  datetime: { type: datetime, castType: 'timestamp' },
  time: { type: time, castType: 'time' },
  text: { type: text, castType: 'text' },
  uuid: { type: uuid, castType: 'uuid' },
  state: {
    type: text, castType: 'text', choices: ['o', '1', '2'],
    choiceLabels: new Map([['o', 'Open'], ['1', '2'], ['2', 'Two']]),
  },
  decimals: { type: ARRAY_TYPES.decimal, castType: '_numeric', elementFacts: { castType: 'numeric', nullable: false } },
  datetimes: { type: ARRAY_TYPES.datetime, castType: '_timestamp', elementFacts: { castType: 'timestamp', nullable: false } },
  flags: { type: ARRAY_TYPES.boolean, castType: '_bool', elementFacts: { castType: 'bool', nullable: false } },
} satisfies Record<string, Readable>; // prettier-ignore
type Name = keyof typeof COLUMNS;

/** Runs the work for a page in this language and time zone. */
const inPage = <T>(tag: string, zone: string, work: () => T): T =>
  inPresentation(
    { headers: { 'accept-language': tag }, client: () => ({ secure: false }) } as unknown as ApiRequest,
    { timeZone: zone, brand: { images: [], style: undefined, logo: undefined } },
    work,
  );

/** What a text means: its value, `a | b` for an ambiguous one, and `!` for a fault. */
function meaning(column: Readable, typed: string, writing: Writing): string {
  const reading = readText(column, typed, writing);
  return reading.text ?? reading.either?.join(' | ') ?? '!';
}

/** What people type, and what it means on a page in English, and in German, French and Spanish. One text: the same in all. */
const TYPED: readonly (readonly [Name, string, string, string?])[] = [
  ['decimal', '12,50', '12.50'],
  ['integer', '.0', '0'],
  ['decimal', '12.50', '12.50'],
  ['decimal', '1,234', '1234 | 1.234', '1.234'],
  ['decimal', '1.234', '1.234', '1234 | 1.234'],
  ['decimal', '1.234,5', '1234.5'],
  ['decimal', '1,234.5', '1234.5'],
  ['decimal', '1.234.567', '1234567'],
  ['decimal', '0.125', '0.125'],
  ['decimal', '0,125', '0.125'],
  ['decimal', '1234,567', '1234.567'],
  ['decimal', '1 234,5', '1234.5'],
  ['decimal', '1’234.5', '1234.5'],
  ['decimal', ' 12,50 € ', '12.50'],
  ['decimal', '$1,234.50', '1234.50'],
  ['decimal', '−5', '-5'],
  ['decimal', '1.2.3', '1.2.3'],
  ['decimal', 'NaN', 'NaN'],
  ['float', '1,5e3', '1.5e3'],
  ['integer', '1.234', '1.234', '1234'],
  ['integer', '1,234', '1234', '1.234'],
  ['integer', '1.000', '1', '1000 | 1'],
  ['integer', '5,0', '5'],
  ['integer', '12.5', '12.5'],
  ['integer', '+8', '8'],
  ['bigint', '9 007 199 254 740 993', '9007199254740993'],
  ['decimals', '1,5\n2.5', '["1.5","2.5"]'],
  ['decimals', '[1.234]', '[1.234]'],
  ['boolean', 'WAHR', 'true'],
  ['boolean', 'Vrai', 'true'],
  ['boolean', 'VERDADERO', 'true'],
  ['boolean', 'oui', 'true'],
  ['boolean', 'Sí', 'true'],
  ['boolean', 'si', 'true'],
  ['boolean', 'J', 'true'],
  ['boolean', 'FALSO', 'false'],
  ['boolean', 'nein', 'false'],
  ['boolean', 'n', 'false'],
  ['boolean', '0', 'false'],
  ['boolean', 'maybe', 'maybe'],
  ['flags', 'ja\nfaux', '[true,false]'],
  ['time', '8:30', '08:30:00'],
  ['time', '8:30 AM', '08:30:00'],
  ['time', '8:30 p. m.', '20:30:00'],
  ['time', '12:30 am', '00:30:00'],
  ['time', '12 PM', '12:00:00'],
  ['time', '8h30', '08:30:00'],
  ['time', '8.30 Uhr', '08:30:00'],
  ['time', '13:30 PM', '13:30 PM'],
  ['time', '8', '8'],
  ['time', '0.25', '0.25'],
  ['date', '31.12.2026', '2026-12-31'],
  ['date', '1.2.2026', '2026-02-01'],
  ['date', '31/12/2026', '2026-12-31'],
  ['date', '12/31/2026', '2026-12-31'],
  ['date', '01/02/2026', '2026-02-01 | 2026-01-02'],
  ['date', '02/02/2026', '2026-02-02'],
  ['date', '2026/2/1', '2026-02-01'],
  ['date', '2026-12-31 00:00:00', '2026-12-31'],
  ['date', '31.12.26', '31.12.26'],
  ['datetime', '2026-12-31T08:30', '2026-12-31 07:30:00'],
  ['datetime', '31.12.2026, 8:30 PM', '2026-12-31 19:30:00'],
  ['datetime', '2026-12-31 08:30:00 +02:00', '2026-12-31 06:30:00'],
  ['datetime', '1/2/2026 12:00', '2026-02-01 11:00:00 | 2026-01-02 11:00:00'],
  ['datetime', '2026-10-25 02:30', '!'],
  ['datetime', '2026-03-29 02:30', '!'],
  ['state', 'open', 'o'],
  ['state', 'Two', '2'],
  ['state', '1', '1'],
  ['state', '2', '2 | 1'],
  ['text', ' 1,5 ', ' 1,5 '],
];

/** The cells of a file, and what they mean in a column that is written in one way. */
const WRITTEN: readonly (readonly [Name, Partial<Writing>, string, string])[] = [
  ['decimal', { decimal: ',' }, '1,5', '1.5'],
  ['decimal', { decimal: ',' }, '1.234', '1234'],
  ['decimal', { decimal: ',' }, '2.5', '!'],
  ['decimal', { decimal: '.' }, '1,234', '1234'],
  ['decimal', { decimal: '.' }, '2,5', '!'],
  ['decimal', { decimal: '.' }, 'x', 'x'],
  ['date', { dates: 'dayFirst' }, '01/02/2026', '2026-02-01'],
  ['date', { dates: 'monthFirst' }, '01/02/2026', '2026-01-02'],
  ['date', { dates: 'iso' }, '01/02/2026', '!'],
  ['date', { dates: 'monthFirst' }, '01.02.2026', '!'],
  ['date', { dates: 'iso' }, '2026-02-01', '2026-02-01'],
  ['datetime', { dates: 'dayFirst' }, '1.2.2026 8:30', '2026-02-01 08:30:00'],
];

describe('the reader of values', () => {
  for (const [name, typed, english, others = english] of TYPED)
    test(`takes ${JSON.stringify(typed)} in a column ${name} for ${others}, in English for ${english}`, () => {
      for (const tag of LANGUAGES.keys()) {
        const found = inPage(tag, 'Europe/Zurich', () => meaning(COLUMNS[name], typed, pageWriting()));
        assert.equal(found, tag === 'en' ? english : others, tag);
      }
    });

  for (const [name, writing, cell, expected] of WRITTEN)
    test(`takes ${cell} in a column ${name} of a file with ${JSON.stringify(writing)} for ${expected}`, () => {
      const own = { decimal: '.', dates: 'iso', zone: 'UTC', isOpen: false, ...writing } as const;
      assert.equal(meaning(COLUMNS[name], cell, own), expected);
    });

  test('says which values a text may have, as the language writes them', () => {
    const fault = inPage('de', 'UTC', () => {
      const found = faultOf(
        COLUMNS.decimal,
        readText(COLUMNS.decimal, '1.234', pageWriting()),
        pageWriting(),
      );
      return textOf(found ?? '');
    });
    assert.equal(fault, 'kann 1234 oder 1,234 bedeuten: geben Sie eines davon ein');
  });
});

const digits = (max: number) => fc.stringMatching(new RegExp(`^\\d{0,${max}}$`));
const decimals = fc
  .tuple(fc.constantFrom('', '-'), fc.bigInt({ min: 0n, max: 10n ** 20n }), digits(5))
  .map(([sign, whole, rest]) => `${sign}${whole}${rest && `.${rest}`}`);
const moments = fc
  .date({ min: new Date('0003-01-01'), max: new Date('9997-01-01'), noInvalidDate: true })
  .map((moment) => moment.toISOString().slice(0, 19).replace('T', ' '));

/** Stored values of each column. */
const STORED: Readonly<Record<Name, fc.Arbitrary<string>>> = {
  integer: fc.integer().map(String),
  bigint: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  float: fc.double().map(String),
  decimal: decimals,
  boolean: fc.boolean().map(String),
  date: moments.map((moment) => moment.slice(0, 10)),
  datetime: moments,
  time: moments.map((moment) => moment.slice(11)),
  text: fc.string(),
  uuid: fc.uuid(),
  state: fc.constantFrom('o', '1'),
  decimals: fc.array(decimals, { minLength: 1 }).map((all) => JSON.stringify(all)),
  datetimes: fc.array(moments, { minLength: 1 }).map((all) => JSON.stringify(all)),
  flags: fc.array(fc.boolean(), { minLength: 1 }).map((all) => JSON.stringify(all)),
};
const ZONES = ['UTC', 'Europe/Zurich', 'America/Santiago', 'Asia/Kathmandu', 'Pacific/Apia'];

describe('what is shown is read back as the same value', () => {
  for (const [name, stored] of Object.entries(STORED) as [Name, fc.Arbitrary<string>][])
    test(`in a column ${name}, in every language`, () => {
      const column: Readable = COLUMNS[name];
      const all = fc.tuple(fc.constantFrom(...LANGUAGES.keys()), fc.constantFrom(...ZONES), stored);
      fc.assert(
        fc.property(all, ([tag, zone, value]) => {
          inPage(tag, zone, () => {
            assert.equal(meaning(column, shownText(column, value, pageWriting()), pageWriting()), value);
            if (name === 'state' || name === 'boolean') {
              const unlabeled = name === 'boolean' ? t(value === 'true' ? 'yes' : 'no') : value;
              const label = choiceLabel(column as Column, value, unlabeled);
              if (label !== '2') assert.equal(meaning(column, label, pageWriting()), value);
            }
          });
        }),
      );
    });
});
