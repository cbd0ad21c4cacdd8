// A model with a column of each type, and everything that a client can send to it or look for in it.
import type { ColumnDefinition, Resource } from '../../src/index.ts';
import { startWith, type WritableService } from '../db/helpers.ts';

export const FAR = '9007199254740993';
export const WIDE = '00000000-0000-4000-8000-00000000000a';

export interface ColumnCase {
  readonly about: string;
  readonly column: ColumnDefinition;
  /** JSON of a body, and the JSON of the answer if it differs. */
  readonly accepted: readonly (readonly [sent: string, shown?: string])[];
  /** Texts of a filter, and JSON of a body with the same meaning. */
  readonly spellings?: readonly (readonly [written: string, sent: string])[];
  /** JSON that a body may not have, by the message. */
  readonly refused: Readonly<Record<string, readonly string[]>>;
  /** Texts that a filter may not have, by the message. */
  readonly unfilterable?: Readonly<Record<string, readonly string[]>>;
}

/** JSON that no column of texts accepts. */
const NO_TEXT = {
  'must be a string': ['5', 'true', '[]', '{}', '["x"]'],
  'must not contain a NUL character': ['"a\\u0000b"'],
  'must not contain a lone surrogate': ['"\\ud800"', '"\\udc00x"', '"\\ud800\\ud800\\udc00"'],
};

