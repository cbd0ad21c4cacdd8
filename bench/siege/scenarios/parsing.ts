// What the service reads: forms, numbers, and texts that make parsers slow.
import { attemptLogin, openBrowser } from '../../../test/admin/support.ts';
import { places, type Place } from '../adversarial.ts';
import { besiege, holdRow, readRow } from '../besiege.ts';
import { askOnce } from '../connection.ts';
import type { AttackReport, Flood, RequestShape } from '../jobs.ts';
import { PASSWORD } from '../../rows.ts';
import { atLeast, atMost, holds, type Scenario } from '../scenario.ts';
import type { Service, Watched } from '../service.ts';

const ATTACKER = '203.0.113.1';

/** How many answers had which status. */
export const spell = (reports: readonly AttackReport[]): string =>
  reports
    .flatMap(({ statuses, closed }) => [...Object.entries(statuses), ['closed', closed] as const])
    .map(([status, count]) => `${count} × ${status}`)
    .join(', ');

const forms: Scenario = {
  name: 'forms',
  title: 'anonymous forms of 3 MB to admin pages, four at a time, 512 MB of heap',
  async run(stage) {
    const requests = ['-/login/', 'message/-/add/', 'message/1/', 'message/-/bulk/'].map(
      (page): RequestShape => ({
        method: 'POST',
        path: `/admin/${page}`,
        // As a page of the service's own would send it: the header is the attacker's to choose.
        headers: { 'Content-Type': 'application/x-www-form-urlencoded', Origin: 'http://127.0.0.1' },
        body: { repeat: 'a&', times: 1_500_000 },
      }),
    );
    const flags = ['--max-old-space-size=512'];
    const siege = await besiege(
      stage,
      (port) => [{ kind: 'flood', port, connections: 4, addresses: [ATTACKER], requests, pause: 100 }],
      { flags, finish: stage.either(10, 4) },
    );
    const { reports, service, watched } = siege;
    const largest = Math.max(...reports.map((report) => report.largest));
    return [
      holds('the service is alive', service.isAlive()),
      atMost('count', 'largest answer', 100, largest / 1000, 'KB', spell(reports)),
      holdRow(stage, watched),
      readRow(siege, 5),
      atMost('memory', 'memory', 300, watched.memory, 'MB'),
    ];
  },
};

const USER = `Basic user60:${PASSWORD}`;
const decimal = (digits: number, after: string): RequestShape => ({
  method: 'POST',
  path: '/api/value/',
  headers: { Authorization: USER, 'Content-Type': 'application/json' },
  body: { before: '{"decimal":"', repeat: '1', times: digits, after: `${after}"}` },
});

const decimals: Scenario = {
  name: 'decimals',
  title: 'decimals of 100 KB and 1 MB in bodies',
  async run(stage) {
    const service = await stage.service();
    const login = { path: '/api/diary/', headers: { Authorization: `Basic ${btoa(`user60:${PASSWORD}`)}` } };
    await askOnce(service.port, login);
    const watch = service.watch();
    const requests = [
      decimal(100_000, ''),
      decimal(100_000, 'x'),
      decimal(1_000_000, ''),
      decimal(1_000_000, 'x'),
    ];
    const job: Flood = {
      kind: 'flood',
      port: service.port,
      connections: 1,
      addresses: [ATTACKER],
      requests,
      most: 8,
    };
    const attack = await stage.attack(job);
    await attack.finished(20);
    const report = await attack.stop();
    const answered = Object.values(report.statuses).reduce((all, count) => all + count, 0);
    return [
      atLeast('count', 'requests that were answered', 8, answered, '', 'within 20 s'),
      holdRow(stage, await watch()),
    ];
  },
};

