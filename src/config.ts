import { startError } from './errors.ts';

export type AccessLevel = 'default' | 'user' | 'admin';
export type LogLevel = 'info' | 'warn' | 'error';
export type LogFormat = 'json' | 'text';

export interface Settings {
  /** `postgres://…`, or undefined for the embedded PostgreSQL. */
  readonly databaseUrl: string | undefined;
  /** Path of the registry file, or undefined for the shipped one. */
  readonly resources: string | undefined;
  readonly host: string;
  readonly port: number;
  readonly access: AccessLevel;
  readonly userModel: string;
  readonly schema: 'apply' | 'check';
  /** Bytes. */
  readonly maxBody: number;
  /** Seconds. */
  readonly slowTimeout: number;
  /** Bytes. */
  readonly maxPage: number;
  readonly logLevel: LogLevel;
  /** Undefined: text on a terminal, else JSON. */
  readonly logFormat: LogFormat | undefined;
  readonly corsOrigins: readonly string[];
  /** How many proxies in front are believed for the client's address. */
  readonly trustProxy: number;
  /** The fewest characters of a password that is set in the admin area or by a command. */
  readonly minPassword: number;
  /** Who may read `/metrics`: nobody (`off`), this machine (`loopback`), or whoever reaches the address `HOST:PORT` of their own. */
  readonly metrics: string;
}

interface Setting {
  readonly key: keyof Settings;
  readonly meaning: string;
  /** What stands for an absent variable; its text, or where `absent` is given a description of that. */
  readonly fallback: string;
  /** The value of an absent variable, where no text has it. */
  readonly absent?: undefined | readonly [];
  /** Gives the value, or throws an Error whose message says what was expected. */
  readonly parse: (text: string) => unknown;
}

function oneOf(...allowed: string[]): (text: string) => string {
  return (text) => {
    if (!allowed.includes(text)) throw new Error(`must be one of ${allowed.join(', ')}`);
    return text;
  };
}

function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (!/^\d+$/.test(text) || number < least || number > most) {
      throw new Error(`must be a whole number from ${least} to ${most}`);
    }
    return number;
  };
}

/** Whether every % begins a code: the driver decodes the name and the password. */
function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Those of PostgreSQL. The driver takes any other word for the strictest of them, and holds `verify-ca` to that as well. */
const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];

