// What several processes tell each other, and how their metrics are added.
import assert from 'node:assert/strict';
import { eventually } from '../http/expect.ts';
import { createOutbox } from '../../src/workers/outbox.ts';
import { sumMetrics } from '../../src/http/observability/metrics-sum.ts';
import { test } from 'node:test';

test('requests that another process has added up are passed on before new ones are', async () => {
  const sent: string[] = [];
  const outboxOf = () =>
    createOutbox(({ rates }, onWritten) => {
      sent.push(...rates.map(([key]) => key));
      onWritten();
    });
  outboxOf().request('new');
  // Another outbox, because a batch takes everything that waits.
  outboxOf().forward({ failures: [], logins: [], rates: [['added up', 3]] });
  await eventually(() => sent.length === 2, 'both batches');
  assert.deepEqual(sent, ['added up', 'new']);
});

test('of several processes a replica is in the rotation if all use it, and its lag is the longest', () => {
  const documents = [
    ['1', '0.5', '100'],
    ['0', '12', 'NaN'],
  ].map(([isUsed, seconds, bytes]) =>
    [
      ['in_rotation', 'gauge', isUsed],
      ['lag_seconds', 'gauge', seconds],
      ['lag_bytes', 'gauge', bytes],
      ['reads_total', 'counter', '7'],
    ]
      .map(([name, type, value]) => {
        const metric = `vitrine_replica_${name}`;
        return `# HELP ${metric} x\n# TYPE ${metric} ${type}\n${metric}{replica="a"} ${value}\n`;
      })
      .join(''),
  );
  const values = sumMetrics(documents).match(/(?<=\} ).*$/gm);
  assert.deepEqual(values, ['0', '12', 'NaN', '14']);
});
