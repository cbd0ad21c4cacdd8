// Reads and parses the texts of settings. Each parser throws an Error whose message continues the setting's name ("must be …").
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** An invalid value. The message does not contain the value, because one from a file may be a secret. */
export class InvalidValue extends Error {
  readonly value: string;

  constructor(message: string, value: string) {
    super(message);
    this.value = value;
  }
}

/** The text of a file with settings. A byte order mark, as editors on Windows write it, would belong to the first name or value. */
export const readSettingsFile = (file: string): string => readFileSync(file, 'utf8').replace(/^\uFEFF/, '');

export function oneOf(...allowed: string[]): (text: string) => string {
  return (text) => {
    if (!allowed.includes(text)) throw new InvalidValue(`must be one of ${allowed.join(', ')}`, text);
    return text;
  };
}

export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (!/^\d+$/.test(text) || number < min || number > max) {
      throw new InvalidValue(`must be a whole number from ${min} to ${max}`, text);
    }
    return number;
  };
}

/** Whether percent-decoding works, which the name of the user, the password and the name of the database need. */
function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** PostgreSQL's modes. The driver treats `verify-ca` and every unknown mode as `verify-full`. */
const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];

/** Settings of each connection that the service relies on. A parameter in an address would override them. */
export const SESSION_SETTINGS = [
  'client_encoding',
  'TimeZone',
  'DateStyle',
  'standard_conforming_strings',
  'statement_timeout',
  'lock_timeout',
] as const;
/** The same for connections without a pooler. */
export const DIRECT_SETTINGS = [
  'max_parallel_workers_per_gather',
  'jit',
  'log_parameter_max_length_on_error',
] as const;

/** Whether an address leads to a transaction pooler (`prepare=false`). */
export const isPooled = ({ searchParams }: URL): boolean =>
  ['false', 'disable'].includes(searchParams.get('prepare') ?? '');

/** The parameters of an address that would override what the service sets. PostgreSQL ignores their case. */
function overriddenSettings(url: URL): string[] {
  const given = new Set([...url.searchParams.keys()].map((name) => name.toLowerCase()));
  const settings = [...SESSION_SETTINGS, ...(isPooled(url) ? [] : DIRECT_SETTINGS)];
  return settings.filter((name) => given.has(name.toLowerCase()));
}

