// The looks of the admin area: title, logo, accent and ribbon of the registry, on each page with and without a session.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { users } from '../db/helpers.ts';
import { send } from '../send.ts';
import { startService } from '../support.ts';
import { openBrowser, useAdmin } from './support.ts';

const folder = await mkdtemp(join(tmpdir(), 'vitrine-logo-'));
after(() => rm(folder, { recursive: true }));
const logo = join(folder, 'logo.svg');
const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';
await writeFile(logo, svg);

describe('an admin area with a brand', () => {
  const { service, ada } = useAdmin([users], {
    admin: { title: 'Back & office', logo, accent: '#0b6b50', ribbon: { text: 'Live', tone: 'danger' } },
  });

  test('shows them on each page, also on the login and on errors', async () => {
    for (const { text } of [
      await openBrowser(service).get('/admin/-/login/'),
      await ada.get('/admin/'),
      await ada.get('/admin/user/'),
      await ada.get('/admin/nothing/'),
    ]) {
      assert.match(text, /<title>[^<]* · Back &amp; office<\/title>/);
      assert.match(text, /<p class="ribbon tone-danger">Live<\/p>/);
      assert.match(
        text,
        /class="brand"[^>]*>\s*<img src="\/admin\/-\/logo-\w+\.svg" alt="" \/> Back &amp; office/,
      );
      assert.match(text, /<link rel="stylesheet" href="\/admin\/-\/brand-\w+\.css" \/>/);
    }
  });

  test('has both colors, the dark one lightened until it can be read, and a logo that cannot run scripts', async () => {
    const { text } = await ada.get('/admin/');
    const [path = ''] = /\/admin\/-\/brand-\w+\.css/.exec(text) ?? [];
    const style = await ada.get(path);
    assert.equal(style.headers.get('content-type'), 'text/css; charset=utf-8');
    assert.match(style.text, /--accent: light-dark\(#0b6b50, #[\da-f]{6}\);/);
    const image = await ada.get(/\/admin\/-\/logo-\w+\.svg/.exec(text)?.[0] ?? '');
    assert.equal(image.text, svg);
    assert.equal(image.headers.get('content-type'), 'image/svg+xml');
    assert.match(image.headers.get('content-security-policy') ?? '', /default-src 'none'.*sandbox/);
    assert.equal((await send(`${service.base}/admin/-/logo-0123456789ab.svg`, {})).status, 404);
  });
});

test('the files of a brand count for no rate limit, and in the metrics as files', async () => {
  const service = await startService([users], { admin: { logo, accent: '#0b6b50' }, rateLimit: '1,20' });
  after(() => service.close());
  const { text } = await openBrowser(service).get('/admin/-/login/');
  const files = text.match(/\/admin\/-\/(?:brand|logo|style)-\w+\.\w+/g) ?? [];
  assert.equal(files.length, 3);
  for (let time = 0; time < 10; time += 1)
    for (const file of files) assert.equal((await send(`${service.base}${file}`, {})).status, 200);
  assert.match(await service.metrics(), /_total\{[^}]*route="\/admin\/-\/\{file\}"[^}]*\} 30\n/);
});

for (const [about, path, text] of [
  ['that is not there', join(folder, 'none.svg'), /admin\.logo: .*none\.svg cannot be read/],
  ['of another type', join(folder, 'logo.gif'), /must end in \.svg, \.png, \.webp, \.jpg, \.jpeg/],
  ['that is too large', join(folder, 'large.png'), /has 65537 bytes; at most 65536 are allowed/],
] as const)
  test(`a service with a logo ${about} does not start`, async () => {
    await writeFile(join(folder, 'large.png'), Buffer.alloc(65_537));
    await assert.rejects(startService([users], { admin: { logo: path } }), text);
  });
