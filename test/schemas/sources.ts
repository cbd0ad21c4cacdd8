// Where the schemas come from: packages of Debian 12, and the SQL files in them.
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';

const run = promisify(execFile);

export interface Source {
  readonly name: string;
  readonly packages: readonly string[];
  /** In this order. A name that ends in `/` means the files that its LOADORDER lists. */
  readonly files: readonly string[];
}

const share = 'usr/share';

export const SOURCES: readonly Source[] = [
  {
    name: 'ledgersmb',
    packages: ['ledgersmb'],
    files: [`${share}/ledgersmb/sql/Pg-database.sql`, `${share}/ledgersmb/sql/modules/`],
  },
  {
    name: 'davical',
    packages: ['libawl-php', 'davical'],
    files: [
      `${share}/awl/dba/awl-tables.sql`,
      `${share}/awl/dba/schema-management.sql`,
      ...['davical', 'views/dav_principal', 'rrule_functions', 'caldav_functions', 'base-data'].map(
        (name) => `${share}/davical/dba/${name}.sql`,
      ),
    ],
  },
  { name: 'kea', packages: ['kea-admin'], files: [`${share}/kea/scripts/pgsql/dhcpdb_create.pgsql`] },
  {
    name: 'zabbix',
    packages: ['zabbix-server-pgsql'],
    files: [`${share}/zabbix-server-pgsql/schema.sql.gz`],
  },
  {
    name: 'mediawiki',
    packages: ['mediawiki'],
    files: ['tables-generated', 'tables'].map(
      (name) => `${share}/mediawiki/maintenance/postgres/${name}.sql`,
    ),
  },
  { name: 'ejabberd', packages: ['ejabberd'], files: [`${share}/ejabberd/sql/pg.new.sql`] },
  { name: 'icingadb', packages: ['icingadb'], files: [`${share}/icingadb/schema/pgsql/schema.sql`] },
  {
    name: 'icinga2',
    packages: ['icinga2-ido-pgsql'],
    files: [`${share}/icinga2-ido-pgsql/schema/pgsql.sql`],
  },
  { name: 'ulogd', packages: ['ulogd2'], files: [`${share}/doc/ulogd2/pgsql-ulogd2.sql.gz`] },
  { name: 'tt-rss', packages: ['tt-rss'], files: [`${share}/tt-rss/schema/ttrss_schema_pgsql.sql`] },
  {
    name: 'freeradius',
    packages: ['freeradius-config'],
    files: ['etc/freeradius/3.0/mods-config/sql/main/postgresql/schema.sql'],
  },
  {
    name: 'bacula',
    packages: ['bacula-director-pgsql'],
    files: [`${share}/dbconfig-common/data/bacula-director-pgsql/install/pgsql`],
  },
];

/** Downloads the packages of a source, and unpacks them into one folder. @returns their names with their versions */
export async function unpack({ name, packages }: Source, directory: string): Promise<string> {
  const folder = join(directory, name);
  await mkdir(folder, { recursive: true });
  const found: string[] = [];
  for (const one of packages) {
    await run('apt-get', ['download', one], { cwd: directory });
    const file = (await readdir(directory)).find((entry) => entry.startsWith(`${one}_`)) ?? '';
    await run('dpkg-deb', ['-x', join(directory, file), folder]);
    found.push((await run('dpkg-deb', ['-W', join(directory, file)])).stdout.trim().replace('\t', ' '));
  }
  return found.join(', ');
}

async function expand(folder: string, file: string): Promise<string[]> {
  if (!file.endsWith('/')) return [join(folder, file)];
  const order = await readFile(join(folder, file, 'LOADORDER'), 'utf8');
  const names = order.split('\n').map((line) => line.replace(/#.*/, '').trim());
  // Roles belong to the whole server, and these modules define no tables.
  const wanted = names.filter((name) => name.endsWith('.sql') && name !== 'Roles.sql');
  return wanted.map((name) => join(folder, file, name));
}

/** Runs the SQL files of a source. @returns how many statements PostgreSQL refused */
export async function load({ name, files }: Source, directory: string, url: string): Promise<number> {
  const folder = join(directory, name);
  const paths = (await Promise.all(files.map((file) => expand(folder, file)))).flat();
  let refused = 0;
  for (const path of paths) {
    const bytes = await readFile(path);
    const plain = join(directory, 'current.sql');
    await writeFile(plain, path.endsWith('.gz') ? gunzipSync(bytes) : bytes);
    const { stderr } = await run('psql', ['-X', '-q', '-d', url, '-f', plain], {
      cwd: folder,
      maxBuffer: 64 * 1024 * 1024,
      env: { ...process.env, PGOPTIONS: '-c client_min_messages=warning', PGCLIENTENCODING: 'UTF8' },
    });
    refused += stderr.match(/ ERROR: {2}/g)?.length ?? 0;
  }
  return refused;
}