export const CASES: Readonly<Record<string, ColumnCase>> = {
  s: {
    about: 'a string of at most 5 characters', column: { type: 'string', maxLength: 5 },
    accepted: [['"日本🦉é5"'], ['""'], ['" a "'], ['"null"'], ['"\\u0041"', '"A"']],
    refused: {
      ...NO_TEXT,
      'must not be null': ['null'],
      'must be at most 5 characters (got 6)': ['"sixsix"', '"🦉🦉🦉🦉🦉🦉"', '"e\\u0301e\\u0301e\\u0301"'],
    },
  },
  tx: {
    about: 'a text', column: { type: 'text', null: true },
    accepted: [['"a\\r\\n\\t\\u0001"'], ['"\\ud83e\\udd89"', '"🦉"'], [`"\\\\\\" ' %_$1"`], ['null']],
    refused: NO_TEXT,
  },
  st: {
    about: 'a string without a maxLength', column: { type: 'string', null: true },
    accepted: [[`"${'🦉'.repeat(255)}"`]],
    refused: {
      'must be at most 255 characters (got 256)': [`"${'x'.repeat(256)}"`],
    },
  },
  ch: {
    about: 'a string with choices', column: { type: 'string', null: true, choices: ['a', 'b'] },
    accepted: [['"a"'], ['null']],
    refused: {
      ...NO_TEXT,
      'must be one of a, b': ['"c"', '""', '"A"', '"a "'],
    },
  },
  cn: {
    about: 'an integer with choices', column: { type: 'integer', null: true, choices: [1, 3] },
    accepted: [['3'], ['3.0', '3']],
    refused: {
      'must be one of 1, 3': ['2'],
      'must be a whole number': ['"1"', '1.5', 'true'],
    },
    unfilterable: { 'must be a whole number': ['x'] },
  },
  nn: {
    about: 'a text with a default', column: { type: 'text', default: 'n' },
    accepted: [['"x"']],
    refused: {
      'must not be null': ['null'],
      'must be a string': ['5'],
    },
  },
  sm: {
    about: 'a smallint of the database', column: { type: 'integer', null: true },
    accepted: [['32767'], ['-32768']],
    refused: {
      'must be from -32768 to 32767': ['32768', '-32769'],
      'must be a whole number': ['1.5'],
    },
    unfilterable: { 'must be from -32768 to 32767': ['32768'] },
  },
  it: {
    about: 'an integer', column: { type: 'integer', null: true },
    accepted: [['2147483647'], ['-2147483648'], ['5.0', '5'], ['1e3', '1000'], ['-0', '0'], ['-0.5e1', '-5']],
    spellings: [['0007', '7']],
    refused: {
      'must be a whole number': ['"5"', '""', '1.5', 'true', '[]', '"NaN"', '4.9999999999999999999', '1e-99999999', '2147483647.00000001'],
      'must be from -2147483648 to 2147483647': ['2147483648', '-2147483649', '1e300', '9007199254740993'],
    },
    unfilterable: {
      'must be a whole number': ['', 'x', '1.0', '1e3', ' 1', '0x1', '１'],
      'must be from -2147483648 to 2147483647': ['2147483648', '-2147483649'],
    },
  },
  ib: {
    about: 'an integer with limits', column: { type: 'integer', null: true, min: -5, max: 5 },
    accepted: [['-5'], ['5']],
    refused: {
      'must be at most 5': ['6'],
      'must be at least -5': ['-6'],
      'must be from -2147483648 to 2147483647': ['2147483648'],
    },
  },
  bg: {
    about: 'a bigint', column: { type: 'bigint', null: true },
    accepted: [['9007199254740993', '"9007199254740993"'], ['"-9223372036854775808"'], ['9223372036854775807', '"9223372036854775807"'], ['"007"', '"7"'], ['-0', '"0"'], ['9.007199254740993e15', '"9007199254740993"']],
    refused: {
      'must be from -9223372036854775808 to 9223372036854775807': ['9223372036854775808', '"9223372036854775808"', '-9223372036854775809'],
      'must be a whole number': ['1.5', '"1.5"', '"x"', '""', '" 5"', '"0x10"', '"NaN"', '"Infinity"', '"١"'],
      'must be a number or a string of digits': ['true', '[]'],
    },
    unfilterable: {
      'must be a whole number': ['', 'x', '1.5'],
      'must be from -9223372036854775808 to 9223372036854775807': ['9223372036854775808', '9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999'],
    },
  },
  bb: {
    about: 'a bigint with a limit', column: { type: 'bigint', null: true, max: 9007199254740992 },
    accepted: [['9007199254740992', '"9007199254740992"']],
    refused: { 'must be at most 9007199254740992': ['9007199254740993', '"9007199254740994"'] },
  },
  re: {
    about: 'a real of the database', column: { type: 'float', null: true },
    accepted: [['0.1'], ['3.4028235e+38'], ['1e-50', '0']],
    refused: { 'is too large': ['1e39', '-3.5e38', '1e309'] },
  },
  fl: {
    about: 'a float', column: { type: 'float', null: true },
    accepted: [['0.1'], ['5e-324'], ['-1.7976931348623157e+308'], ['1e-400', '0'], ['0.1000000000000000055', '0.1'], ['12345678901234567890', '1.2345678901234567e+19']],
    spellings: [['1.50', '1.5'], ['.5', '0.5'], ['15e-1', '1.5']],
    refused: {
      'is too large': ['1e309', '-1e309'],
      'must be a number': ['"1.5"', '"x"', 'true', '[]'],
      'must be a finite value': ['"NaN"', '"Infinity"', '"-Infinity"'],
    },
    unfilterable: {
      'must be a number': ['', 'x', '1,5', '--1', '.', 'e5'],
      'is too large': ['1e9999'],
    },
  },
  fb: {
    about: 'a float with limits', column: { type: 'float', null: true, min: 0.5, max: 1.5 },
    accepted: [['0.5'], ['1.5']],
    refused: {
      'must be at least 0.5': ['0.4999999999999999'],
      'must be at most 1.5': ['1.5000000000000002'],
    },
  },
  de: {
    about: 'a decimal with 2 of 6 digits after the point', column: { type: 'decimal', precision: 6, scale: 2, null: true },
    accepted: [['"1234.5"', '"1234.50"'], ['9999.99', '"9999.99"'], ['"1e3"', '"1000.00"'], ['"-0001.10"', '"-1.10"'], ['0', '"0.00"'], ['10.5000', '"10.50"'], ['12e-2', '"0.12"']],
    spellings: [['1.05E1', '10.5'], ['10.5', '10.5']],
    refused: {
      'must have at most 4 digits before the decimal point': ['"12345.1"', '12345', '"1e5"', '100000000000000000000', '1e5000'],
      'must have at most 2 digits after the decimal point': ['0.001', '"1.005"', '9999.995', '1e-3'],
      'must be a decimal number': ['"x"', '""', '"0x1"', '"1_000"', '" 1"', '"1,5"'],
      'must be a finite value': ['"NaN"', '"Infinity"'],
      'must be a number or a string of digits': ['true', '{}'],
    },
    unfilterable: {
      'must be a decimal number': ['', 'x', '1/2', '0x10', '1_000'],
      'is out of range': ['1e999999'],
      'must have at most 16383 digits after the decimal point': ['1e-99999'],
    },
  },
  dw: {
    about: 'a decimal of 3 whole digits', column: { type: 'decimal', precision: 3, null: true },
    accepted: [['999', '"999"'], ['"-1.0"', '"-1"'], ['9.9e1', '"99"']],
    refused: {
      'must have at most 3 digits before the decimal point': ['1000', '"-1000"', '1e3'],
      'must have at most 0 digits after the decimal point': ['0.1', '1e-1'],
    },
  },
  df: {
    about: 'a decimal of any precision', column: { type: 'decimal', null: true },
    accepted: [['0.1000000000000000055', '"0.1000000000000000055"'], ['12345678901234567890.12345678901234567890', '"12345678901234567890.12345678901234567890"'], ['"1E-3"', '"0.001"'], ['1e5', '"100000"'], ['"0.10"'], ['1e300', `"1${'0'.repeat(300)}"`], ['1e999', `"1${'0'.repeat(999)}"`], ['"-1e-999"', `"-0.${'0'.repeat(998)}1"`]],
    refused: {
      'is out of range': ['"1e999999999"', '1e999999999'],
      'must be a decimal number': ['"--1"', '"."', '"e5"', '"1e"'],
      'must be a finite value': ['"NaN"', '"-Infinity"'],
      'must be a number or a string of digits': ['[]'],
      'must have at most 131072 digits before the decimal point': ['1e131072'],
      'must have at most 1000 digits when written without an exponent (got 131072)': ['1e131071'],
      'must have at most 1000 digits when written without an exponent (got 1001)': ['"1e1000"', '"-1.5e-999"', '0e-1000'],
    },
    unfilterable: {
      'must have at most 1000 digits when written without an exponent (got 1001)': ['1e-1000'],
      'must have at most 1000 digits when written without an exponent (got 131072)': ['1e131071'],
    },
  },
  db: {
    about: 'a decimal with limits', column: { type: 'decimal', null: true, min: 0.1, max: 100 },
    accepted: [['0.1', '"0.1"'], ['"100.00"']],
    refused: {
      'must be at most 100': ['100.00000000000000000001', '1e3'],
      'must be at least 0.1': ['"0.09999999999999999999"'],
    },
  },
  bo: {
    about: 'a boolean', column: { type: 'boolean', null: true },
    accepted: [['true'], ['false'], ['null']],
    spellings: [['t', 'true'], ['1', 'true'], ['yes', 'true'], ['on', 'true'], ['TRUE', 'true'], ['Yes', 'true'], ['oN', 'true'], ['f', 'false'], ['0', 'false'], ['no', 'false'], ['off', 'false'], ['False', 'false'], ['NO', 'false']],
    refused: { 'must be true or false': ['1', '0', '"true"', '"t"', '[]', '""'] },
    unfilterable: { 'must be true or false': ['', '2', 'truth', 'y', 'n', 'null', ' true'] },
  },
  dt: {
    about: 'a date-time', column: { type: 'datetime', null: true },
    accepted: [['"2024-05-31 18:30:00"'], ['"2024-05-31T18:30:00"', '"2024-05-31 18:30:00"'], ['"2024-05-31"', '"2024-05-31 00:00:00"'], ['"2024-05-31 18:30"', '"2024-05-31 18:30:00"'], ['"2024-05-31T18:30:00Z"', '"2024-05-31 18:30:00"'], ['"2024-05-31T18:30+02:00"', '"2024-05-31 16:30:00"'], ['"2024-12-31T23:30:00-0130"', '"2025-01-01 01:00:00"'], ['"2024-03-01 00:30:00+01"', '"2024-02-29 23:30:00"'], ['"2024-05-31T18:30:00.999Z"', '"2024-05-31 18:30:00"'], ['"0001-01-01 00:00:00"'], ['"9999-12-31 23:59:59"']],
    spellings: [['2024-01-31 10:00', '"2024-01-31 10:00:00"'], ['2024-01-31T10:00:00Z', '"2024-01-31 10:00:00"'], ['2024-01-31t10:00z', '"2024-01-31 10:00:00"'], ['2024-01-31T12:00:00+02:00', '"2024-01-31 10:00:00"'], ['2024-01-31T04:30:00-05:30', '"2024-01-31 10:00:00"'], ['2024-01-31T12:00+0200', '"2024-01-31 10:00:00"'], ['2024-01-31 12:00:00+02', '"2024-01-31 10:00:00"'], ['1999-12-31', '"1999-12-31"'], ['1999-12-30T23:00:00-01:00', '"1999-12-31"']],
    refused: {
      'must be a date and time such as 2024-05-31 18:30:00': ['"now"', '"today"', '""', '"2024-1-1"', '"20240101"', '"01.01.2024"', '"2024-05"', '" 2024-01-01"', '"2024-01-01T"', '"2024-01-01 00:00:00 Europe/Berlin"', '"2024-01-01  00:00"'],
      'must be a finite value': ['"infinity"', '"-infinity"'],
      'is not a valid date and time': ['"2023-02-29"', '"1900-02-29"', '"2024-13-01"', '"2024-00-10"', '"2024-01-32"', '"2024-04-31"', '"0000-01-01"', '"4715-01-01 BC"', '"2024-01-01 24:00:00"', '"2024-01-01 00:60"', '"2024-01-01 00:00:60"', '"2023-02-29T12:00:00Z"', '"294277-01-01 00:00:00"'],
      'must have a year from 1 to 9999': ['"0044-03-15 BC"'],
      'must be a string': ['1704067200', 'true'],
      'cannot be converted to UTC: the offset must be below 16 hours and the year from 1 to 9999': ['"2024-01-01 00:00:00+16:00"'],
    },
    unfilterable: {
      'must be a date and time such as 2024-05-31 18:30:00': ['', 'x', '24-01-01', '2024-1-1', '2024-01-31 10', '2024-01-31Z', 'now', 'today', '1706695200', '9999999-01-01'],
      'is not a valid date and time': ['2024-02-30', '2023-02-29', '2024-13-01', '2024-00-10', '2024-01-31 24:00', '2024-01-31 10:60', '2024-01-31 10:00:60', '0000-01-01'],
      'cannot be converted to UTC: the offset must be below 16 hours and the year from 1 to 9999': ['2024-01-31T10:00+99:00', '0001-01-01T00:00:00+01:00'],
      'must be a date and time such as 2024-05-31 18:30:00; in an address or a form, write the + of the offset as %2B': ['2024-01-31T10:00 02:00'],
    },
  },
  da: {
    about: 'a date', column: { type: 'date', null: true },
    accepted: [['"2024-02-29"'], ['"2000-02-29"'], ['"0001-01-01"'], ['"9999-12-31"']],
    refused: {
      'must be a date such as 2024-05-31': ['"now"', '"today"', '""', '"2024-1-1"', '"20240101"', '"01.01.2024"', '"2024-05"', '" 2024-01-01"', '"2024-05-31 00:00:00"', '"2024-05-31T00:00"'],
      'must be a finite value': ['"infinity"', '"-infinity"'],
      'is not a valid date': ['"2023-02-29"', '"1900-02-29"', '"2024-13-01"', '"2024-00-10"', '"2024-01-32"', '"2024-04-31"', '"0000-01-01"', '"4715-01-01 BC"', '"5874898-01-01"'],
      'must have a year from 1 to 9999': ['"0044-03-15 BC"', '"10000-01-01"'],
      'must be a string': ['1704067200', 'true'],
    },
    unfilterable: {
      'must be a date such as 2024-05-31': ['', 'x', '2024-01-31T10:00', 'tomorrow', '20240131'],
      'is not a valid date': ['2024-02-30'],
    },
  },
  ti: {
    about: 'a time', column: { type: 'time', null: true },
    accepted: [['"18:30"', '"18:30:00"'], ['"18:30:59.999"', '"18:30:59"'], ['"00:00:00"']],
    spellings: [['10:00', '"10:00:00"']],
    refused: {
      'must be a time such as 18:30:00': ['"25:00"', '"24:00:01"', '"now"', '"allballs"', '"12"', '"12:60"', '"12:00:60"', '"12:00:00Z"', '"12:00 PM"', '"1:00"', '""'],
      'must be a string': ['720', 'true'],
    },
    unfilterable: { 'must be a time such as 18:30:00': ['', '25:00', '10', '10:00:61', '10:00 PM', 'noon'] },
  },
  uu: {
    about: 'a UUID', column: { type: 'uuid', null: true },
    accepted: [['"ABCDEF00-0000-4000-8000-00000000000A"', '"abcdef00-0000-4000-8000-00000000000a"']],
    spellings: [['ABCDEF00-0000-4000-8000-00000000000A', '"abcdef00-0000-4000-8000-00000000000a"']],
    refused: {
      'must be a UUID': ['"x"', '""', '"{00000000-0000-0000-0000-000000000000}"', '"00000000000000000000000000000000"', '"00000000-0000-0000-0000-00000000000g"'],
      'must be a string': ['5'],
    },
    unfilterable: { 'must be a UUID': ['', 'x'] },
  },
  js: {
    about: 'JSON', column: { type: 'json', null: true },
    accepted: [['{"b": 12345678901234567890, "a": [0.1000000000000000055, 1.50, -1e-30]}', '{"a": [0.1000000000000000055, 1.50, -0.000000000000000000000000000001], "b": 12345678901234567890}'], ['{"k":1,"k":{"x":[],"x":2}}', '{"k": {"x": 2}}'], ['"text"'], ['9007199254740993'], ['[null, {"a": null}]'], ['null'], ['""'], ['"\\ud83e\\udd89"', '"🦉"'], ['{"__proto__": {"a": 1}, "constructor": 2}']],
    spellings: [['{"a": [1,2]}', '{"a":[1,2]}'], ['[null, 5e-1]', '[null,0.5]'], ['1.0', '1']],
    refused: {
      'must not contain a NUL character': ['"\\u0000"', '{"a\\u0000":1}', '[[{"a":["x\\u0000"]}]]'],
      'must not contain a lone surrogate': ['["\\ud800"]', '{"\\udfff":1}'],
      'has a number that is too large or too small: a number with an exponent must have at most 1000 digits when written without one': ['1e200000', '[1e-200000]', '{"n":1e1000000000000}', '1e1000', '[1.5e-999]'],
    },
    unfilterable: {
      'must be JSON: unexpected end at line 1, column 1': [''],
      'must be JSON: unexpected character at line 1, column 1': ['x'],
      'must be JSON: unexpected character at line 1, column 2': ["{'a':1}"],
      'must be JSON: unexpected end at line 1, column 7': ['{"a":1'],
      'must not contain a NUL character': ['"\\u0000"'],
      'must not contain a lone surrogate': ['"\\ud800"', '{"\\udead":1}'],
      'has a number that is too large or too small: a number with an exponent must have at most 1000 digits when written without one': ['1e9999', '1e-99999'],
    },
  },
  ip: {
    about: 'an IP address', column: { type: 'inet', null: true },
    accepted: [['"192.0.2.7"'], ['"2001:DB8:0::7/64"', '"2001:db8::7/64"'], ['"0.0.0.0/0"'], ['"::ffff:1.2.3.4"']],
    spellings: [['2001:DB8:0::7/64', '"2001:db8::7/64"']],
    refused: {
      'must be an IP address such as 192.0.2.7, 2001:db8::7 or 192.0.2.7/24': ['""', '" "', '"x"', '"1.2.3"', '"1.2.3.4.5"', '"1.2.3.256"', '"01.2.3.4"', '"1.2.3.4/"', '"1.2.3.4/33"', '"1.2.3.4/-1"', '"1.2.3.4/08"', '"1.2.3.4/8/8"', '" 1.2.3.4"', '"1.2.3.4\\n"', '":::"', '"::1/129"', '"fe80::1%eth0"', '"1:2:3"', '"[::1]"', '"::1.2.3"'],
      'must be a string': ['7', 'true', '{}'],
    },
    unfilterable: { 'must be an IP address such as 192.0.2.7, 2001:db8::7 or 192.0.2.7/24': ['', 'x', '1.2.3', '01.2.3.4', '::1/129'] },
  },
  net: {
    about: 'a network', column: { type: 'cidr', null: true },
    accepted: [['"10.0.0.0/8"'], ['"0.0.0.0/0"'], ['"::/0"'], ['"1.2.3.4"', '"1.2.3.4/32"'], ['"128.0.0.0/1"'], ['"8000::/1"'], ['"1::/16"']],
    refused: {
      'must have only zeros after the first 24 bits': ['"192.0.2.7/24"'],
      'must be a network such as 192.0.2.0/24 or 2001:db8::/32': ['"192.0.2.0/23/"', '"1.2.3.4/33"', '"x"'],
      'must have only zeros after the first 7 bits': ['"11.0.0.0/7"'],
      'must have only zeros after the first 64 bits': ['"2001:db8::1/64"'],
      'must have only zeros after the first 120 bits': ['"::ffff:1.2.3.4/120"'],
      'must be a string': ['1'],
    },
    unfilterable: {
      'must have only zeros after the first 24 bits': ['192.0.2.7/24'],
      'must be a network such as 192.0.2.0/24 or 2001:db8::/32': ['x'],
    },
  },
  mac: {
    about: 'a MAC address', column: { type: 'macaddr', null: true },
    accepted: [['"08-00-2B-01-02-03"', '"08:00:2b:01:02:03"']],
    spellings: [['08-00-2B-01-02-03', '"08:00:2b:01:02:03"']],
    refused: {
      'must be a MAC address such as 08:00:2b:01:02:03': ['"08:00:2b:01:02"', '"08:00:2b:01:02:03:04"', '"08:00:2b:01:02:0g"', '"08002b010203x"', '"08:00:2b:01:02:03:04:05"'],
      'must be a string': ['1'],
    },
    unfilterable: { 'must be a MAC address such as 08:00:2b:01:02:03': ['08:00:2b:01:02'] },
  },
  long: {
    about: 'a MAC address of 8 bytes', column: { type: 'macaddr', null: true },
    accepted: [['"08:00:2B:01:02:03:04:05"', '"08:00:2b:01:02:03:04:05"']],
    refused: { 'must be a MAC address such as 08:00:2b:01:02:03:04:05': ['"08:00:2b:01:02:03"', '"08:00:2b:01:02:03:04:05:06"', '"x"'] },
    unfilterable: { 'must be a MAC address such as 08:00:2b:01:02:03:04:05': ['08:00:2b:01:02:03'] },
  },
  texts: {
    about: 'an array of texts', column: { type: 'array', of: 'text', null: true, index: true },
    accepted: [['["a","b,c",null,"NULL",""]'], ['[]'], ['null']],
    spellings: [[' [ "a" , null ] ', '["a",null]']],
    refused: {
      'must be an array': ['"a"', '{"a": 1}'],
      'element 2: must be a string': ['["a", 1]'],
      'element 1: must be a string': ['[{"a": [1]}, 1]'],
      'element 1: must not be an array': ['[["a"]]', '[[[[[[["a"]]]]]]]'],
      'element 2: must not be an array': ['["a", ["b"]]'],
      'element 1: must not contain a NUL character': ['["\\u0000"]'],
    },
    unfilterable: {
      'must be a JSON array': ['', '["a"'],
      'must be a JSON array; did you mean texts__contains?': ['a'],
      'must be an array; did you mean texts__contains?': ['1'],
    },
  },
  strings: {
    about: 'an array of strings with choices', column: { type: 'array', of: 'string', choices: ['a', 'b'], elements: { null: false }, null: true },
    accepted: [['["b","a"]'], ['[]']],
    refused: {
      'element 2: must be one of a, b': ['["a", "c"]'],
      'element 2: must not be null': ['["a", null]'],
    },
  },
  short: {
    about: 'an array of strings of at most 4 characters', column: { type: 'array', of: 'string', null: true, elements: { maxLength: 4 } },
    accepted: [['["four"]']],
    refused: { 'element 1: must be at most 4 characters (got 5)': ['["fiver"]'] },
  },
  whole: {
    about: 'an array of integers with a limit', column: { type: 'array', of: 'integer', null: true, elements: { min: -1000, max: 1000 } },
    accepted: [['[1000,-1000]'], ['[1.0]', '[1]']],
    spellings: [['["5"]', '[5]']],
    refused: {
      'element 3: must be a whole number': ['[1, 2, "x"]'],
      'element 1: must be at most 1000': ['[1001]'],
    },
    unfilterable: { 'element 2: must be a whole number': ['[1,"x"]'] },
  },
  sums: {
    about: 'an array of decimals', column: { type: 'array', of: 'decimal', null: true, elements: { precision: 6, scale: 2 } },
    accepted: [['[1.5,"2"]', '["1.50","2.00"]']],
    refused: {
      'element 1: must have at most 2 digits after the decimal point': ['[1.234]'],
      'element 2: must have at most 4 digits before the decimal point': ['[1,"1e131071"]'],
    },
  },
  marks: {
    about: 'an array of booleans', column: { type: 'array', of: 'boolean', null: true },
    accepted: [['[true,null]']],
    spellings: [['["yes"]', '[true]']],
    refused: { 'element 2: must be true or false': ['[true, "true"]'] },
    unfilterable: { 'element 1: must be true or false': ['[2]'] },
  },
  moments: {
    about: 'an array of date-times', column: { type: 'array', of: 'datetime', null: true },
    accepted: [['["2024-05-31T18:30+02:00"]', '["2024-05-31 16:30:00"]']],
    refused: { 'element 1: is not a valid date and time': ['["2024-02-30"]'] },
    unfilterable: { 'element 1: is not a valid date and time': ['["2024-02-30"]'] },
  },
  ids: {
    about: 'an array of UUIDs', column: { type: 'array', of: 'uuid', null: true },
    accepted: [[`["${WIDE}"]`]],
    refused: { 'element 1: must be a UUID': ['["x"]'] },
    unfilterable: { 'element 1: must be a UUID': ['["x"]'] },
  },
  near_id: {
    about: 'a foreign key', column: { type: 'foreignKey', references: 'near', null: true },
    accepted: [['1'], ['1.0', '1'], ['null']],
    refused: {
      'there is no such record': ['999', '-1'],
      'must be a whole number': ['"1"', '1.5', 'true', '"x"', '[1]', '{"id":1}'],
      'must be from -2147483648 to 2147483647': ['2147483648'],
    },
    unfilterable: { 'must be a whole number': ['x', '1.5'] },
  },
  far_id: {
    about: 'a foreign key to a bigint', column: { type: 'foreignKey', references: 'far', null: true },
    accepted: [[FAR], [`"${FAR}"`, FAR]],
    refused: {
      'there is no such record': ['1', '"999"', '9007199254740992'],
      'must be from -9223372036854775808 to 9223372036854775807': ['9223372036854775808'],
      'must be a whole number': ['"x"', '1.5'],
      'must be a number or a string of digits': ['false'],
    },
  },
  wide_id: {
    about: 'a foreign key to a UUID', column: { type: 'foreignKey', references: 'wide', null: true },
    accepted: [[`"${WIDE}"`], [`"${WIDE.toUpperCase()}"`, `"${WIDE}"`]],
    refused: {
      'there is no such record': ['"00000000-0000-4000-8000-00000000000b"'],
      'must be a UUID': ['"x"'],
      'must be a string': ['1', '[]'],
    },
  },
}; // prettier-ignore

