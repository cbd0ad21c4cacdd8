// The forms that wait for a login: how many there are, and whose.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createForm } from '../../src/admin/web/form-data.ts';
import { createParking } from '../../src/admin/web/parked-forms.ts';

describe('parked forms', () => {
  const form = createForm([['title', 'Emma']]);

  test('of one user with many ended sessions do not push out those of another', () => {
    const parking = createParking();
    const id = parking.park('token of ada', 'ada', form);
    for (let at = 0; at < 200; at += 1) parking.park(`token ${at} of bob`, 'bob', form);
    assert.equal(parking.find('token of ada', id)?.get('title'), 'Emma');
  });

  test('open for no other session', () => {
    const parking = createParking();
    const id = parking.park('token of ada', 'ada', form);
    parking.move('token of ada', 'token of bob', 'bob');
    assert.equal(parking.find('token of bob', id), undefined);
  });
});
