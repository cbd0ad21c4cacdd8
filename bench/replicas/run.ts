// npm run replicas: writes and reads on a primary with two standbys, and counts reads that miss the client's own write.
// It exits with 1 if there is one, or a failed request.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runPairs } from './pairs.ts';
import { createReplication } from './replication.ts';

const { values } = parseArgs({
  options: {
    pairs: { type: 'string', default: '100000' },
    clients: { type: 'string', default: '32' },
    delay: { type: 'string', default: '300ms' },
    json: { type: 'boolean', default: false },
  },
});

const directory = await mkdtemp(join(tmpdir(), 'vitrine-replicas-'));
const replication = await createReplication(directory, 2);
try {
  const [delayed] = replication.standbys;
  await delayed?.sql.unsafe(`alter system set recovery_min_apply_delay = '${values.delay}'`);
  await delayed?.sql.unsafe('select pg_reload_conf()');
  const counts = await runPairs(replication, {
    pairs: Number(values.pairs),
    clients: Number(values.clients),
    hasFaults: true,
  });
  const share = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)} %`;
  const rows: readonly (readonly [string, string | number])[] = [
    ['pairs of a write and a read', counts.pairs],
    ['stale reads', counts.stale],
    ['failed requests', counts.failed],
    ['requests refused because of overload', counts.refused],
    ['reads with a position on a standby', share(counts.onStandby, counts.pairs)],
    ['reads with a position on the primary', share(counts.pairs - counts.onStandby, counts.pairs)],
    ['reads without a position', counts.others],
    ['of these on a standby', share(counts.othersOnStandby, counts.others)],
    ['of these right after a write', counts.control],
    ['which missed it', counts.controlStale],
    ['pauses of the replay', counts.pauses],
    ['restarts of a standby', counts.restarts],
    ['pairs per second', Math.round(counts.pairs / counts.seconds)],
  ];
  if (values.json) process.stdout.write(`${JSON.stringify(counts)}\n`);
  else
    process.stdout.write(
      ['| count | value |', '| --- | --- |', ...rows.map((row) => `| ${row.join(' | ')} |`), ''].join('\n'),
    );
  for (const [reason, count] of Object.entries(counts.failures))
    process.stderr.write(`${count} × ${reason}\n`);
  process.exitCode = counts.stale === 0 && counts.failed === 0 ? 0 : 1;
} finally {
  await replication.close();
  await rm(directory, { recursive: true, force: true });
}