const EQUALITY = ['eq', 'ne', 'in', 'is'];
const ORDER = ['lt', 'lte', 'gt', 'gte'];
const PATTERNS = ['like', 'ilike'];
export const OPERATORS = [...EQUALITY, ...ORDER, ...PATTERNS, 'contains'];

/** Whether columns of this type can be compared with this operator. */
export function isSupported({ type }: ColumnDefinition, operator: string): boolean {
  if (operator === 'contains') return type === 'array' || type === 'json';
  if (PATTERNS.includes(operator)) return type === 'string' || type === 'text';
  return EQUALITY.includes(operator) || !['array', 'json', 'boolean', 'password'].includes(type);
}

const thing: Resource = {
  model: 'thing',
  columns: Object.fromEntries(
    Object.entries(CASES).map(([name, { column }]) => [name.replace(/_id$/, ''), column]),
  ),
  access: 'user',
};
const related: Resource[] = [
  { model: 'near', columns: {}, access: 'user' },
  { model: 'far', primaryKey: { type: 'bigint' }, columns: {}, access: 'user' },
  { model: 'wide', primaryKey: { type: 'uuid' }, columns: {}, access: 'user' },
];
/** The names that a body may have. */
export const NAMES = [...Object.keys(thing.columns), 'near_id', 'far_id', 'wide_id', 'id'];

/** Types that the service reads but does not create. The start adds all other columns. */
const DDL = `create table thing (id integer generated by default as identity primary key, s varchar(5) not null,
  sm smallint, re real, long macaddr8)`;

/** Starts a service with this model, and one record in each model that it refers to. */
export async function startCases(): Promise<WritableService> {
  const service = await startWith([...related, thing], DDL);
  await service.sql.unsafe(
    `insert into near default values; insert into far values (${FAR}); insert into wide values ('${WIDE}')`,
  );
  return service;
}
