// One attacker: a process that does one job, until it is told to stop, and reports.
import { setMaxListeners } from 'node:events';
import { flood } from './attackers/flood.ts';
import { pipeline } from './attackers/pipeline.ts';
import { readSlowly } from './attackers/slow-readers.ts';
import { createTally, type Tally } from './attackers/tally.ts';
import { sendHeads } from './attackers/unfinished-heads.ts';
import { withholdBytes } from './attackers/withheld-bytes.ts';
import type { Job } from './jobs.ts';

function run(job: Job, tally: Tally, stopped: AbortSignal): Promise<void> {
  const begin = (): void => {
    tally.begin();
    process.send?.('begun');
  };
  if (job.kind === 'flood') return flood(job, tally, stopped, begin);
  if (job.kind === 'pipeline') return pipeline(job, tally, stopped, begin);
  begin();
  if (job.kind === 'unfinished heads') return sendHeads(job, tally, stopped);
  if (job.kind === 'withheld bytes') return withholdBytes(job, tally, stopped);
  return readSlowly(job, tally, stopped);
}

const stopping = new AbortController();
setMaxListeners(0, stopping.signal);
process.on('message', (message: Job | 'stop') => {
  if (message === 'stop') return stopping.abort();
  const tally = createTally();
  const started = performance.now();
  let done = (): void => undefined;
  const stopped = new Promise<void>((resolve) => (done = resolve));
  stopping.signal.addEventListener('abort', () => done());
  void Promise.race([run(message, tally, stopping.signal), stopped]).then(() => {
    process.send?.({ ...tally.report(), seconds: (performance.now() - started) / 1000 });
  });
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
