import assert from 'node:assert/strict';
import { createVitrine, StartError } from '../../src/index.ts';
import { serverUrl } from '../support.ts';

/** A registry as somebody may write it who has no types to help. */
export type Loose = any; // eslint-disable-line @typescript-eslint/no-explicit-any -- anything can be exported

/** The lines of the start's message. The registry is checked before the database is asked: this one is not there. */
export async function faultsOf(resources: Loose, settings: object = {}): Promise<string[]> {
  const databaseUrl = new URL('/vitrine_test_none', serverUrl()).href;
  const error: unknown = await createVitrine({
    databaseUrl,
    resources,
    log: () => undefined,
    ...settings,
  }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof StartError, `a StartError, and not ${String(error)}`);
  return error.message.split('\n').slice(1);
}

/** Each fault as `resource: key`. */
export async function assertFaults(
  resources: Loose,
  expected: readonly string[],
  settings: object = {},
): Promise<void> {
  const faults = await faultsOf(resources, settings);
  const unseen = faults.slice();
  for (const fault of expected) {
    const at = unseen.findIndex((line) => line.startsWith(`  - ${fault}`));
    assert.ok(at >= 0, `${fault} must be told in\n${faults.join('\n')}`);
    assert.match(unseen[at] ?? '', /: [^:]{8,}/, 'and why');
    unseen.splice(at, 1);
  }
  assert.deepEqual(unseen, [], 'nothing else is a fault');
}
