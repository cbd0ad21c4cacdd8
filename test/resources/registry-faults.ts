import assert from 'node:assert/strict';
import { createVitrine, StartError } from '../../src/index.ts';
import { serverUrl } from '../support.ts';

/** A registry without types, which may have any fault. */
export type Loose = any; // eslint-disable-line @typescript-eslint/no-explicit-any -- anything can be exported

/** The lines of the error message of a start. The registry is checked first, so the database need not exist. */
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

/** Checks that the start reports exactly these faults, each as `resource: key`. */
export async function assertFaults(
  resources: Loose,
  expected: readonly string[],
  settings: object = {},
): Promise<void> {
  const faults = await faultsOf(resources, settings);
  const remaining = faults.slice();
  for (const fault of expected) {
    const at = remaining.findIndex((line) => line.startsWith(`  - ${fault}`));
    assert.ok(at >= 0, `${fault} must be reported in\n${faults.join('\n')}`);
    assert.match(remaining[at] ?? '', /: [^:]{8,}/, 'and why');
    remaining.splice(at, 1);
  }
  assert.deepEqual(remaining, [], 'nothing else is a fault');
}
