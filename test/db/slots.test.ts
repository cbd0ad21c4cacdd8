import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { SERVICE, type Requester } from '../../src/db/scheduling/requester.ts';
import { Slots } from '../../src/db/scheduling/slots.ts';
import { test } from '../testing.ts';

test('a free slot goes to the clients in turn, also if one of them always has a request waiting', async () => {
  const one = { anonymous: 1, user: 1, admin: 1 };
  const two = { anonymous: 2, user: 2, admin: 2 };
  const slots = new Slots({ max: one, perClient: two, ownMessage: 'own', fullMessage: 'full' });
  const anonymous = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'anonymous' });
  const order: string[] = [];
  let leave = await slots.enter(anonymous('first'));
  const ask = (key: string): void =>
    void slots.enter(anonymous(key)).then(
      (left) => {
        order.push(key);
        leave = left;
      },
      () => order.push('refused'),
    );
  for (const key of ['mallory', 'mallory', 'alice', 'bob']) ask(key);
  for (let times = 0; times < 4; times += 1) {
    ask('mallory');
    leave();
    await turn();
  }
  assert.deepEqual(order, ['mallory', 'alice', 'bob', 'mallory']);
  for (; order.length < 8; await turn()) leave();
});
