// Every parser takes linear time: twice the text takes about twice the time.
import assert from 'node:assert/strict';
import { COLUMN_TYPES } from '../../src/db/types/column-types.ts';
import type { Column } from '../../src/db/schema/model.ts';
import { numberKey } from '../../src/db/types/json-values.ts';
import type { FieldErrors } from '../../src/errors.ts';
import { decodeField, decodeForm, parseListQuery } from '../../src/query/parse/grammar.ts';
import { filterValues, OPERATORS } from '../../src/query/parse/filter-values.ts';
import { parseCsv } from '../../src/query/csv/csv-parser.ts';
import { withoutGuard } from '../../src/query/csv/csv-rows.ts';
import { checkKey } from '../../src/resources/records/checked-body.ts';
import { parseJsonFields } from '../../src/resources/records/json-fields.ts';
import { passwordFault } from '../../src/resources/users/password-rules.ts';
import { isNamed } from '../../src/resources/records/look-up.ts';
import { readCookie } from '../../src/admin/web/cookies.ts';
import { COMPARISONS } from '../../src/admin/list/filters.ts';
import { compareLabels } from '../../src/admin/fields/references.ts';
import { parseBasic } from '../../src/http/auth/credentials.ts';
import { noneMatchLists, parseIfMatch } from '../../src/http/message/entity-tag.ts';
import type { ApiRequest } from '../../src/http/message/message.ts';
import { readParts } from '../../src/http/message/multipart.ts';
import { parseAccept } from '../../src/http/api/negotiation.ts';
import { assertOrigin, clientNetworkOf } from '../../src/http/auth/request-origin.ts';
import { loggedPath, splitTarget } from '../../src/http/message/request-head.ts';
import { essenceOf, parameterOf } from '../../src/http/message/text-decoding.ts';
import { ARRAY_TYPES } from '../../src/db/types/array-types.ts';
import type { ColumnType, Operator } from '../../src/db/types/column-type.ts';
import { cpuOf } from './expect.ts';
import { describe, test } from 'node:test';

/** Makes a text of about this length. */
type Text = (length: number) => string;

/** Repeats a text between a start and an end. */
const repeated =
  (unit: string, start = '', end = ''): Text =>
  (length) =>
    start + unit.repeat(Math.ceil(length / unit.length)) + end;

const TEXTS: Readonly<Record<string, Text>> = {
  digits: repeated('1'),
  'digits with a letter at the end': repeated('1', '', 'x'),
  'digits after a point': repeated('1', '0.', 'x'),
  zeros: repeated('0', '1', 'x'),
  'zeros that end with a digit': repeated('0', '1.', '1'),
  'a huge exponent': repeated('9', '1e'),
  'signs and exponents': repeated('1e+'),
  spaces: repeated(' ', '', 'x'),
  'spaces before a quote': repeated(' ', 'a', '"'),
  'tabs and line breaks': repeated('\t\r\n', 'a', 'x'),
  quotes: repeated('"'),
  'doubled quotes without an end': repeated('""', '"'),
  'escaped quotes': repeated('\\"', '"'),
  'quotes of parameters': repeated(';a="\\"', 'x'),
  commas: repeated(','),
  'commas and spaces': repeated(', ', 'a', '"'),
  semicolons: repeated(';'),
  assignments: repeated('a=a=a;'),
  'weights of a header': repeated(';q= ', 'text/html'),
  'spaces in a weight': repeated(' ', 'a/a;q=', 'x y'),
  backslashes: repeated('\\', '', 'x'),
  percents: repeated('%'),
  escapes: repeated('%25'),
  'broken escapes': repeated('%E4%'),
  underscores: repeated('__a'),
  apostrophes: repeated("'", '', 'x'),
  'brackets that open': repeated('['),
  'brackets in pairs': repeated('[],', '[', '0]'),
  'nested objects': repeated('{"a":'),
  'a JSON text': repeated('{"a":[1,"b",null]},', '[', '0]'),
  'surrogates in pairs': repeated('\u{1f600}'),
  'lone surrogates in JSON': repeated('\\ud800', '"', '"'),
  'combining marks': repeated('\u0301\u0316', 'a'),
  'zero-width spaces': repeated('\u200b', "'", 'x'),
  colons: repeated('1:'),
  hyphens: repeated('2020-'),
  ampersands: repeated('a&'),
  boundaries: repeated('\r\n--x', '', '\r\n--x--'),
};

