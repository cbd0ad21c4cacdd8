// The settings: their environment variables, defaults and validation.
import { excerpt, startError } from './errors.ts';
import {
  fileFault,
  InvalidValue,
  oneOf,
  parseBasePath,
  parseDatabaseUrl,
  parseMetrics,
  parseModelName,
  parsePublicUrls,
  parseCorsOrigins,
  parseRateLimit,
  parseTimeZone,
  parseWorkers,
  parseReadUrls,
  readSettingsFile,
  wholeNumber,
} from './setting-values.ts';

export const ACCESS_LEVELS = ['default', 'user', 'admin'] as const;
export type AccessLevel = (typeof ACCESS_LEVELS)[number];
/** An access level, or the roles whose users meet it. Admins always do. */
export type Level = AccessLevel | readonly string[];
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFormat = 'json' | 'text';

export interface Settings {
  /** `postgres://…`, or undefined for the embedded PostgreSQL. */
  readonly databaseUrl: string | undefined;
  /** Replicas of the database, which answer reads. */
  readonly databaseReadUrl: readonly string[];
  /** The maximum lag of a replica that answers reads (seconds). */
  readonly maxLag: number;
  /** Path of the registry file, or undefined for the shipped registry. */
  readonly resources: string | undefined;
  readonly host: string;
  readonly port: number;
  readonly access: AccessLevel;
  readonly read: AccessLevel;
  readonly userModel: string;
  readonly schema: 'apply' | 'check';
  /** The maximum size of a request body (bytes). */
  readonly maxBody: number;
  /** The time limit of a query by an anonymous client (seconds). */
  readonly slowTimeout: number;
  /** The maximum size of the records of one page (bytes). */
  readonly maxPage: number;
  /** How the API outputs `datetime` columns. */
  readonly datetimeFormat: 'plain' | 'iso';
  /** The zone in which the admin area shows and takes dates with a time. */
  readonly timeZone: string;
  readonly logLevel: LogLevel;
  /** Undefined means text on a terminal and JSON elsewhere. */
  readonly logFormat: LogFormat | undefined;
  readonly corsOrigins: readonly string[];
  /** The origins at which browsers reach the service. */
  readonly publicUrl: readonly string[];
  /** The path under which everything is mounted, such as `/books`; `''` without one. */
  readonly basePath: string;
  /** The number of proxies in front that the service trusts for the client's address. */
  readonly trustProxy: number;
  /** The minimum length of a new password that a person sets (characters). */
  readonly minPassword: number;
  /** Whether users of the admin area must have a second factor. */
  readonly mfa: 'optional' | 'required';
  /** The separate `HOST:PORT` that serves `/metrics`, or `off`. */
  readonly metrics: string;
  /** The file with the key that signs the checkpoints of the history. */
  readonly historyKey: string | undefined;
  /** A file, or a folder, to which the checkpoints are written as well. */
  readonly historyWitness: string | undefined;
  /** How many requests a client may send: `off`, or requests per second and optionally a burst, such as `50,200`. */
  readonly rateLimit: string;
  /** The number of processes that serve. Only for the command. */
  readonly workers: number;
}

interface Setting {
  readonly meaning: string;
  /** The text used for an absent variable. If `absent` is given, only a description for people. */
  readonly fallback: string;
  /** The value of an absent variable, if no text can express it. */
  readonly absent?: undefined | '' | readonly [];
  /** Returns the value, or throws an Error whose message continues the setting's name ("must be …"). */
  readonly parse: (text: string) => unknown;
}

