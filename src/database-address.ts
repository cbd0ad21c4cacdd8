// The address of a database in the forms of libpq: `postgres://user:password@host:port/name?parameter=value`.
import { readFileSync } from 'node:fs';
import type { SecureContextOptions, SecureVersion } from 'node:tls';

/** A server, or the Unix socket of one. `host` is then the folder of the socket. */
export interface Server {
  readonly host: string;
  readonly port: number;
  /** The path of the Unix socket. */
  readonly path?: string;
}

export interface DatabaseAddress {
  readonly servers: readonly [Server, ...Server[]];
  /** Undefined parts come from PGUSER, PGPASSWORD and PGDATABASE. */
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
  /** All parameters, by name. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** Parameters that are parts of the address. */
const PARTS = ['host', 'hostaddr', 'port', 'user', 'password', 'dbname'];

/** Parameters that the service applies. */
const APPLIED = [
  ...['sslmode', 'ssl', 'sslrootcert', 'sslcert', 'sslkey', 'sslpassword', 'sslcrl', 'sslnegotiation'],
  ...['ssl_min_protocol_version', 'ssl_max_protocol_version', 'keepalives', 'keepalives_idle'],
  ...['fallback_application_name', 'target_session_attrs', 'prepare', 'pgbouncer', 'requiressl', 'schema'],
];

/** Parameters that the service ignores. PostgreSQL would refuse a connection that passes them on as settings. */
const IGNORED = [
  // Of libpq.
  ...['channel_binding', 'connect_timeout', 'gssdelegation', 'gssencmode', 'gsslib', 'krbsrvname'],
  ...['keepalives_interval', 'keepalives_count', 'tcp_user_timeout', 'load_balance_hosts'],
  ...['min_protocol_version', 'max_protocol_version', 'oauth_client_id', 'oauth_client_secret'],
  ...['oauth_issuer', 'oauth_scope', 'passfile', 'replication', 'require_auth', 'requirepeer'],
  ...['scram_client_key', 'scram_server_key', 'service', 'servicefile', 'sslcertmode', 'sslcompression'],
  ...['sslcrldir', 'sslkeylogfile', 'sslsni', 'authtype', 'tty'],
  // Of other drivers and poolers.
  ...['connection_limit', 'pool_timeout', 'socket_timeout', 'single_use_connections', 'supa'],
  ...['statement_cache_size', 'uselibpqcompat', 'workaround', 'charset', 'serverVersion'],
  // Options of the service's driver.
  ...['backoff', 'debug', 'fetch_types', 'idle_timeout', 'keep_alive', 'max', 'max_lifetime'],
  ...['max_pipeline', 'publications'],
];

/** The parameters that are not part of the address, nor applied or ignored: settings of PostgreSQL. */
export function sessionSettings({ parameters }: DatabaseAddress): Record<string, string> {
  const schema = parameters.get('schema');
  return {
    ...(schema && { search_path: `"${schema.replaceAll('"', '""')}"` }),
    ...Object.fromEntries(
      [...parameters].filter(([name]) => ![...PARTS, ...APPLIED, ...IGNORED].includes(name)),
    ),
  };
}

/** The names of parameters that have no effect. */
export const ignoredParameters = ({ servers, parameters }: DatabaseAddress): string[] =>
  [...parameters.keys()].filter(
    (name) =>
      IGNORED.includes(name) ||
      (name === 'hostaddr' && servers.map(({ host }) => host).join() !== parameters.get(name)),
  );

/** Whether an address leads to a transaction pooler. */
export const isPooled = ({ parameters }: DatabaseAddress): boolean =>
  ['false', 'disable'].includes(parameters.get('prepare') ?? '') || parameters.get('pgbouncer') === 'true';

/** The modes of TLS in libpq. */
export const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];
/** Values of other drivers for `sslmode`, and for their parameter `ssl`. */
const OTHER_MODES: Readonly<Record<string, string>> = {
  'no-verify': 'require',
  true: 'verify-full',
  '1': 'verify-full',
  false: 'disable',
  '0': 'disable',
};

/** The mode of TLS. Undefined if it is unknown. */
export function tlsModeOf({ parameters }: DatabaseAddress): string | undefined {
  const rootCertificate = parameters.get('sslrootcert') ?? '';
  if (rootCertificate === 'system') return 'verify-full';
  const required = parameters.get('requiressl') === '1' ? 'require' : undefined;
  const given = parameters.get('sslmode') ?? parameters.get('ssl') ?? required;
  const mode = OTHER_MODES[given ?? ''] ?? given ?? (rootCertificate === '' ? 'disable' : 'require');
  // As in libpq, a certificate of an authority is there to be checked.
  if (mode === 'require' && rootCertificate !== '') return 'verify-ca';
  return SSL_MODES.includes(mode) ? mode : undefined;
}

/** Parameters that name a file with certificates or keys. */
export const TLS_FILES = ['sslrootcert', 'sslcert', 'sslkey', 'sslcrl'];