const quoted = (text: string): string => JSON.stringify(text.toWellFormed());
const ALL_TYPES: Readonly<Record<string, ColumnType>> = {
  ...COLUMN_TYPES,
  'array of text': ARRAY_TYPES.text,
  'array of decimal': ARRAY_TYPES.decimal,
};
const columnOf = (name: string, facts: Partial<Column> = {}): Column => {
  const type = ALL_TYPES[name];
  const elementFacts = type?.element && { castType: type.element.castType, nullable: true };
  return { type, castType: type?.castType, elementFacts, ...facts } as unknown as Column;
};
const types = Object.keys(ALL_TYPES);
const asRequest = (headers: Record<string, string>): ApiRequest =>
  ({ headers, client: () => ({ network: '', isSecure: false }) }) as unknown as ApiRequest;
const quietly = (parse: () => unknown): void => {
  try {
    parse();
  } catch {
    // An error is as valid as a result.
  }
};

/** A parser, and the maximum length of text to try. */
interface Parser {
  readonly maxLength: number;
  readonly read: (text: string) => unknown;
}

const MEGABYTE = 1_000_000;
const HEADER = 32_000;
const parsers: Record<string, Parser> = {
  'a JSON body': { maxLength: MEGABYTE, read: parseJsonFields },
  'a field of a JSON body': { maxLength: MEGABYTE, read: (text) => parseJsonFields(`{"a":${text}}`) },
  'a key of a JSON body': { maxLength: MEGABYTE, read: (text) => parseJsonFields(`{${quoted(text)}:1}`) },
  'a form': { maxLength: MEGABYTE, read: (text) => decodeForm(text, 20_000) },
  'a form with data': { maxLength: MEGABYTE, read: (text) => decodeField(text, 'data', 2) },
  'a multipart form': {
    maxLength: MEGABYTE,
    read: (text) => [...readParts(Buffer.from(text), 'multipart/form-data; boundary=x', 2000)],
  },
  'the headers of a part': {
    maxLength: MEGABYTE,
    read: (text) => [
      ...readParts(
        Buffer.from(`--x\r\nContent-Disposition: form-data; name="${text}\r\n\r\n\r\n--x--`),
        'multipart/form-data; boundary=x',
        2000,
      ),
    ],
  },
  'a CSV file': { maxLength: MEGABYTE, read: parseCsv },
  'a guarded cell': { maxLength: MEGABYTE, read: withoutGuard },
  'a padded key': {
    maxLength: MEGABYTE,
    read: (text) => checkKey(text, columnOf('string', { castType: 'bpchar' })),
  },
  'the label of a record': {
    maxLength: MEGABYTE,
    read: (text) => isNamed('name')({ label: text }),
  },
  'the words for a record': {
    maxLength: MEGABYTE,
    read: (text) => isNamed(text)({ label: text }),
  },
  'two labels in a list': {
    maxLength: MEGABYTE,
    read: (text) => compareLabels(`${text}b${text}`, `${text}a${text}`),
  },
  'a user name next to a new password': {
    maxLength: MEGABYTE,
    read: (text) => passwordFault('correct horse', columnOf('password'), { name: text, minPassword: 8 }),
  },
  'a query': {
    maxLength: HEADER,
    read: (text) => {
      const errors: FieldErrors = {};
      return parseListQuery(text, { limit: 20, maxLimit: 100 }, errors);
    },
  },
  'a page number': {
    maxLength: HEADER,
    read: (text) => String(parseListQuery(`page=${text}`, { limit: 20, maxLimit: 100 }, {}).page),
  },
  'an Accept header': { maxLength: HEADER, read: parseAccept },
  'a Content-Type header': {
    maxLength: HEADER,
    read: (text) => [essenceOf(text), parameterOf(text, 'charset')],
  },
  'an If-Match header': { maxLength: HEADER, read: parseIfMatch },
  'an If-None-Match header': { maxLength: HEADER, read: (text) => noneMatchLists(text, '1') },
  'an Authorization header': {
    maxLength: HEADER,
    read: (text) => [parseBasic(text), parseBasic(`Basic ${text}`)],
  },
  'an X-Forwarded-For header': {
    maxLength: HEADER,
    read: (text) => clientNetworkOf({ 'x-forwarded-for': text }, '::1', 1),
  },
  'an Origin header': {
    maxLength: HEADER,
    read: (text) => assertOrigin({ origin: `https://${text}`, host: 'a' }, { publicUrl: [], trustProxy: 0 }),
  },
  'a Cookie header': {
    maxLength: HEADER,
    read: (text) => readCookie(asRequest({ cookie: text }), 'session'),
  },
  'a request target': { maxLength: HEADER, read: (text) => loggedPath(...splitTarget(`/${text}?${text}`)) },
  'the filter form': {
    maxLength: 8192,
    read: (text) => Object.values(COMPARISONS).map(([, parameter]) => parameter('a', text)),
  },
};
for (const type of types) {
  const column = columnOf(type, { min: -1, max: 1 });
  parsers[`a ${type} in a body`] = {
    maxLength: MEGABYTE,
    // As a string, and as a number with these digits.
    read: (text) => [text, 1].map((value) => column.type.fromJson(value, text, column)),
  };
  for (const operator of OPERATORS as ReadonlySet<Operator>)
    parsers[`a ${type} filter with ${operator}`] = {
      maxLength: 8192,
      read: (text) => filterValues(operator, [text], column),
    };
}
parsers['a comparison of decimals'] = {
  maxLength: 140_000,
  read: (text) => /^\d+$/.test(text) && numberKey(text) === numberKey('1e99999'),
};

