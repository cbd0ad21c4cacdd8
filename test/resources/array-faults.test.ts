// The faults of array columns in a registry.
import { assertFaults } from './registry-faults.ts';
import { test } from 'node:test';

const FAULTS: Readonly<Record<string, readonly [column: object, keys: readonly string[]]>> = {
  'a missing type of the elements': [{}, ['of: must be one of string, text,']],
  'an unknown type of the elements': [{ of: 'json', elements: 1 }, ['of: must be one of']],
  'elements that are no object': [{ of: 'text', elements: true }, ['elements: must be an object']],
  'an unknown key of the elements': [
    { of: 'text', elements: { min: 1 } },
    ['elements.min: elements of type text have no such key'],
  ],
  'limits that are no numbers': [
    { of: 'integer', elements: { min: 'a', null: 1 } },
    ['elements.null: must be true or false', 'elements.min: must be a number'],
  ],
  'a limit on the array itself': [{ of: 'text', maxLength: 5 }, ['maxLength: type array has no such key']],
  'a choice of another type': [{ of: 'integer', choices: [1, 'a'] }, ['choices: "a" must be a whole number']],
  'a choice that JSON does not have, and a default': [
    { of: 'bigint', choices: [1n], default: [] },
    ['choices: 1n must be a number or a string of digits'],
  ],
  'a limit of the elements that JSON does not have': [
    { of: 'text', elements: { maxLength: 5n } },
    ['elements.maxLength: must be a'],
  ],
  'a choice beyond the limits': [
    { of: 'string', choices: ['abc'], elements: { maxLength: 2 } },
    ['choices: "abc" must be at most 2 characters'],
  ],
  'a default that is no array': [{ of: 'text', default: 'a' }, ['default: "a" must be an array']],
  'a default with an element that is not a choice': [
    { of: 'text', choices: ['a'], default: ['a', 'b'] },
    ['default: ["a","b"] element 2: must be one of a'],
  ],
  'a NULL element in the default': [
    { of: 'text', elements: { null: false }, default: [null] },
    ['default: [null] element 1: must not be null'],
  ],
};

for (const [name, [column, keys]] of Object.entries(FAULTS))
  test(`${name} is reported`, () =>
    assertFaults(
      [{ model: 'thing', columns: { tags: { type: 'array', ...column } } }],
      keys.map((key) => `thing: columns.tags.${key}`),
    ));
