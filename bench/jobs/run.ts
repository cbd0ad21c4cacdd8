// Does the jobs of a day in Chromium, counts what they take, and checks in the database that they were done:
// npm run jobs -- [words of a job ...]. BENCH_DATABASE_URL names a server; else an embedded one is started. Needs Chromium.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { launchChromium } from '../../test/browser/chromium.ts';
import { createDatabase, openServer, type Database } from '../postgres.ts';
import { addUser, withService, type Service } from '../service.ts';
import { machine, markdown } from '../table.ts';
import { JOBS, type Job, type World } from './jobs.ts';
import { Person } from './person.ts';
import { addSamples, NAME, PASSWORD } from './samples.ts';

const say = (text: string): void => void process.stderr.write(`${text}\n`);
const wanted = process.argv.slice(2);
const jobs = JOBS.filter(({ name }) => wanted.length === 0 || wanted.some((words) => name.includes(words)));
if (jobs.length === 0) throw new Error(`no job has ${wanted.join(', ')} in its name`);

const DESK = { viewport: { width: 1440, height: 900 } };
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

interface Result {
  readonly job: Job;
  readonly person: Person;
  /** Why the job was not done. */
  readonly fault: string | undefined;
}

const REPORT = `# Jobs

What ten jobs of a day take in the admin area, done by a script in Chromium as a person does them: \`npm run jobs\`. Afterwards it
checks in the database that each job was done. A job that misses its limit, or its check, ends the run with an error.

A click is one into a field, on a link, a button or a box; a choice in a select; Enter that submits; or Tab or a shortcut in place of
a click. Typing costs none beyond. A page is a document that is loaded after the one where the job begins.
[person.ts](jobs/person.ts) has the whole rule, [jobs.ts](jobs/jobs.ts) where each job begins, and its steps.

`;

const pageOf = async (browser: Browser, base: string, options: BrowserContextOptions): Promise<Page> => {
  const context = await browser.newContext({
    baseURL: base,
    locale: 'en-GB',
    reducedMotion: 'reduce',
    ...options,
  });
  context.setDefaultTimeout(10_000);
  return context.newPage();
};

async function logIn(
  browser: Browser,
  base: string,
): Promise<NonNullable<BrowserContextOptions['storageState']>> {
  const page = await pageOf(browser, base, DESK);
  await page.goto('/admin/');
  await page.getByLabel('User name').fill(NAME);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('link', { name: 'Products' }).first().waitFor();
  const state = await page.context().storageState();
  await page.context().close();
  return state;
}

async function doJobs(browser: Browser, { sql }: Database, { base }: Service): Promise<Result[]> {
  const storageState = await logIn(browser, base);
  const change: World['change'] = async (method, path, body) => {
    const authorization = `Basic ${Buffer.from(`${NAME}:${PASSWORD}`).toString('base64')}`;
    const headers = { authorization, 'content-type': 'application/json' };
    const answer = await fetch(base + path, { method, headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  };
  const world = { sql, change };
  const results: Result[] = [];
  for (const job of jobs) {
    await job.prepare?.(world);
    const page = await pageOf(browser, base, { ...(job.unit === 'taps' ? PHONE : DESK), storageState });
    await page.goto(job.start);
    const person = new Person(page, job.unit === 'taps');
    let fault: string | undefined;
    try {
      await job.work(person, world);
      await job.check(world);
    } catch (error) {
      fault = error instanceof Error ? error.message : String(error);
    }
    const [acts, pages] = job.atMost;
    const isOver = person.steps.length > acts || person.pages.length > pages;
    if (fault !== undefined || isOver) {
      process.exitCode = 1;
      say(`${job.name}: ${fault ?? 'more than its limit'}`);
      say([...person.steps, `pages: ${person.pages.join(' ')}`].map((line) => `  ${line}`).join('\n'));
    }
    results.push({ job, person, fault });
    await page.context().close();
  }
  return results;
}

const table = (results: readonly Result[]): string =>
  markdown(
    ['job', 'clicks', 'pages', 'at most'],
    results.map(({ job: { name, unit, atMost }, person, fault }) => [
      fault === undefined ? name : `${name}: **not done**`,
      `${person.steps.length}${unit ? ` ${unit}` : ''}`,
      String(person.pages.length),
      atMost.join(' / '),
    ]),
    1,
  );

const directory = await mkdtemp(join(tmpdir(), 'vitrine-jobs-'));
const server = await openServer(directory);
const browser = await launchChromium();
const database = await createDatabase(server.url);
try {
  const settings = { RESOURCES: resolve('bench/jobs/registry.ts'), NODE_OPTIONS: '--import tsx' };
  await addUser([NAME, '--admin'], PASSWORD, { DATABASE_URL: database.url, ...settings });
  await addSamples(database.sql);
  const results = await withService({ databaseUrl: database.url, settings }, (service) =>
    doJobs(browser, database, service),
  );
  const text = table(results);
  process.stdout.write(`${text}\n`);
  if (wanted.length === 0)
    await writeFile(
      'bench/jobs.md',
      `${REPORT}${text}\n\n${machine(database.version, ['playwright-core'])}.\n`,
    );
} finally {
  await browser.close();
  await database.drop();
  await server.close();
  await rm(directory, { recursive: true, force: true });
}