const digits: Scenario = {
  name: 'digits',
  title: 'anonymous filters of 8,100 digits, 15 per second',
  async run(stage) {
    const many = '1'.repeat(8100);
    const requests = ['integer', 'bigint', 'float', 'decimal'].flatMap((column) => [
      { path: `/api/value/?${column}=${many}x` },
      { path: `/api/value/?${column}=${many}` },
    ]);
    const siege = await besiege(stage, (port) => [
      { kind: 'flood', port, connections: 1, addresses: [ATTACKER], requests, pause: 66 },
    ]);
    return [readRow(siege, 5), holdRow(stage, siege.watched)];
  },
};

/** Fields of an admin's forms that hold a process which does not bound them. */
const FIELDS: readonly (readonly [page: string, fields: Readonly<Record<string, string>>])[] = [
  ['message/-/add/', { user_id: `bob ${'\u0301\u0323'.repeat(100_000)}`, content: 'x' }],
  ['message/-/add/', { user_id: '"'.repeat(500_000), content: 'x' }],
  ['value/-/add/', { integer: '"'.repeat(500_000), date: '"'.repeat(500_000) }],
  ['value/1/', { text: '\r'.repeat(500_000), _list: '"'.repeat(500_000) }],
  ['value/1/', { json: '['.repeat(500_000) }],
  ['message/-/bulk/', { _action: 'delete', _id: '"'.repeat(500_000) }],
];

const adminForms: Scenario = {
  name: 'admin-forms',
  title: 'an admin sends long texts in fields that are no texts',
  async run(stage) {
    const service = await stage.service();
    const base = `http://127.0.0.1:${service.port}`;
    const browser = openBrowser({ base });
    await attemptLogin({ base }, 'ada', PASSWORD, browser);
    await browser.get('/admin/');
    const watch = service.watch();
    const started = performance.now();
    const statuses: number[] = [];
    for (const [page, fields] of FIELDS) statuses.push((await browser.post(`/admin/${page}`, fields)).status);
    const seconds = (performance.now() - started) / 1000;
    const isRefused = statuses.every((status) => status >= 400 && status < 500);
    return [
      holds('each of them is refused', isRefused, statuses.join(', ')),
      atMost('count', 'seconds for all', 5, seconds),
      holdRow(stage, await watch()),
    ];
  },
};

/** How often a frozen service is replaced before the sweep ends. */
const MOST_FREEZES = 3;

/** Sends all texts to one place. @returns how long the loop was held; undefined when the service froze */
async function sweep(service: Service, requests: Place['requests']): Promise<Watched | undefined> {
  const watch = service.watch();
  for (const request of requests) {
    const answer = await askOnce(service.port, request, 10_000).catch((error: Error) => error);
    // A refused body may end in a reset; a service that does not answer at all is frozen.
    if (answer instanceof Error && !(await isUp(service))) return undefined;
  }
  return watch();
}

const isUp = async ({ port }: Service): Promise<boolean> =>
  askOnce(port, { path: '/healthz' }, 2000).then(
    () => true,
    () => false,
  );

const texts: Scenario = {
  name: 'texts',
  title: 'adversarial texts in every filter, header, body and form',
  async run(stage) {
    let service = await stage.service();
    const frozen: string[] = [];
    let worst = { hold: 0, name: 'none', seconds: 1, memory: 0 };
    const all = places();
    for (const [at, place] of all.entries()) {
      // The short form sends the first text and some of the others, which change from place to place.
      const chosen = place.requests.filter(
        (_, index) => !stage.isShort || index === 0 || (index + at) % 6 === 0,
      );
      const watched = await sweep(service, chosen);
      if (watched && watched.hold > worst.hold) worst = { ...watched, name: place.name };
      if (watched) continue;
      frozen.push(place.name);
      if (frozen.length >= MOST_FREEZES) break;
      service = await stage.service();
    }
    return [
      atMost(
        'count',
        'places that freeze the service',
        0,
        frozen.length,
        '',
        frozen.join(', ') || `of ${all.length}`,
      ),
      ...(stage.isShort ? [] : [holdRow(stage, worst, `worst: ${worst.name}`)]),
      holds('the service is alive', await isUp(service)),
    ];
  },
};

export const parsing: readonly Scenario[] = [forms, adminForms, decimals, digits, texts];