/** The files as they were first read: a later connection must not fail because one was removed. */
const tlsFiles = new Map<string, string>();

/** The text of the file that a parameter names. Undefined without the parameter. @throws Error if it cannot be read */
export function readTlsFile({ parameters }: DatabaseAddress, parameter: string): string | undefined {
  const file = parameters.get(parameter) ?? '';
  if (file === '' || file === 'system') return undefined;
  const text = tlsFiles.get(file) ?? readFileSync(file, 'utf8');
  tlsFiles.set(file, text);
  return text;
}

/** The certificates, keys and versions of TLS. @throws Error if a file cannot be read */
export function tlsContextOptions(address: DatabaseAddress): SecureContextOptions {
  const { parameters } = address;
  return {
    ca: readTlsFile(address, 'sslrootcert'),
    cert: readTlsFile(address, 'sslcert'),
    key: readTlsFile(address, 'sslkey'),
    passphrase: parameters.get('sslpassword'),
    crl: readTlsFile(address, 'sslcrl'),
    minVersion: parameters.get('ssl_min_protocol_version') as SecureVersion | undefined,
    maxVersion: parameters.get('ssl_max_protocol_version') as SecureVersion | undefined,
  };
}

/** The parameters of a query. `+` is a space only in settings of PostgreSQL, because libpq takes it as it is. Undefined for a name that no parameter can have. */
function parametersIn(query: string): Map<string, string> | undefined {
  const pairs = query.split('&').filter((pair) => pair !== '');
  const parameters = new Map(
    pairs.map((pair) => {
      const [, name = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
      const isOwn = [...PARTS, ...APPLIED].includes(name);
      return [decodeURIComponent(name), decodeURIComponent(isOwn ? value : value.replaceAll('+', ' '))];
    }),
  );
  return [...parameters.keys()].every((name) => /^[\w.]+$/.test(name)) ? parameters : undefined;
}

/** A host with an optional port. */
const HOST_AND_PORT = /^(\[[^\]]*\]|[^:[\]]*)(?::(.*))?$/;

/** The server with this host and port. Undefined if one of them is invalid. */
function serverOf(host: string, port: string): Server | undefined {
  const number = Number(port);
  if (!/^(\/.*|[\w.:%-]+)$/.test(host) || !/^\d{1,5}$/.test(port) || number < 1 || number > 65535)
    return undefined;
  return { host, port: number, ...(host.startsWith('/') && { path: `${host}/.s.PGSQL.${port}` }) };
}

/** The servers of the hosts and ports. A single port is that of all hosts. Undefined if one is invalid. */
function serversOf(
  hosts: readonly string[],
  ports: readonly string[],
): DatabaseAddress['servers'] | undefined {
  const { PGHOST = '', PGPORT = '' } = process.env;
  const isDefault = hosts.length === 1 && hosts[0] === '';
  const all = isDefault ? (PGHOST || 'localhost').split(',') : hosts;
  if (ports.length > 1 && ports.length !== all.length) return undefined;
  const [first, ...others] = all.map((host, index) =>
    serverOf(host, (ports.length > 1 ? ports[index] : ports[0]) || PGPORT || '5432'),
  );
  if (!first || !others.every((server) => server !== undefined)) return undefined;
  return [first, ...others];
}

/** Parses an address. Undefined if it has another form. */
export function parseAddress(text: string): DatabaseAddress | undefined {
  // An unencoded @, /, # or ? in the password moves the rest of it into another part, which does not accept it.
  const form = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(?:\/([^/?#@]*))?(?:\?([^#]*))?$/i.exec(
    text.trim(),
  );
  // A NUL would end the text that has it.
  if (!form || text.includes('%00')) return undefined;
  const [, login = '', authority = '', name = '', query = ''] = form;
  try {
    const parameters = parametersIn(query);
    const places = authority.split(',').map((place) => HOST_AND_PORT.exec(place));
    const hosts = parameters?.get('host') || (authority === '' && parameters?.get('hostaddr')) || undefined;
    const ports = parameters?.get('port');
    const servers = serversOf(
      hosts?.split(',') ??
        places.map((place) => decodeURIComponent(place?.[1]?.replace(/^\[|\]$/g, '') ?? '')),
      ports?.split(',') ?? places.map((place) => place?.[2] ?? ''),
    );
    if (!parameters || !servers || places.includes(null)) return undefined;
    const [, user = '', password = ''] = /^([^:]*):?(.*)$/s.exec(login) ?? [];
    const part = (parameter: string, encoded: string): string | undefined =>
      (parameters.get(parameter) ?? decodeURIComponent(encoded)) || undefined;
    return {
      servers,
      user: part('user', user),
      password: part('password', password),
      database: part('dbname', name),
      parameters,
    };
  } catch {
    return undefined; // percent-encoding that cannot be decoded
  }
}