/** All settings by environment variable, in the order of `--help`. */
export const SETTINGS: Readonly<Record<string, Setting>> = {
  DATABASE_URL: {
    meaning: 'the PostgreSQL database, postgres://user:password@host:port/name',
    fallback: 'an embedded PostgreSQL, its data in .data/',
    absent: undefined,
    parse: parseDatabaseUrl,
  },
  DATABASE_READ_URL: {
    meaning: 'replicas of the database that answer reads, separated by commas',
    fallback: 'none',
    absent: [],
    parse: parseReadUrls,
  },
  MAX_LAG: {
    meaning: 'seconds that a replica may lag behind while it answers reads',
    fallback: '10',
    parse: wholeNumber(1, 3600),
  },
  RESOURCES: {
    meaning: 'the registry file (.ts, .mts, .js or .mjs)',
    fallback: 'the shipped registry',
    absent: undefined,
    parse: String,
  },
  HOST: { meaning: 'the address to listen on', fallback: '127.0.0.1', parse: String },
  PORT: {
    meaning: 'the port to listen on; 0 picks a free one',
    fallback: '8000',
    parse: wholeNumber(0, 65535),
  },
  ACCESS: {
    meaning: 'the access level of resources without their own: default, user or admin',
    fallback: 'default',
    parse: oneOf(...ACCESS_LEVELS),
  },
  READ: {
    meaning: 'the read level of resources without their own: default, user or admin',
    fallback: 'default',
    parse: oneOf(...ACCESS_LEVELS),
  },
  USER_MODEL: { meaning: 'the resource that holds the users', fallback: 'user', parse: parseModelName },
  SCHEMA: {
    meaning: 'apply: create what is missing in the database; check: only compare',
    fallback: 'apply',
    parse: oneOf('apply', 'check'),
  },
  MAX_BODY: {
    meaning: 'maximum bytes of a request body',
    fallback: '1048576',
    // A form may be three times as large, and V8 must be able to hold it in one string.
    parse: wholeNumber(1, 128 * 1024 ** 2),
  },
  SLOW_TIMEOUT: {
    meaning: 'seconds after which a query of an anonymous client is canceled',
    fallback: '3',
    parse: wholeNumber(1, 10),
  },
  MAX_PAGE: {
    meaning: 'maximum bytes of the records of one page',
    fallback: '33554432',
    parse: wholeNumber(1, 256 * 1024 ** 2),
  },
  DATETIME_FORMAT: {
    meaning:
      'plain (2026-01-15 09:30:00) or iso (2026-01-15T09:30:00Z): how the API outputs dates with a time',
    fallback: 'plain',
    parse: oneOf('plain', 'iso'),
  },
  TIME_ZONE: {
    meaning: 'the time zone in which the admin area shows and takes dates with a time, such as Europe/Zurich',
    fallback: 'UTC',
    parse: parseTimeZone,
  },
  LOG_LEVEL: {
    meaning: 'debug (with the SQL of schema changes), info (a line per request), warn or error',
    fallback: 'info',
    parse: oneOf('debug', 'info', 'warn', 'error'),
  },
  LOG_FORMAT: {
    meaning: 'json (one object per line) or text (for people)',
    fallback: 'text on a terminal, else json',
    absent: undefined,
    parse: oneOf('json', 'text'),
  },
  CORS_ORIGINS: {
    meaning: 'origins that browsers may call from, separated by commas',
    fallback: 'none',
    absent: [],
    parse: parseCorsOrigins,
  },
  PUBLIC_URL: {
    meaning: 'the origins at which browsers reach the service, if a proxy changes Host; links use the first',
    fallback: 'the Host header of each request',
    absent: [],
    parse: parsePublicUrls,
  },
  BASE_PATH: {
    meaning: 'the path under which everything is mounted, such as /books',
    fallback: 'none',
    absent: '',
    parse: parseBasePath,
  },
  TRUST_PROXY: {
    meaning: "how many proxies in front to trust for the client's address",
    fallback: '0',
    parse: wholeNumber(0, 100),
  },
  MIN_PASSWORD: {
    meaning: 'minimum characters of a new password: in the admin area, with a link, by a command',
    fallback: '12',
    parse: wholeNumber(1, 1024),
  },
  MFA: {
    meaning: 'optional or required: whether users must have a second factor to log in to the admin area',
    fallback: 'optional',
    parse: oneOf('optional', 'required'),
  },
  METRICS: {
    meaning: 'where to serve /metrics: off, or a separate HOST:PORT to listen on',
    fallback: 'off',
    parse: parseMetrics,
  },
  HISTORY_KEY: {
    meaning: 'a file with an Ed25519 private key in PEM, which seals the history',
    fallback: 'none',
    absent: undefined,
    parse: String,
  },
  HISTORY_WITNESS: {
    meaning: 'a file, or a folder, that gets each checkpoint of the sealed history as well',
    fallback: 'none',
    absent: undefined,
    parse: String,
  },
  RATE_LIMIT: {
    meaning: 'requests per second that a client may send, and how many at once, such as 50,200',
    fallback: 'off',
    parse: parseRateLimit,
  },
  WORKERS: {
    meaning: 'the number of processes that serve; auto: one for each processor',
    fallback: '1',
    parse: parseWorkers,
  },
};

/** The key of a variable: `maxBody` for MAX_BODY. */
const keyOf = (variable: string): keyof Settings =>
  variable.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()) as keyof Settings;

/** The settings of an empty environment. */
export const DEFAULTS = Object.fromEntries(
  Object.entries(SETTINGS).map(([variable, setting]) => [
    keyOf(variable),
    'absent' in setting ? setting.absent : setting.parse(setting.fallback),
  ]),
) as unknown as Settings;

/**
 * Converts a setting's value to the text of an environment variable; '' if it is undefined.
 * @throws Error for a value of the wrong type
 */