/** The address of each server that a database address names, as in `postgres://user@one:5432,two:5432/name`. */
export function serverUrls(url: string): readonly [string, ...string[]] {
  const [, start = '', hosts = '', rest = ''] = /^([^/]*\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s.exec(url) ?? [];
  const [first = '', ...others] = hosts.split(',').map((host) => start + host + rest);
  return others.length > 0 ? [first, ...others] : [url];
}

/** Where changes must be possible: `read-write` and `primary` mean the same to the service. */
const WRITABLE = ['read-write', 'primary'];

function parseUrl(text: string): URL | undefined {
  // An unencoded @, /, # or ? in the password moves the rest of it into another part. A NUL would end the database's name.
  const isWellFormed = ({ protocol, pathname, searchParams, hash }: URL): boolean =>
    /^postgres(ql)?:$/.test(protocol) &&
    /^\/?[^/@]*$/.test(pathname) &&
    !pathname.includes('%00') &&
    [...searchParams.keys()].every((name) => /^[\w.]+$/.test(name)) &&
    hash === '';
  if (!URL.canParse(text) || !isDecodable(text)) return undefined;
  const url = new URL(text);
  return isWellFormed(url) ? url : undefined;
}

export function parseDatabaseUrl(text: string): string {
  // The value contains a password, so no message repeats any part of it.
  const servers = serverUrls(text).map(parseUrl);
  const [first] = servers;
  if (!first || !servers.every((server) => server && (servers.length === 1 || server.hostname !== '')))
    throw new Error(
      'must be a URL such as postgres://user:password@host:5432/database (percent-encode #, ?, @, / and % in the password); several servers are host1:5432,host2:5432',
    );
  const modes = first.searchParams.getAll('sslmode');
  if (!modes.every((mode) => SSL_MODES.includes(mode)))
    throw new Error(`has an unknown sslmode: use one of ${SSL_MODES.join(', ')}`);
  const targets = first.searchParams.getAll('target_session_attrs');
  if (!targets.every((target) => WRITABLE.includes(target)))
    throw new Error('must have read-write or primary as its target_session_attrs, if any');
  if (servers.length > 1 && targets.length === 0)
    throw new Error('names several servers, and so needs ?target_session_attrs=read-write');
  const overridden = overriddenSettings(first);
  if (overridden.length > 0)
    throw new Error(`must not set ${overridden.join(', ')}, because the service does`);
  // The driver does not know `allow`. Like `prefer`, it accepts what the server offers.
  return text.replace(/([?&]sslmode=)allow(?=&|#|$)/g, '$1prefer');
}

/** Parses the addresses of replicas. Each must lead to one server: a position read from it must hold for the next statement. */
export function parseReadUrls(text: string): string[] {
  // A comma within an address is part of its password.
  const urls = text.split(/,(?=\s*(?:postgres(?:ql)?:|$))/).map((url) => url.trim());
  return urls.map((url, index) => {
    try {
      return parseReadUrl(url);
    } catch (error) {
      const { message } = error as Error;
      throw new Error(urls.length > 1 ? `address ${index + 1}: ${message}` : message, { cause: error });
    }
  });
}

function parseReadUrl(text: string): string {
  if (serverUrls(text).length > 1)
    throw new Error('must name one server in each address: postgres://host1/name,postgres://host2/name');
  // Before its value is looked at: no value is right.
  if (parseUrl(text)?.searchParams.has('target_session_attrs') === true)
    throw new Error('must not have target_session_attrs: a replica accepts no changes');
  const url = parseDatabaseUrl(text);
  const address = new URL(url);
  if (address.pathname.includes(','))
    throw new Error('has a comma without postgres:// behind it (write %2C for one in a name)');
  if (isPooled(address))
    throw new Error('must not have prepare=false: a pooler may pass each statement to another server');
  return url;
}

const isOrigin = (text: string): boolean =>
  /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;

/** Parses origins. @param isValid whether an origin is accepted; `rule` says what it accepts beyond plain origins */
const originList =
  (isValid: (origin: string) => boolean, rule: string) =>
  (text: string): string[] => {
    const origins = text.split(',').map((origin) => origin.trim());
    const invalid = origins.filter((origin) => !isOrigin(origin) || !isValid(origin));
    if (invalid.length === 0) return origins;
    const expected = `must be origins such as https://example.org, separated by commas${rule}`;
    throw new InvalidValue(expected, invalid.join(', '));
  };

/** Whether an origin has no `*`, or one for the first label, which stands for any one label. */
const isPattern = (origin: string): boolean =>
  /^https?:\/\/(?:\*\.(?=localhost(?::|$)|[^*]+\.))?[^*]+$/.test(origin);

export const parseCorsOrigins = originList(
  isPattern,
  '; https://*.example.org allows every name with one label in place of *',
);
export const parsePublicUrls = originList((origin) => !origin.includes('*'), ', without a path');

export function parseBasePath(text: string): string {
  const path = text.replace(/\/$/, '');
  if (!/^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]{1,100}){0,10}$/.test(path))
    throw new InvalidValue('must be a path such as /books, of letters, digits and . _ ~ -', text);
  return path;
}

/** Splits `HOST:PORT`, with an IPv6 address in brackets. Undefined if the text has another form. */
export function splitAddress(text: string): { readonly host: string; readonly port: number } | undefined {
  const [, inBrackets, host = inBrackets, digits] =
    /^(?:\[([\da-f:.]+)\]|([^\s:/[\]]+)):(\d{1,5})$/i.exec(text) ?? [];
  return host === undefined || Number(digits) > 65535 ? undefined : { host, port: Number(digits) };
}

export function parseMetrics(text: string): string {
  if (text !== 'off' && !splitAddress(text))
    throw new InvalidValue('must be off, or an address to listen on such as 127.0.0.1:9464', text);
  return text;
}

export function parseModelName(text: string): string {
  if (!/^[a-z][a-z0-9_]*$/.test(text))
    throw new InvalidValue('must be the name of a model, in lower case', text);
  return text;
}

/** How many requests a client may send: `perSecond` in the long run, and `burst` at once. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** Without a burst in the setting, a client may send the requests of this many seconds at once. */
const BURST_SECONDS = 4;
const MAX_RATE = 1_000_000;

/** Splits the setting RATE_LIMIT. Undefined for `off`, and for a text of another form. */
export function splitRate(text: string): Rate | undefined {
  const [, first, second] = /^(\d{1,7})(?:,(\d{1,7}))?$/.exec(text) ?? [];
  if (first === undefined) return undefined;
  const perSecond = Number(first);
  const burst = second === undefined ? perSecond * BURST_SECONDS : Number(second);
  return [perSecond, burst].every((number) => number >= 1) && perSecond <= MAX_RATE && burst <= 4 * MAX_RATE
    ? { perSecond, burst }
    : undefined;
}

export function parseRateLimit(text: string): string {
  const compact = text.replace(/ *, */, ',');
  if (compact !== 'off' && !splitRate(compact))
    throw new InvalidValue(
      `must be off, or requests per second (1 to ${MAX_RATE}) and optionally a burst, such as 50 or 50,200`,
      text,
    );
  return compact;
}

const MAX_WORKERS = 64;

/** The number of processes: `auto` is the number of processors. */
export function parseWorkers(text: string): number {
  if (text === 'auto') return Math.min(availableParallelism(), MAX_WORKERS);
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < 1 || number > MAX_WORKERS)
    throw new InvalidValue(`must be auto or a whole number from 1 to ${MAX_WORKERS}`, text);
  return number;
}