function parseDatabaseUrl(text: string): string {
  // The value holds a password: the message must not repeat it.
  // An @ or a / that stands as it is in a password ends the host's name in the midst of it.
  const isWhole = (url: URL): boolean =>
    /^postgres(ql)?:$/.test(url.protocol) && /^\/?[^/@]*$/.test(url.pathname);
  if (!URL.canParse(text) || !isWhole(new URL(text)) || !isDecodable(text)) {
    throw new Error(
      'must be an address such as postgres://user:password@host:5432/database (#, ?, @, / and % in a password are percent-encoded)',
    );
  }
  const modes = new URL(text).searchParams.getAll('sslmode');
  if (!modes.every((mode) => SSL_MODES.includes(mode)))
    throw new Error(`has an sslmode that is none of ${SSL_MODES.join(', ')}`);
  // Either is content with what the server offers; the driver knows only one of the two.
  return text.replace(/([?&]sslmode=)allow(?=&|#|$)/g, '$1prefer');
}

function parseOrigins(text: string): string[] {
  const origins = text.split(',').map((origin) => origin.trim());
  const wrong = origins.filter((origin) => !URL.canParse(origin) || new URL(origin).origin !== origin);
  if (wrong.length > 0) {
    const which = wrong.map((origin) => `"${origin}" is none`).join(', ');
    throw new Error(`must be origins such as https://example.org, separated by commas; ${which}`);
  }
  return origins;
}

/** The parts of `HOST:PORT`, an IPv6 address in brackets; undefined for what is none. */
export function splitAddress(text: string): { readonly host: string; readonly port: number } | undefined {
  const [, inBrackets, host = inBrackets, digits] =
    /^(?:\[([\da-f:.]+)\]|([^\s:/[\]]+)):(\d{1,5})$/i.exec(text) ?? [];
  return host === undefined || Number(digits) > 65535 ? undefined : { host, port: Number(digits) };
}

function parseMetrics(text: string): string {
  if (text !== 'off' && text !== 'loopback' && !splitAddress(text))
    throw new Error('must be off, loopback, or an address to listen on such as 127.0.0.1:9464');
  return text;
}

function parseModelName(text: string): string {
  if (!/^[a-z][a-z0-9_]*$/.test(text)) throw new Error('must be the name of a model, in lower case');
  return text;
}

/** Every setting, in the order in which `--help` lists them. */
export const SETTINGS: Readonly<Record<string, Setting>> = {
  DATABASE_URL: {
    key: 'databaseUrl',
    meaning: 'the PostgreSQL database, postgres://user:password@host:port/name',
    fallback: 'an embedded PostgreSQL, its data in .data/',
    absent: undefined,
    parse: parseDatabaseUrl,
  },
  RESOURCES: {
    key: 'resources',
    meaning: 'the registry file (.ts, .mts, .js or .mjs)',
    fallback: 'the shipped registry',
    absent: undefined,
    parse: (text) => text,
  },
  HOST: { key: 'host', meaning: 'the address to listen on', fallback: '127.0.0.1', parse: (text) => text },
  PORT: {
    key: 'port',
    meaning: 'the port to listen on; 0 picks a free one',
    fallback: '8000',
    parse: wholeNumber(0, 65535),
  },
  ACCESS: {
    key: 'access',
    meaning: 'the access level of resources that set none: default, user or admin',
    fallback: 'default',
    parse: oneOf('default', 'user', 'admin'),
  },
  USER_MODEL: {
    key: 'userModel',
    meaning: 'the resource that holds the users',
    fallback: 'user',
    parse: parseModelName,
  },
  SCHEMA: {
    key: 'schema',
    meaning: 'apply: create what is missing in the database; check: only compare',
    fallback: 'apply',
    parse: oneOf('apply', 'check'),
  },
  MAX_BODY: {
    key: 'maxBody',
    meaning: 'the most bytes of a request body',
    fallback: '1048576',
    // A form may have three times as many, and must fit into one string of V8.
    parse: wholeNumber(1, 128 * 1024 ** 2),
  },
  SLOW_TIMEOUT: {
    key: 'slowTimeout',
    meaning: 'seconds after which a query of an anonymous client is canceled',
    fallback: '3',
    parse: wholeNumber(1, 10),
  },
  MAX_PAGE: {
    key: 'maxPage',
    meaning: 'the most bytes of the records of one page',
    fallback: '33554432',
    parse: wholeNumber(1, 256 * 1024 ** 2),
  },
  LOG_LEVEL: {
    key: 'logLevel',
    meaning: 'info (a line per request), warn or error',
    fallback: 'info',
    parse: oneOf('info', 'warn', 'error'),
  },
  LOG_FORMAT: {
    key: 'logFormat',
    meaning: 'json (a line is an object) or text (for people)',
    fallback: 'text on a terminal, else json',
    absent: undefined,
    parse: oneOf('json', 'text'),
  },
  CORS_ORIGINS: {
    key: 'corsOrigins',
    meaning: 'origins that browsers may call from, separated by commas',
    fallback: 'none',
    absent: [],
    parse: parseOrigins,
  },
  TRUST_PROXY: {
    key: 'trustProxy',
    meaning: "how many proxies in front to believe for the client's address",
    fallback: '0',
    parse: wholeNumber(0, 100),
  },
  MIN_PASSWORD: {
    key: 'minPassword',
    meaning: 'the fewest characters of a password that is set in the admin area or by a command',
    fallback: '12',
    parse: wholeNumber(1, 1024),
  },
  METRICS: {
    key: 'metrics',
    meaning: 'who may read /metrics: off, loopback (this machine), or HOST:PORT to listen on for it',
    fallback: 'loopback',
    parse: parseMetrics,
  },
};

/** What the settings are when their variables are absent or empty. */
export const DEFAULTS = Object.fromEntries(
  Object.values(SETTINGS).map((setting) => [
    setting.key,
    'absent' in setting ? setting.absent : setting.parse(setting.fallback),
  ]),
) as unknown as Settings;

/**
 * The text that a variable would hold for a setting; '' where it is absent.
 * @throws Error that says what was expected, for a value of another type
 */
function textOf(key: keyof Settings, value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return value;
  const fallback = DEFAULTS[key];
  if (Array.isArray(fallback)) {
    if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value.join();
    throw new Error('must be an array of texts');
  }
  if (typeof fallback !== 'number') throw new Error('must be a text');
  if (typeof value !== 'number') throw new Error('must be a number');
  return String(value);
}

/**
 * Reads settings by the rules of SETTINGS; what is absent, empty or undefined has its default.
 * @param valueOf gives a setting's value, its text or what stands for that, and the name by which whoever set it knows it
 * @param faults what is wrong already
 * @throws StartError that names every bad setting
 */
function parseSettings(
  valueOf: (variable: string, key: keyof Settings) => [name: string, value: unknown],
  faults: string[] = [],
): Settings {
  const settings: Record<string, unknown> = { ...DEFAULTS };
  for (const [variable, setting] of Object.entries(SETTINGS)) {
    const [name, value] = valueOf(variable, setting.key);
    try {
      const text = textOf(setting.key, value);
      if (text !== '') settings[setting.key] = setting.parse(text);
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`);
    }
  }
  if (faults.length > 0) throw startError('These settings cannot be used', faults);
  return settings as unknown as Settings;
}

/** The settings of the environment's variables. */
export const readSettings = (environment: Record<string, string | undefined>): Settings =>
  parseSettings((variable) => [variable, environment[variable]]);

/**
 * The settings that a program gives by their names in code, held to the same rules as the environment's; it has to name a database.
 * @param faults of its other options
 */
export function checkSettings(
  given: Partial<Settings>,
  faults: readonly string[],
): Settings & { readonly databaseUrl: string } {
  const known = new Set<string>(Object.values(SETTINGS).map(({ key }) => key));
  const unknown = Object.keys(given).filter((name) => !known.has(name));
  const { databaseUrl = '' } = given;
  const settings = parseSettings(
    (_, key) => [key, given[key]],
    [
      ...unknown.map((name) => `${name} is not the name of an option`),
      ...faults,
      ...(databaseUrl === '' ? ['databaseUrl must name the database: there is no default'] : []),
    ],
  );
  return { ...settings, databaseUrl: settings.databaseUrl ?? '' };
}
