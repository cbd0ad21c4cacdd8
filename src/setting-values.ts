// Reads and parses the texts of settings. Each parser throws an Error whose message continues the setting's name ("must be …").
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { createSecureContext } from 'node:tls';
import {
  isPooled,
  parseAddress,
  readTlsFile,
  sessionSettings,
  SSL_MODES,
  TLS_FILES,
  tlsContextOptions,
  tlsModeOf,
  type DatabaseAddress,
} from './database-address.ts';

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

/** Why a file cannot be read, without its name: a secret may have been given in its place. */
export function fileFault(error: unknown): string {
  const { code, message, syscall } = error as NodeJS.ErrnoException;
  return syscall === undefined ? (code ?? message) : message.replace(/, \w+(?: '.*')?$/s, '');
}

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

/** The parameters of an address that would override what the service sets. PostgreSQL ignores their case. */
function overriddenSettings(address: DatabaseAddress): string[] {
  const given = new Set(Object.keys(sessionSettings(address)).map((name) => name.toLowerCase()));
  const settings = [...SESSION_SETTINGS, ...(isPooled(address) ? [] : DIRECT_SETTINGS)];
  return settings.filter((name) => given.has(name.toLowerCase()));
}

/** Where changes must be possible: `read-write` and `primary` mean the same to the service. */
const WRITABLE = ['read-write', 'primary'];
const TLS_VERSION = /^TLSv1(\.[123])?$/;

/** Why an address cannot be used, with a setting's name in front. It contains a password, so no message repeats any part of it. */
function addressFault(address: DatabaseAddress | undefined): string | undefined {
  if (!address)
    return 'must be a URL such as postgres://user:password@host:5432/database (percent-encode #, ?, @, / and % in the password); several servers are host1:5432,host2:5432, and a socket is ?host=/folder';
  const { servers, parameters } = address;
  const target = parameters.get('target_session_attrs');
  const overridden = overriddenSettings(address);
  if (!tlsModeOf(address)) return `has an unknown sslmode: use one of ${SSL_MODES.join(', ')}`;
  if (servers.length > 1 && (target === undefined || target === 'any'))
    return 'names several servers, and so needs ?target_session_attrs=read-write';
  if (target !== undefined && ![...WRITABLE, 'any'].includes(target))
    return 'must have read-write or primary as its target_session_attrs, if any';
  if (overridden.length > 0) return `must not set ${overridden.join(', ')}, because the service does`;
  for (const name of ['ssl_min_protocol_version', 'ssl_max_protocol_version'])
    if (!TLS_VERSION.test(parameters.get(name) ?? 'TLSv1'))
      return `has an unknown ${name}: use TLSv1.2 or TLSv1.3`;
  for (const name of TLS_FILES)
    try {
      readTlsFile(address, name);
    } catch (error) {
      return `has an ${name} that cannot be read (${(error as NodeJS.ErrnoException).code})`;
    }
  try {
    // The driver would do this where no error can be caught.
    createSecureContext(tlsContextOptions(address));
  } catch (error) {
    return `has certificates or keys that cannot be used (${(error as Error).message})`;
  }
  return undefined;
}

export function parseDatabaseUrl(text: string): string {
  const fault = addressFault(parseAddress(text));
  if (fault !== undefined) throw new Error(fault);
  return text;
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
  const address = parseAddress(text);
  if (address && address.servers.length > 1)
    throw new Error('must name one server in each address: postgres://host1/name,postgres://host2/name');
  // Before its value is looked at: no value is right.
  if (address?.parameters.has('target_session_attrs'))
    throw new Error('must not have target_session_attrs: a replica accepts no changes');
  const url = parseDatabaseUrl(text);
  if (/^[^/]*\/\/[^/]*\/[^?]*,/.test(url))
    throw new Error('has a comma without postgres:// behind it (write %2C for one in a name)');
  if (address && isPooled(address))
    throw new Error(
      'must not have prepare=false or pgbouncer=true: a pooler may pass each statement to another server',
    );
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

/** Whether the text is the name of a time zone. Offsets are none: they do not follow daylight-saving time. */
export function isTimeZone(text: string): boolean {
  if (!/^[A-Za-z][\w/+-]*$/.test(text)) return false;
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: text }));
  } catch {
    return false;
  }
}

export function parseTimeZone(text: string): string {
  if (!isTimeZone(text))
    throw new InvalidValue('must be the name of a time zone such as Europe/Zurich', text);
  const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions();
  return timeZone === 'UTC' ? 'UTC' : text;
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
