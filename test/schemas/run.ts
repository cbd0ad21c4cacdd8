// Serves schemas of Debian packages with the compiled Vitrine: npm run schemas -- [--json] [name of a schema ...].
// BENCH_DATABASE_URL names a server; else an embedded one is started. Needs apt-get, dpkg-deb, psql and Chromium.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import postgres from 'postgres';
import { openServer } from '../../bench/postgres.ts';
import { launchChromium } from '../browser/chromium.ts';
import { report, unexplained } from './report.ts';
import { SOURCES } from './sources.ts';
import { tryOut, type Trial } from './trial.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false } },
});
const unknown = positionals.filter((name) => !SOURCES.some((source) => source.name === name));
if (unknown.length > 0) {
  const names = SOURCES.map(({ name }) => name).join(', ');
  throw new Error(`no schema is named ${unknown.join(', ')}; there are ${names}`);
}
const chosen = SOURCES.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const say = (text: string): void => void process.stderr.write(`${text}\n`);

const directory = await mkdtemp(join(tmpdir(), 'vitrine-schemas-'));
const opened = await openServer(directory);
const url = new URL(opened.url);
const server = postgres(url.href, { max: 1, onnotice: () => undefined });
const databases: string[] = [];
const chromium = await launchChromium();

/** A database is dropped at the end. */
async function createDatabase(name: string): Promise<string> {
  const database = `vitrine_schemas_${name.replaceAll('-', '_')}_${process.pid}`;
  await server.unsafe(`create database ${database} template template0 encoding 'UTF8' locale 'C'`);
  databases.push(database);
  return new URL(`/${database}`, url).href;
}

try {
  const trials: Trial[] = [];
  for (const source of chosen) {
    const trial = await tryOut(source, { directory, createDatabase, chromium, say });
    trials.push(trial);
    for (const door of ['api', 'admin'] as const)
      for (const { model, step, status, text } of trial[door].refused)
        say(`${source.name}: ${door}: ${step} ${model}: ${status} ${text.slice(0, 500)}`);
    for (const fault of trial.faults) say(`${source.name}: ${fault}`);
    if (trial.faults.length + unexplained(trial).length > 0) process.exitCode = 1;
  }
  const [row] = await server<{ version: string }[]>`select current_setting('server_version') as version`;
  const text = report(trials, row?.version ?? '');
  if (values.json) process.stdout.write(`${JSON.stringify(trials, undefined, 2)}\n`);
  else process.stdout.write(text);
  if (positionals.length === 0) await writeFile(new URL('../../bench/schemas.md', import.meta.url), text);
} finally {
  await chromium.close();
  for (const name of databases) await server.unsafe(`drop database if exists ${name} with (force)`);
  await server.end();
  await opened.close();
  await rm(directory, { recursive: true, force: true });
}