function textOf(key: keyof Settings, value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return value;
  const fallback = DEFAULTS[key];
  if (Array.isArray(fallback)) {
    if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value.join();
    throw new Error('must be an array of strings');
  }
  if (typeof fallback !== 'number') throw new Error('must be a string');
  if (typeof value !== 'number') throw new Error('must be a number');
  return String(value);
}

/**
 * Parses and validates all settings. Absent, empty and undefined ones get their defaults.
 * @param valueOf returns a setting's value, and the name for it in messages
 * @param faults problems found earlier, reported together with the invalid settings
 * @throws StartError that names every invalid setting
 */
function parseSettings(
  valueOf: (variable: string, key: keyof Settings) => [name: string, value: unknown],
  faults: string[] = [],
): Settings {
  const settings: Record<string, unknown> = { ...DEFAULTS };
  for (const [variable, { parse }] of Object.entries(SETTINGS)) {
    const key = keyOf(variable);
    let name = variable;
    try {
      const [given, value] = valueOf(variable, key);
      name = given;
      const text = textOf(key, value);
      if (text !== '') settings[key] = parse(text);
    } catch (error) {
      // A file may be that of another secret.
      const isShown = error instanceof InvalidValue && name !== fileVariable(variable);
      faults.push(`${name} ${(error as Error).message}${isShown ? ` (got "${excerpt(error.value)}")` : ''}`);
    }
  }
  if (faults.length > 0) throw startError('Invalid settings', faults);
  return settings as unknown as Settings;
}

/** The variable that names a file with a setting's value, such as a systemd credential or a container secret. */
const fileVariable = (variable: string): string => `${variable}_FILE`;

/** @throws Error for a file that cannot be read, and for a value that is given in both ways */
function readValue(variable: string, environment: Environment): [name: string, value: string | undefined] {
  const name = fileVariable(variable);
  const [value, file] = [environment[variable], environment[name]];
  if (file === undefined || file === '') return [variable, value];
  if (value !== undefined && value !== '') throw new Error(`and ${name} are both set`);
  try {
    const text = readSettingsFile(file).replace(/\r?\n$/, '');
    if (text !== '') return [name, text];
    throw new Error(`${file} is empty`); // The default, such as a new database, must not replace a secret that is not there yet.
  } catch (error) {
    throw new Error(`cannot be read from ${name}: ${fileFault(error)}`, { cause: error });
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The message without the values of settings that come from files. Such a file may be that of another secret. */
export function withoutFileValues(message: string, environment: Environment): string {
  let hidden = message;
  for (const [variable, { fallback }] of Object.entries(SETTINGS))
    try {
      const [name, value = ''] = readValue(variable, environment);
      if (name === variable || value === fallback) continue;
      // Errors of listening repeat the host of METRICS alone. A number that is a valid setting is no secret.
      for (const text of [value, value.replace(/:\d+$/, '')])
        if (/\D/.test(text)) hidden = hidden.replaceAll(text, `[${name}]`);
    } catch {
      // The message cannot have a value that cannot be read.
    }
  return hidden;
}

/** Whether the environment sets the same setting by its other variable: X_FILE for X, or X for X_FILE. */
export function isOverridden(name: string, environment: Environment): boolean {
  const isSetting = (variable: string): boolean => Object.hasOwn(SETTINGS, variable);
  const other = isSetting(name) ? fileVariable(name) : name.replace(/_FILE$/, '');
  return (isSetting(name) || isSetting(other)) && Boolean(environment[other]);
}

/** The variables of one setting, for commands that need no other. */
export const variablesOf = (variable: string, environment: Environment): Environment =>
  Object.fromEntries([variable, fileVariable(variable)].map((name) => [name, environment[name]]));

/**
 * Reads the settings from environment variables, and from the files that variables such as DATABASE_URL_FILE name.
 * @throws StartError that names every invalid variable
 */
export const readSettings = (environment: Environment): Settings =>
  parseSettings((variable) => readValue(variable, environment));

/**
 * Validates the settings that a program passes as options. Unlike in the environment, a database URL is required.
 * @param faults problems with the program's other options
 * @throws StartError that names every invalid option
 */
export function checkSettings(
  given: Partial<Settings>,
  faults: readonly string[],
): Settings & { readonly databaseUrl: string } {
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(DEFAULTS, name) || name === 'workers');
  const { databaseUrl = '' } = given;
  const settings = parseSettings(
    (_, key) => [key, given[key]],
    [
      ...unknown.map((name) => `${name} is not a known option`),
      ...faults,
      ...(databaseUrl === '' ? ['databaseUrl is required'] : []),
    ],
  );
  return { ...settings, databaseUrl: settings.databaseUrl ?? '' };
}
