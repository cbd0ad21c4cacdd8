// The sealed history: HISTORY_KEY of the service, and `vitrine history`.
import assert from 'node:assert/strict';
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { createVitrine, type VitrineOptions } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { hashOf, keyIdOf } from '../../src/resources/history/seals.ts';
import { createDatabase, eventually, request, useDatabase } from '../support.ts';
import { metricsAddress } from '../support.ts';
import type { Ended } from '../process/support.ts';
import { run } from './support.ts';
import { describe, test } from 'node:test';

/** How many random changes of the database, and of an export, are tried. */
const TAMPERINGS = Number(process.env['TAMPERINGS'] ?? 40);

const folder = mkdtempSync(join(tmpdir(), 'vitrine-history-'));
const inFolder = (name: string): string => join(folder, name);

/** Makes a key. @returns the names of its files */
function makeKey(name: string): { key: KeyObject; secret: string; open: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const [secret, open] = [inFolder(`${name}.pem`), inFolder(`${name}.pub`)];
  writeFileSync(secret, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(open, publicKey.export({ type: 'spki', format: 'pem' }));
  return { key: privateKey, secret, open };
}

const own = makeKey('own');
const other = makeKey('other');
let witnesses = 0;
const newWitness = (): string => inFolder(`witness-${(witnesses += 1)}.ndjson`);

describe('vitrine history', () => {
  const witness = newWitness();
  /** Entries that were sealed in rounds, of several checkpoints. */
  const ROUNDS = 6;
  const database = useDatabase('', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const service = await start({ historyKey: own.secret, historyWitness: witness });
      const rows = Array.from({ length: 5 }, (_, index) => ({
        door: 'api', action: 'update', model: 'note', record: `${round}`, user_name: 'ada', before: `{"message":"${round} ${index}"}`, after: '{"message":"ö\\u0000\\n\\"\u{1f600}"}',
      })); // prettier-ignore
      await database.sql`insert into vitrine_history ${database.sql(rows)}`;
      // A gap in the ids, as of a transaction that was rolled back.
      await database.sql`select nextval(pg_get_serial_sequence('vitrine_history', 'id'))`;
      await service.close();
    }
    await database.sql`create schema kept`;
    for (const table of ['vitrine_history', 'vitrine_seal'])
      await database.sql.unsafe(`create table kept.${table} as select * from public.${table}`);
  });

  async function start(
    options: Partial<VitrineOptions>,
  ): Promise<{ url: string; lines: Record<string, unknown>[]; close: () => Promise<void> }> {
    const lines: Record<string, unknown>[] = [];
    const vitrine = await createVitrine({
      ...{ databaseUrl: database.url, resources: shipped, port: 0, access: 'user', metrics: '127.0.0.1:0' },
      log: (text) =>
        void lines.push(...text.trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>)), // prettier-ignore
      ...options,
    });
    const { url } = await vitrine.start();
    return { url, lines, close: vitrine.close };
  }

  const env = (): Record<string, string> => ({ DATABASE_URL: database.url });
  const history = (...words: string[]): Promise<Ended> => run(['history', ...words], { env: env() });
  const verify = (...words: string[]): Promise<Ended> =>
    history('verify', '--key', own.open, '--witness', witness, ...words);
  /** Brings back what the tests have changed. */
  const restore = (): Promise<unknown> =>
    database.sql.unsafe(
      ['vitrine_history', 'vitrine_seal']
        .map((table) => `truncate public.${table}; insert into public.${table} select * from kept.${table};`)
        .concat('truncate public.vitrine_event')
        .join(' '),
    );
  async function tampered(change: string, ...words: string[]): Promise<string> {
    try {
      await database.sql.unsafe(change);
      const { code, stdout, stderr } = await verify(...words);
      assert.deepEqual([code, stderr], [1, ''], `${change}\n${stdout}`);
      return stdout;
    } finally {
      await restore();
    }
  }

  test('verify says that an untouched history is intact', async () => {
    const { code, stdout } = await verify();
    const lines = stdout.trimEnd().split('\n');
    assert.deepEqual([code, lines[0]], [0, 'intact: 6 checkpoints with 30 entries'], stdout);
    assert.match(
      lines[1] ?? '',
      /^sealed: checkpoint 6 \(\d{4}-\d\d-\d\dT[\d:.]+Z\): vitrine_history up to 35/,
    );
    assert.equal(lines.length, 2);
  });

  const faults: [what: string, change: string, said: RegExp][] = [
    ['a changed value', `update vitrine_history set after = '{}' where id = 9`, /^entry 9 of vitrine_history was changed after it was sealed \(checkpoint 2, /],
    ['another author', `update vitrine_history set user_name = 'eve' where id >= 20`, /^entry 20 of vitrine_history was changed/],
    ['a value instead of NULL', `update vitrine_history set user_key = '1' where id = 1`, /^entry 1 of vitrine_history was changed/],
    ['a time', `update vitrine_history set at = at - interval '1 second' where id = 35`, /^entry 35 of vitrine_history was changed/],
    ['a removed entry', `delete from vitrine_history where id = 13`, /^entry 13 of vitrine_history was removed/],
    ['removed entries at the beginning', `delete from vitrine_history where id < 4`, /^entry 1 of vitrine_history was removed/],
    ['an added entry in a gap', `insert into vitrine_history (id, door, action, model, record) values (12, 'api', 'create', 'note', '1')`, /^entry 12 of vitrine_history was added/],
    ['an added entry before the first one', `insert into vitrine_history (id, door, action, model, record) values (0, 'api', 'create', 'note', '1')`, /^entry 0 of vitrine_history was added/],
    ['two entries in another order', `update vitrine_history set id = case id when 2 then -3 else -2 end where id in (2, 3); update vitrine_history set id = -id where id < 0`, /^entry 2 of vitrine_history was reordered/],
    ['an entry with another id', `update vitrine_history set id = 1000 where id = 8`, /^entry 8 of vitrine_history was removed/],
    ['a removed checkpoint', `delete from vitrine_seal where id = 3`, /^checkpoint 3 was removed/],
    ['removed checkpoints at the end, with their entries', `delete from vitrine_seal where id >= 5; delete from vitrine_history where id > 24`, /^checkpoint 5 was removed: a witness has it/],
    ['a changed checkpoint', `update vitrine_seal set content = replace(content, '"number":"4"', '"number": "4"') where id = 4`, /^checkpoint 4 was changed: a witness has another one/],
    ['an unreadable checkpoint', `update vitrine_seal set content = 'x' where id = 2`, /^checkpoint 2 was changed/],
    ['another signature', `update vitrine_seal set signature = (select signature from vitrine_seal where id = 1) where id = 2`, /^checkpoint 2 was changed: its signature is wrong/],
    ['an added checkpoint', `insert into vitrine_seal select 7, content, signature from vitrine_seal where id = 6`, /^checkpoint 6 was changed: checkpoint 7 follows another one/],
    ['a removed history', `truncate vitrine_history, vitrine_seal`, /^checkpoint 1 was removed: a witness has it/],
  ]; // prettier-ignore
  for (const [what, change, said] of faults)
    test(`verify names ${what}`, async () => {
      const stdout = await tampered(change);
      assert.match(stdout, said);
      assert.match(stdout, /^BROKEN: /m);
    });

  test('a history that someone has sealed again with another key, or without, is broken', async (t) => {
    const rows = await database.sql<{ content: string }[]>`select content from vitrine_seal order by id`;
    let previous = '';
    const forged = rows.map(({ content }, index) => {
      const made = JSON.stringify({ ...(JSON.parse(content) as object), previous, key: keyIdOf(other.key) });
      previous = hashOf(made);
      const signed = Buffer.from(`vitrine seal ${index + 1} ${previous}`);
      return { id: index + 1, content: made, signature: sign(null, signed, other.key).toString('base64') };
    });
    t.after(() => restore());
    await database.sql`truncate vitrine_seal`;
    await database.sql`insert into vitrine_seal ${database.sql(forged)}`;
    assert.match((await verify()).stdout, /^checkpoint 1 was changed: a witness has another one\ncheckpoint 1 is signed with an unknown key/); // prettier-ignore
    const { code, stdout } = await history('verify', '--key', own.open);
    assert.equal(code, 1);
    assert.match(stdout, /^checkpoint 1 is signed with an unknown key/);
    // Whoever has no key cannot tell.
    const unkeyed = await history('verify');
    assert.equal(unkeyed.code, 0);
    assert.match(unkeyed.stdout, /^not proven: Without a key, signatures were not checked/m);
  });

  test('verify says what cannot be proven', async (t) => {
    t.after(() => restore());
    await database.sql`insert into vitrine_history (id, door, action, model, record) values (50, 'api', 'create', 'note', '1')`;
    const { code, stdout } = await verify();
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^not proven: 1 entry is not sealed yet\.$/m);
    const shorter = inFolder('shorter.ndjson');
    writeFileSync(shorter, readFileSync(witness, 'utf8').split('\n').slice(0, 4).join('\n'));
    const half = await history('verify', '--key', own.open, '--witness', shorter);
    assert.match(half.stdout, /^not proven: The witness has not seen what follows its last checkpoint: checkpoint 4 /m); // prettier-ignore
    assert.match(
      (await history('verify', '--key', own.open)).stdout,
      /^not proven: Without a witness, checkpoints at the end could be missing/m,
    );
  });

  test('older entries that were deleted on purpose may be missing, as whole checkpoints', async (t) => {
    t.after(() => restore());
    await database.sql`delete from vitrine_history where id < 18`;
    assert.equal((await verify()).code, 1);
    assert.equal((await verify('--from', '4')).code, 0);
    assert.equal((await verify('--from', '3')).code, 1);
    await database.sql`update vitrine_seal set signature = 'x' where id = 1`;
    assert.equal((await verify('--from', '4')).code, 1);
  });

  /** A random change of what is sealed. */
  const id = fc.integer({ min: 1, max: 36 });
  const entryIds = Array.from({ length: 36 }, (_, index) => index + 1).filter((one) => one % 6 !== 0);
  const entry = fc.constantFrom(...entryIds);
  const seal = fc.integer({ min: 1, max: ROUNDS });
  const column = fc.constantFrom('user_key', 'user_name', 'door', 'action', 'model', 'record', 'before', 'after'); // prettier-ignore
  const tampering = fc.oneof(
    fc.tuple(entry, column, fc.stringMatching(/^[a-z]{1,8}$/)).map(([one, name, to]) => `update vitrine_history set ${name} = '${to}!' where id = ${one}`),
    fc.tuple(entry, column).map(([one, name]) => `update vitrine_history set ${name} = coalesce(${name}, '') || ' ' where id = ${one}`),
    fc.tuple(entry, fc.integer({ min: 1, max: 1e6 })).map(([one, seconds]) => `update vitrine_history set at = at + interval '${seconds} seconds' where id = ${one}`),
    fc.uniqueArray(entry, { minLength: 1, maxLength: 4 }).map((ids) => `delete from vitrine_history where id in (${ids.join()})`),
    entry.map((one) => `delete from vitrine_history where id >= ${one}`),
    fc.uniqueArray(entry, { minLength: 2, maxLength: 2 }).map(([one, two]) => `update vitrine_history set id = -id where id in (${one}, ${two}); update vitrine_history set id = case id when -${one} then ${two} else ${one} end where id < 0`),
    fc.integer({ min: -5, max: 6 }).map((gap) => `insert into vitrine_history (id, door, action, model, record) values (${gap < 1 ? gap : gap === 6 ? 30 : gap * 6}, 'api', 'create', 'note', '1')`),
    seal.map((one) => `delete from vitrine_seal where id = ${one}`),
    seal.map((one) => `delete from vitrine_seal where id >= ${one}`),
    fc.tuple(seal, fc.nat(1_000_000)).map(([one, at]) => `update vitrine_seal set content = overlay(content placing (case substr(content, 1 + ${at} % length(content), 1) when 'a' then 'b' else 'a' end) from 1 + ${at} % length(content)) where id = ${one}`),
    fc.tuple(seal, fc.nat(85)).map(([one, at]) => `update vitrine_seal set signature = overlay(signature placing (case substr(signature, ${at + 1}, 1) when 'A' then 'B' else 'A' end) from ${at + 1}) where id = ${one}`),
    fc.tuple(seal, seal).filter(([one, two]) => one !== two).map(([one, two]) => `update vitrine_seal s set content = o.content, signature = o.signature from vitrine_seal o where s.id = ${one} and o.id = ${two}`),
    fc.tuple(seal, id).map(([one, more]) => `delete from vitrine_seal where id >= ${one}; delete from vitrine_history where id >= ${more}`),
  ); // prettier-ignore

  test('any change of what is sealed is found', async () => {
    await fc.assert(
      fc.asyncProperty(tampering, async (change) => {
        await tampered(change);
      }),
      { numRuns: TAMPERINGS },
    );
  });

  test('an export can be checked without the database, and any change of it is found', async () => {
    const { stdout: exported } = await history('export');
    const lines = exported.trimEnd().split('\n');
    assert.equal(lines.length, 36);
    assert.equal(JSON.parse(lines[0] ?? '').entry.after, '{"message":"ö\\u0000\\n\\"\u{1f600}"}');
    const file = inFolder('export.ndjson');
    const offline = async (): Promise<Ended> =>
      run(['history', 'verify', '--file', file, '--key', own.open, '--witness', witness]);
    writeFileSync(file, exported);
    assert.deepEqual((await offline()).stdout, (await verify()).stdout);
    const line = fc.nat(lines.length - 1);
    const edit = fc.oneof(
      line.map((at) => lines.toSpliced(at, 1)),
      line.map((at) => lines.toSpliced(at, 0, lines[at] ?? '')),
      fc.uniqueArray(line, { minLength: 2, maxLength: 2 }).map(([one = 0, two = 0]) => lines.with(one, lines[two] ?? '').with(two, lines[one] ?? '')),
      fc.tuple(line, fc.nat(), fc.constantFrom('x', '"', ' ', '7')).map(([at, place, to]) => {
        const text = lines[at] ?? '';
        const position = place % text.length;
        return lines.with(at, `${text.slice(0, position)}${text[position] === to ? '' : to}${text.slice(position + 1)}`);
      }),
    ); // prettier-ignore
    /** It does not matter whether an entry comes before a checkpoint that is older. */
    const orderOf = (all: readonly string[]): string =>
      all
        .toSorted((one, other) => Number(one.includes('_seal')) - Number(other.includes('_seal')))
        .join('\n');
    const changing = edit.filter((edited) => orderOf(edited) !== orderOf(lines));
    await fc.assert(
      fc.asyncProperty(changing, async (edited) => {
        writeFileSync(file, `${edited.join('\n')}\n`);
        const { code, stdout } = await offline();
        assert.equal(code, 1, stdout);
      }),
      { numRuns: TAMPERINGS },
    );
  });

  test('the service notices a broken history, says so, and goes on', async (t) => {
    t.after(() => restore());
    await database.sql`update vitrine_history set after = '{}' where id = 35`;
    const service = await start({ historyKey: own.secret });
    await database.sql`insert into vitrine_history (id, door, action, model, record) values (60, 'api', 'create', 'note', '1')`;
    const broken = await eventually(() => service.lines.find(({ event }) => event === 'history.broken'), 'the event'); // prettier-ignore
    assert.deepEqual(
      [broken['level'], broken['message']],
      ['error', 'The sealed history is broken: entry 35 of vitrine_history was changed.'],
    );
    const stored = await eventually(async () => (await database.sql`select event, detail from vitrine_event where event like 'history%'`)[0], 'the row'); // prettier-ignore
    const fault = 'entry 35 of vitrine_history was changed';
    assert.deepEqual(stored, { event: 'history.broken', detail: JSON.stringify({ fault }) });
    const metrics = await request(await metricsAddress(service.lines), '');
    assert.match(metrics.text, /^vitrine_history_broken 1$/m);
    await eventually(() => service.lines.some(({ event }) => event === 'history.sealed'), 'the next seal');
    assert.equal((await request(service.url, '/api/note/')).status, 200);
    await service.close();
  });

  test('an entry that is too large to be read is sealed, checked and exported with the digests of its values', async (t) => {
    t.after(() => restore());
    await database.sql`insert into vitrine_history (id, door, action, model, record, before, after)
      select 60, 'api', 'update', 'note', '1', repeat(v, 134300000), repeat(v, 134300001) from (values ('x')) one (v)`;
    const service = await start({ historyKey: own.secret, historyWitness: inFolder('large.ndjson') });
    await service.close();
    assert.deepEqual(service.lines.filter(({ level }) => level === 'error'), []); // prettier-ignore
    const file = inFolder('large-export.ndjson');
    const all = ['verify', '--key', own.open, '--witness', inFolder('large.ndjson')];
    const inDatabase = await history(...all);
    assert.match(inDatabase.stdout, /^intact: 7 checkpoints with 31 entries$/m);
    const { stdout } = await history('export');
    writeFileSync(file, stdout);
    const line = stdout.split('\n').find((one) => one.includes('"id":"60"')) ?? '';
    const { entry } = JSON.parse(line);
    assert.deepEqual([entry.model, typeof entry.before.sha256, typeof entry.after.sha256], ['note', 'string', 'string']); // prettier-ignore
    assert.equal((await history(...all, '--file', file)).stdout, inDatabase.stdout);
    writeFileSync(file, stdout.replace(entry.before.sha256, entry.after.sha256));
    assert.match((await history(...all, '--file', file)).stdout, /^entry 60 of vitrine_history was changed/);
  });

  test('a column that is added while the service runs is sealed with the entries that have a value there', async (t) => {
    const later = await createDatabase();
    t.after(later.drop);
    const service = await start({ databaseUrl: later.url, historyKey: own.secret });
    const sealed = (count: number): Promise<unknown> =>
      eventually(async () => (await later.sql`select from vitrine_seal`).count >= count, 'a checkpoint');
    const entry = { door: 'api', action: 'create', model: 'note', record: '1' };
    await later.sql`insert into vitrine_history ${later.sql(entry)}`;
    await sealed(1);
    await later.sql`alter table vitrine_history add column more text`;
    await later.sql`insert into vitrine_history ${later.sql({ ...entry, more: 'x' })}`;
    await sealed(2);
    await service.close();
    const { code, stdout } = await run(['history', 'verify', '--key', own.open], {
      env: { DATABASE_URL: later.url },
    });
    assert.equal(code, 0, stdout);
  });

  test('several processes make one chain, with a key that can change, and a folder of witnesses', async (t) => {
    const seals = mkdtempSync(join(folder, 'seals-'));
    await database.sql`truncate vitrine_seal`;
    t.after(() => restore());
    const services = await Promise.all([own, own].map(({ secret }) => start({ historyKey: secret, historyWitness: seals }))); // prettier-ignore
    await eventually(async () => (await database.sql`select from vitrine_seal`).count > 0, 'a checkpoint');
    await Promise.all(services.map(({ close }) => close()));
    const next = await start({ historyKey: readFileSync(other.secret, 'utf8'), historyWitness: seals });
    await database.sql`insert into vitrine_history (id, door, action, model, record) values (70, 'api', 'create', 'note', '1')`;
    await next.close();
    const both = ['--witness', seals, '--key', own.open, '--key', other.open];
    const { code, stdout } = await history('verify', ...both);
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^intact: \d+ checkpoints with 31 entries\n.*\n$/);
    assert.equal((await history('verify', ...both.slice(0, 4))).code, 1);
  });

  test('a witness that cannot be written is in the log, and does not stop the sealing', async (t) => {
    t.after(() => restore());
    const service = await start({ historyKey: own.secret, historyWitness: inFolder('none/at/all') });
    await database.sql`insert into vitrine_history (id, door, action, model, record) values (80, 'api', 'create', 'note', '1')`;
    await service.close();
    assert.ok(service.lines.some(({ event }) => event === 'history.unwitnessed'));
    assert.equal((await verify()).code, 0);
    assert.ok(!existsSync(inFolder('none')));
  });

  test('a key that is none stops the start', async () => {
    const rsa = inFolder('rsa.pem');
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 1024 });
    writeFileSync(rsa, privateKey.export({ type: 'pkcs8', format: 'pem' }));
    for (const [historyKey, said] of [
      [rsa, /^HISTORY_KEY must be a file with an Ed25519 key in PEM: it is of the type rsa$/],
      [own.open, /^HISTORY_KEY must be a file with an Ed25519 key in PEM: /],
      [
        inFolder('missing.pem'),
        /^HISTORY_KEY must be a file with an Ed25519 key in PEM: ENOENT: no such file or directory$/,
      ],
    ] as const)
      await assert.rejects(start({ historyKey }), { message: said });
  });

  const refused: [words: string[], code: number, said: RegExp][] = [
    [[], 2, /Expected verify or export/],
    [['check'], 2, /Expected verify or export/],
    [['verify', 'x'], 2, /Expected verify or export/],
    [['export', '--file', 'x'], 2, /--file is only for "history verify"/],
    [['verify', '--from', 'x'], 2, /--from must be the number of a checkpoint/],
    [['verify', '--key', 'nowhere.pem'], 1, /--key nowhere\.pem must be a file with an Ed25519 key in PEM/],
    [['verify', '--witness', 'nowhere'], 1, /The witness nowhere cannot be read/],
  ];
  for (const [words, code, said] of refused)
    test(`history ${words.join(' ')} is refused`, async () => {
      const ended = await history(...words);
      assert.equal(ended.code, code);
      assert.match(ended.stderr, said);
    });

  test('a database without checkpoints proves nothing', async (t) => {
    t.after(() => restore());
    await database.sql`truncate vitrine_seal`;
    const { code, stdout } = await history('verify');
    assert.equal(code, 1);
    assert.match(stdout, /^There are no checkpoints, so nothing is proven\.$/m);
  });
});