/** Shorter times are noise, in microseconds. */
const FLOOR = 20_000;

/**
 * The time for a text divided by the time for half of it. A suspicious ratio is measured again, also for shorter texts: a
 * collection of garbage may cost only the longer one its time, while a parser that is not linear is slow with both lengths.
 */
function growth({ maxLength, read }: Parser, text: Text): number {
  let ratio = Infinity;
  for (const [runs, divisor] of [
    [1, 1],
    [3, 1],
    [5, 1.5],
    [7, 1],
    [9, 1.5],
  ] as const) {
    const [half, whole] = [text(maxLength / divisor / 2), text(maxLength / divisor)];
    const timeOf = (one: string): number => cpuOf(() => quietly(() => read(one)), runs);
    const long = timeOf(whole);
    if (long < FLOOR && divisor === 1) return 1;
    if (long < FLOOR) continue;
    ratio = long / Math.max(timeOf(half), FLOOR / 2);
    if (ratio < 3.5) break;
  }
  return ratio;
}

describe('twice the text takes about twice the time', () => {
  for (const [name, parser] of Object.entries(parsers))
    test(name, () => {
      for (const [kind, text] of Object.entries(TEXTS)) {
        // Quadratic parsers would take minutes for the whole text, so a part of it comes first.
        for (const part of [32, 1]) {
          const ratio = growth({ ...parser, maxLength: parser.maxLength / part }, text);
          assert.ok(ratio < 3.5, `${kind}: ${ratio.toFixed(1)} times as long`);
        }
      }
    });
});

test('the path for the log takes no longer with 30,000 parameters than with a few hundred', () => {
  const paths = (): void => {
    for (let run = 0; run < 100; run += 1) loggedPath('/', '&'.repeat(30_000));
  };
  assert.ok(cpuOf(paths, 5) < 150_000, 'each takes less than 1.5 ms');
});

test('a form of invalid or repeated fields costs about as much as a form of valid fields', () => {
  const timeOf = (part: string): number => {
    const text = part.repeat(1_000_000 / part.length);
    return cpuOf(() => decodeField(text, 'data', 2));
  };
  const valid = timeOf('a=&');
  for (const part of ['%=&', '%ff&', 'data=&', 'd%61ta=&', '%6ata=&'])
    assert.ok(timeOf(part) < 10 * valid + 5_000, part);
});
