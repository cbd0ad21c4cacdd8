// Writes and reads on a primary with two standbys, and counts reads that miss the client's own write: npm run replicas.
// It exits with 1 if there is one, or a failed request.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createCluster } from '../postgres.ts';
import { markdown, whole } from '../table.ts';
import { runPairs } from './pairs.ts';

const { values } = parseArgs({
  options: {
    pairs: { type: 'string', default: '100000' },
    clients: { type: 'string', default: '32' },
    delay: { type: 'string', default: '300ms' },
    postgres: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});

const directory = await mkdtemp(join(tmpdir(), 'vitrine-replicas-'));
const settings = { fsync: 'off', max_connections: 150 };
const cluster = await createCluster(directory, { standbys: 2, settings, postgres: values.postgres });
try {
  const [delayed] = cluster.standbys;
  await delayed?.sql.unsafe(`alter system set recovery_min_apply_delay = '${values.delay}'`);
  await delayed?.sql.unsafe('select pg_reload_conf()');
  const clients = Number(values.clients);
  const counts = await runPairs(cluster, { pairs: Number(values.pairs), clients, hasFaults: true });
  const share = (part: number, all: number): string => `${((100 * part) / all).toFixed(1)} %`;
  const rows = [
    ['pairs of a write and a read', whole(counts.pairs)],
    ['stale reads', whole(counts.stale)],
    ['other violations', whole(counts.violations.length - counts.stale)],
    ['failed requests', whole(counts.failed.length)],
    ['requests refused because of overload', whole(counts.refused)],
    ['reads with a position on a standby', share(counts.onStandby, counts.pairs)],
    ['reads without a position', whole(counts.others)],
    ['of these on a standby', share(counts.othersOnStandby, counts.others)],
    ['of these right after a write', whole(counts.control)],
    ['which missed it', whole(counts.controlStale)],
    ['pauses of the replay', whole(counts.pauses)],
    ['restarts of a standby', whole(counts.restarts)],
    ['pairs per second', whole(counts.pairs / counts.seconds)],
  ];
  process.stdout.write(`${values.json ? JSON.stringify(counts) : markdown(['count', 'value'], rows, 1)}\n`);
  for (const text of new Set([...counts.violations, ...counts.failed].slice(0, 10)))
    process.stderr.write(`${text}\n`);
  process.exitCode = counts.violations.length === 0 && counts.failed.length === 0 ? 0 : 1;
} finally {
  await cluster.close();
  await rm(directory, { recursive: true, force: true });
}
