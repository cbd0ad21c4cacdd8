// The digest that shows whether a form was sent before.
import assert from 'node:assert/strict';
import { submissionDigest } from '../../src/admin/fields/submit-once.ts';
import { createForm, type Form } from '../../src/admin/web/form-data.ts';
import { longestTurnOf } from '../http/expect.ts';
import { createParking, type Parking } from '../../src/admin/web/parked-forms.ts';
import type { Topic } from '../../src/processes.ts';
import { describe, test } from 'node:test';

const PIECE = 65_536;
const formOf = (...entries: Form['entries']): Form => createForm([['_form', 'token'], ...entries]);
const digestOf = (...entries: Form['entries']): Promise<string | undefined> =>
  submissionDigest(formOf(...entries));

describe('the digest of a form', () => {
  test('is the same for the same values, whichever button was pressed', async () => {
    const long = 'ä\u{1f600}'.repeat(PIECE);
    const digest = await digestOf(['name', long]);
    assert.match(digest ?? '', /^[\w-]{43}$/);
    assert.equal(await digestOf(['name', long], ['_save', 'stay']), digest);
  });

  test('is missing without a token', async () => {
    assert.equal(await submissionDigest(createForm([['name', 'x']])), undefined);
  });

  test('differs for different values', async () => {
    const before = 'x'.repeat(PIECE - 1);
    const forms: Form['entries'][] = [
      [],
      [['', '']],
      [['a', 'bc']],
      [['ab', 'c']],
      [['a', 'b'], ['c', '']],
      [['a', ''], ['b', 'c']],
      [['a', '1;b']],
      [['a', before]],
      [['a', `${before}\u{1f600}`]],
      [['a', `${before}\u{1f601}`]],
      [['a', `${before}\u{2f600}`]],
    ]; // prettier-ignore
    const digests = await Promise.all(forms.map((entries) => digestOf(...entries)));
    assert.equal(new Set(digests).size, forms.length);
  });

  test('is made in short turns of the event loop', async () => {
    const controls = '\u0001'.repeat(8 * 2 ** 20);
    const many = Array.from({ length: 20_000 }, (_, index) => [`name ${index}`, ''] as const);
    for (const form of [formOf(['name', controls]), formOf([controls, '']), formOf(...many)]) {
      const longest = await longestTurnOf(() => submissionDigest(form), 20_000);
      assert.ok(longest < 20_000, `${longest} microseconds`);
    }
  });
});

describe('parked forms', () => {
  const form = createForm([['title', 'Emma']]);

  test('of one user with many sessions do not evict those of another', () => {
    const parking = createParking();
    const id = parking.park('token of ada', 'ada', form);
    for (let at = 0; at < 200; at += 1) parking.park(`token ${at} of bob`, 'bob', form);
    assert.equal(parking.find('token of ada', id)?.get('title'), 'Emma');
  });

  /**
   * Connects so many processes. What goes from one to another is JSON.
   * @param lost messages of this topic do not arrive
   */
  function connectProcesses(count: number, lost?: Topic): Parking[] {
    const processes = Array.from({ length: count }, () => new Map<Topic, (data: string) => unknown>());
    return processes.map((own) =>
      createParking({
        onQuestion: (topic, answer) => void own.set(topic, answer),
        ask: (topic, data) => {
          const others = processes.filter((one) => one !== own && topic !== lost);
          const found = others.flatMap((other) => other.get(topic)?.(data) ?? []);
          return Promise.resolve(JSON.parse(JSON.stringify(found)) as unknown[]);
        },
      }),
    );
  }

  test('are found by the other processes of a service', async () => {
    const [first, second] = connectProcesses(2) as [Parking, Parking];
    const id = first.park('token of ada', 'ada', form);
    await second.fetch('token of ada', 'no such id');
    await second.fetch('token of bob', id);
    assert.equal(second.find('token of bob', id), undefined);
    await second.fetch('token of ada', id);
    await second.move('token of ada', 'next token of ada', 'ada');
    assert.equal(second.find('next token of ada', id)?.get('title'), 'Emma');
    assert.equal(second.find('token of bob', id), undefined);
  });

  test('of several tabs are found after one login, whichever process has them', async () => {
    const processes = connectProcesses(3);
    const [first, second] = processes as [Parking, Parking];
    const ids = [first.park('token of ada', 'ada', form), second.park('token of ada', 'ada', form)];
    await first.move('token of ada', 'next token of ada', 'ada');
    for (const parking of processes)
      for (const id of ids) {
        await parking.fetch('next token of ada', id);
        assert.equal(parking.find('next token of ada', id)?.get('title'), 'Emma');
      }
  });

  test('are found although this process has them of the earlier session', async () => {
    const [first, second, third] = connectProcesses(3, 'move') as [Parking, Parking, Parking];
    const id = first.park('token of ada', 'ada', form);
    await third.fetch('token of ada', id);
    await third.move('token of ada', 'next token of ada', 'ada');
    for (const parking of [second, first]) {
      await parking.fetch('next token of ada', id);
      assert.equal(parking.find('next token of ada', id)?.get('title'), 'Emma');
    }
  });

  test('cannot be read by another session', async () => {
    const parking = createParking();
    const id = parking.park('token of ada', 'ada', form);
    await parking.move('token of ada', 'token of bob', 'bob');
    assert.equal(parking.find('token of bob', id), undefined);
  });
});
