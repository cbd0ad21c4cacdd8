// Measures how costs grow: npm run bench:scale -- [--short] [name of an axis ...]. Settings: BENCH_DATABASE_URL (a server; else an
// embedded one), BENCH_ROUNDS, BENCH_SECONDS.
import { fork } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { setting } from '../settings.ts';
import type { Axis } from './axis.ts';
import { columns } from './axes/columns.ts';
import { connections } from './axes/connections.ts';
import { exports } from './axes/exports.ts';
import { models } from './axes/models.ts';
import { rows } from './axes/rows.ts';
import { workers } from './axes/workers.ts';
import { filesOf, report, section, type Result } from './report.ts';
import { createStage, firstLine, type Stage } from './stage.ts';

const AXES: readonly Axis[] = [rows, models, columns, connections, workers, exports];

const loadBefore = loadavg()[0] ?? NaN;
const started = performance.now();
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { short: { type: 'boolean', default: false } },
});
const isShort = values.short;
const unknown = positionals.filter((name) => !AXES.some((axis) => axis.name === name));
if (unknown.length > 0)
  throw new Error(
    `no axis is named ${unknown.join(', ')}; there are ${AXES.map(({ name }) => name).join(', ')}`,
  );
const chosen = AXES.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const rounds = setting('BENCH_ROUNDS', isShort ? 1 : 3);
const seconds = setting('BENCH_SECONDS', isShort ? 0.3 : 2);

/** Ctrl-C ends the measuring; what was started and made is still stopped and dropped. */
const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => interruption.abort());

const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** Sentences about what the present axis leaves out. */
let notes: string[] = [];

async function measureAxis(axis: Axis, stage: Stage): Promise<Result> {
  say(`${axis.title} ...`);
  notes = [];
  try {
    const findings = await axis.run(stage);
    return { axis, findings: { ...findings, notes: [...(findings.notes ?? []), ...notes] } };
  } catch (error) {
    say(`${axis.title}: ${(error as Error).stack}`);
    return { axis, fault: firstLine(error) };
  }
}

/** Replaces the page and all of its images. */
async function write(results: readonly Result[], postgres: string): Promise<void> {
  const images = new URL('../images/', import.meta.url);
  await mkdir(images, { recursive: true });
  for (const name of await readdir(images)) if (name.startsWith('scale-')) await rm(new URL(name, images));
  for (const [name, svg] of results.flatMap(filesOf)) await writeFile(new URL(name, images), svg);
  const minutes = (performance.now() - started) / 60_000;
  const run = { rounds, seconds, minutes, postgres, loadBefore };
  await writeFile(new URL('../scale.md', import.meta.url), report(results, run));
}

const directory = await mkdtemp(join(tmpdir(), 'vitrine-scale-'));
await chmod(directory, 0o755); // the embedded server runs as another user when this is root
const generator = fork(new URL('../load.ts', import.meta.url));
generator.once('exit', () => interruption.abort());
try {
  const stage = createStage({
    directory,
    generator,
    interruption: interruption.signal,
    isShort,
    rounds,
    seconds,
    say,
    note: (sentence) => void notes.push(sentence),
  });
  const results: Result[] = [];
  for (const axis of chosen) {
    if (interruption.signal.aborted) break;
    results.push(await measureAxis(axis, stage));
    process.stdout.write(`${section(results.at(-1) as Result)}\n\n`);
  }
  const postgres = await stage.withDatabase(({ version }) => Promise.resolve(version));
  const isWhole = positionals.length === 0 && !isShort && !interruption.signal.aborted;
  if (isWhole) await write(results, postgres);
  if (results.some(({ fault }) => fault !== undefined)) process.exitCode = 1;
} finally {
  generator.kill();
  await rm(directory, { recursive: true, force: true });
}
