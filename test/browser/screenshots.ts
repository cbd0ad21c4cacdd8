// Makes the screenshots of docs/admin.md: npm run screenshots
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium, type Browser, type Page } from 'playwright-core';
import postgres from 'postgres';
import { startEmbedded } from '../../src/commands/embedded.ts';
import { REPOSITORY, chinookSql } from '../paths.ts';

const ROOT = REPOSITORY;
const IMAGES = join(ROOT, 'docs', 'images');
const CHINOOK = join(ROOT, 'examples', 'chinook');
/** The maximum size of a screenshot (bytes). */
const MAX_SIZE = 120 * 1024;

interface Service {
  readonly base: string;
  readonly password: string;
  readonly stop: () => Promise<void>;
}

const startVitrine = (words: readonly string[], cwd: string, env: NodeJS.ProcessEnv): ChildProcess =>
  spawn(process.execPath, [join(ROOT, 'bin', 'vitrine.js'), ...words], {
    cwd,
    env: { ...process.env, DATABASE_URL: '', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });

/** Starts the service. Its output has the address and, for a new database, the password of the admin. */
async function serve(cwd: string, env: NodeJS.ProcessEnv, known = ''): Promise<Service> {
  const child = startVitrine(['serve'], cwd, { ...env, PORT: '0', LOG_LEVEL: 'error' });
  if (!child.stdout) throw new Error('the service has no output');
  let password = known;
  for await (const line of createInterface(child.stdout)) {
    password = /with the password (.+)$/.exec(line)?.[1] ?? password;
    const base = /^listening on (.+)$/.exec(line)?.[1];
    if (base === undefined) continue;
    const stop = async (): Promise<void> => {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    };
    return { base, password, stop };
  }
  throw new Error('the service ended before it listened');
}

async function serveChinook(databaseUrl: string): Promise<Service> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined });
  for (const file of ['chinook.sql', 'users.sql']) await sql.unsafe(chinookSql(file)).simple();
  await sql.end();
  const env = { DATABASE_URL: databaseUrl, RESOURCES: join(CHINOOK, 'resources.ts') };
  const child = startVitrine(['user', 'add', 'andrew', '--admin'], ROOT, env);
  child.stdin?.end('andrew-password\n');
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error('the user could not be added');
  return serve(ROOT, env, 'andrew-password');
}

/** Opens the start page in a new browser context, logged in. */
async function openAs(browser: Browser, { base, password }: Service, name: string): Promise<Page> {
  const context = await browser.newContext({
    baseURL: base,
    colorScheme: 'light',
    viewport: { width: 1200, height: 720 },
    reducedMotion: 'reduce',
    locale: 'en-GB',
  });
  const page = await context.newPage();
  await page.goto('/admin/');
  await page.getByLabel('User name').fill(name);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForURL('**/admin/');
  return page;
}

/** Takes a screenshot of the window, without the empty part at the bottom. */
async function takeScreenshot(page: Page, name: string): Promise<void> {
  const { width, height } = page.viewportSize() ?? { width: 0, height: 0 };
  const end = await page.evaluate('document.querySelector("main").getBoundingClientRect().bottom');
  const path = join(IMAGES, `${name}.png`);
  const clip = { x: 0, y: 0, width, height: Math.min(height, Math.ceil(Number(end))) };
  await page.screenshot({ path, clip, animations: 'disabled' });
  const { size } = await stat(path);
  if (size > MAX_SIZE) throw new Error(`${path} has ${size} bytes, more than ${MAX_SIZE}`);
  process.stdout.write(`${path} ${Math.round(size / 1024)} KB\n`);
}

/** Takes the screenshots with the shipped registry. */
async function takeShipped(browser: Browser, service: Service): Promise<void> {
  const page = await openAs(browser, service, 'admin');
  for (const content of [
    'Taped a moth into the log book, 15:45.',
    'First actual case of a bug being found.',
  ]) {
    await page.goto('/admin/message/2/');
    await page.getByLabel('Content').fill(content);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.waitForURL('**/admin/message/');
  }
  await page.goto('/admin/message/2/history/');
  await takeScreenshot(page, 'history');

  await page.goto('/admin/note/-/import/');
  const rows = [
    'id,message',
    '1,"Look, but do not touch!"',
    '2,The key is with the admin.',
    ',Closed on Mondays.',
  ];
  await page.getByLabel('Or paste the text').fill(rows.join('\n'));
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByRole('button', { name: /^Import:/ }).waitFor();
  await takeScreenshot(page, 'import');
}

const LONG_ROCK =
  '/admin/track/?genre__name=Rock&milliseconds__gte=500000&-composer__is=null&ordering=-milliseconds';

/** Takes the screenshots with the larger Chinook database. */
async function takeChinook(browser: Browser, service: Service): Promise<void> {
  const page = await openAs(browser, service, 'andrew');
  await page.setViewportSize({ width: 1200, height: 600 });
  await page.goto(LONG_ROCK);
  await takeScreenshot(page, 'list');
  await page.goto('/admin/track/1/');
  await takeScreenshot(page, 'record');
}

const directory = await mkdtemp(join(tmpdir(), 'vitrine-screenshots-'));
await chmod(directory, 0o755); // as root, PostgreSQL runs as another user
const cleanups: (() => Promise<void>)[] = [() => rm(directory, { recursive: true, force: true })];
try {
  await mkdir(IMAGES, { recursive: true });
  const embedded = await startEmbedded(join(directory, 'chinook'));
  cleanups.unshift(embedded.stop);
  const browser = await chromium.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    // Text without subpixel colors makes smaller files.
    args: ['--disable-lcd-text', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])],
  });
  cleanups.unshift(() => browser.close());
  const first = await serve(directory, {});
  cleanups.unshift(first.stop);
  await takeShipped(browser, first);
  const second = await serveChinook(embedded.url);
  cleanups.unshift(second.stop);
  await takeChinook(browser, second);
} finally {
  for (const close of cleanups) await close();
}
