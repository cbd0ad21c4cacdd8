import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPOSITORY, temporaryFolder } from './support.ts';
import { before, describe, test } from 'node:test';

const deployed = (file: string): string => readFileSync(join(REPOSITORY, 'deploy', file), 'utf8');

/** The settings of a unit, each with its values in their order. */
function directivesOf(unit: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const [, name = '', value = ''] of unit.matchAll(/^(\w+)=(.*)$/gm))
    found.set(name, [...(found.get(name) ?? []), value]);
  return found;
}

/** What the rating of the unit rests on. */
const HARDENED: Readonly<Record<string, string>> = {
  DynamicUser: 'yes',
  ProtectSystem: 'strict',
  ProtectHome: 'yes',
  PrivateTmp: 'yes',
  PrivateDevices: 'yes',
  PrivateUsers: 'yes',
  ProtectProc: 'invisible',
  ProcSubset: 'pid',
  ProtectClock: 'yes',
  ProtectControlGroups: 'yes',
  ProtectHostname: 'yes',
  ProtectKernelLogs: 'yes',
  ProtectKernelModules: 'yes',
  ProtectKernelTunables: 'yes',
  NoNewPrivileges: 'yes',
  CapabilityBoundingSet: '',
  AmbientCapabilities: '',
  RestrictAddressFamilies: 'AF_INET AF_INET6 AF_UNIX',
  RestrictNamespaces: 'yes',
  RestrictRealtime: 'yes',
  RestrictSUIDSGID: 'yes',
  LockPersonality: 'yes',
  RemoveIPC: 'yes',
  UMask: '0077',
  SystemCallArchitectures: 'native',
  SystemCallFilter: '@system-service ~@privileged @resources',
  MemoryMax: '1G',
  TasksMax: '512',
};

describe('the systemd units', () => {
  const service = directivesOf(deployed('vitrine.service'));
  const socket = directivesOf(deployed('vitrine.socket'));
  // Older ones do not know --offline.
  const { stdout = '' } = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' });
  const hasAnalyze = Number(/^systemd (\d+)/.exec(stdout ?? '')?.[1] ?? 0) >= 250;
  let folder: string;
  before(async () => {
    folder = await temporaryFolder();
  });

  test('the service runs in a sandbox with limits for memory and tasks', () => {
    for (const [name, value] of Object.entries(HARDENED))
      assert.equal(service.get(name)?.join(' '), value, name);
  });

  const options = {
    skip: hasAnalyze ? false : 'no systemd-analyze of 250 or later here; the test above holds the settings',
  };
  test('systemd-analyze security rates the exposure of the service at 2.0 or better', options, () => {
    copyFileSync(join(REPOSITORY, 'deploy/vitrine.service'), join(folder, 'vitrine.service'));
    const words = ['security', '--offline=true', '--no-pager', join(folder, 'vitrine.service')];
    const { stdout: rating, stderr } = spawnSync('systemd-analyze', words, { encoding: 'utf8' });
    const [, exposure] = /Overall exposure level for vitrine\.service: ([\d.]+)/.exec(rating) ?? [];
    assert.ok(exposure !== undefined, stderr);
    assert.ok(Number(exposure) <= 2, `${exposure}`);
  });

  for (const [whose, unit] of [
    ['a checkout', deployed('vitrine.service')],
    ['a project', readFileSync(join(REPOSITORY, 'template/vitrine.service'), 'utf8')],
  ] as const) {
    test(
      `systemd-analyze verify finds nothing to say about the service of ${whose} and the socket`,
      options,
      () => {
        // The paths are those of a server; here they must lead somewhere, too.
        const local = (text: string): string =>
          text
            .replace('/usr/bin/node', process.execPath)
            .replaceAll('/opt/vitrine', REPOSITORY.replace(/\/$/, ''));
        const units = { 'vitrine.service': unit, 'vitrine.socket': deployed('vitrine.socket') };
        for (const [name, text] of Object.entries(units)) writeFileSync(join(folder, name), local(text));
        const paths = Object.keys(units).map((name) => join(folder, name));
        const { stderr, status } = spawnSync('systemd-analyze', ['verify', '--man=no', ...paths], {
          encoding: 'utf8',
        });
        const about = stderr.split('\n').filter((line) => /vitrine/.test(line));
        assert.deepEqual([about, status], [[], 0]);
      },
    );
  }

  test('the socket is one, at the address of the defaults, and outlives the service', () => {
    assert.deepEqual(socket.get('ListenStream'), ['127.0.0.1:8000']);
    assert.equal(socket.get('Accept'), undefined);
    assert.deepEqual(service.get('After')?.at(-1), 'vitrine.socket');
    assert.ok(service.get('Wants')?.includes('vitrine.socket'));
    for (const name of ['Requires', 'BindsTo', 'PartOf']) assert.equal(socket.get(name), undefined, name);
  });

  test('the time for a stop is longer than the service takes', () => {
    assert.ok(Number(service.get('TimeoutStopSec')?.[0]) >= 15);
  });
});
