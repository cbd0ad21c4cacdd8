// The flags for running the service under Node's permission model. docs/running.md says what they forbid.
// CommonJS, because the PM2 configuration loads it, too. Run as a program, it prints one argument for node per line.
const { existsSync, readFileSync, realpathSync } = require('node:fs');
const { delimiter, join, resolve, sep } = require('node:path');
const { parseEnv } = require('node:util');

const ROOT = realpathSync(join(__dirname, '..'));
/** The settings of the service (src/config.ts) that name a file with the value of another one. */
const FILE_SETTING =
  /^(DATABASE_URL|DATABASE_READ_URL|MAX_LAG|RESOURCES|HOST|PORT|ACCESS|USER_MODEL|SCHEMA|MAX_BODY|SLOW_TIMEOUT|MAX_PAGE|DATETIME_FORMAT|TIME_ZONE|LOG_LEVEL|LOG_FORMAT|CORS_ORIGINS|PUBLIC_URL|BASE_PATH|TRUST_PROXY|MIN_PASSWORD|MFA|METRICS|HISTORY_KEY|HISTORY_WITNESS|RATE_LIMIT|READ|WORKERS)_FILE$/;

/** The values of WORKERS with which `vitrine serve` starts further processes. These do not get the right to do so. */
const SEVERAL_WORKERS = /^(auto|[2-9]|\d{2,})$/;

const DEPENDENCIES = ['postgres', '@node-rs/argon2'];

/** Whether this version of Node.js has the flag. */
const isKnown = (flag) => process.allowedNodeEnvironmentFlags.has(flag);

/** A path and its target, since Node.js checks both for a symbolic link. */
const withTarget = (path) => (existsSync(path) ? [path, realpathSync(path)] : [path]);

/** Drops paths inside other paths. Node.js 20 does not allow reading a folder itself when a path in it is also allowed. */
const outermost = (paths) =>
  [...new Set(paths)].filter((path, _at, all) => !all.some((other) => path.startsWith(join(other, sep))));

/** The outermost node_modules of a path, because pnpm stores the packages deeper inside it. */
function modulesOf(path) {
  const parts = path.split(sep);
  const at = parts.indexOf('node_modules');
  return at < 0 ? [] : [parts.slice(0, at + 1).join(sep)];
}

/** The folders of the packages that the service loads. bin/vitrine.js reports missing packages. */
function moduleFolders() {
  const places = DEPENDENCIES.flatMap((name) => {
    try {
      return [realpathSync(require.resolve(name))];
    } catch {
      return [];
    }
  });
  return [...[ROOT, ...places].flatMap(modulesOf), join(ROOT, 'node_modules')].filter(existsSync);
}

/** The text of a file, as `readSettingsFile` of the service reads it; '' if it cannot be read, which the service reports. */
function textOf(file) {
  try {
    return readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  } catch {
    return '';
  }
}

/** The files that the settings of the service name, in the environment or in `.env`: those that it reads, and writes. */
function namedFiles(cwd) {
  const variables = { ...parseEnv(textOf(join(cwd, '.env'))), ...process.env };
  const { RESOURCES = '', RESOURCES_FILE = '', HISTORY_KEY = '', HISTORY_WITNESS = '' } = variables;
  const named = RESOURCES_FILE === '' ? '' : textOf(resolve(cwd, RESOURCES_FILE)).replace(/\r?\n$/, '');
  const others = Object.keys(variables).filter((name) => FILE_SETTING.test(name));
  return {
    read: [RESOURCES, named, HISTORY_KEY, HISTORY_WITNESS, ...others.map((name) => variables[name])],
    write: [HISTORY_WITNESS].filter((path) => path !== ''),
  };
}

/**
 * The flags for this version of Node.js. The service may read the application, its packages, the registry file, `.env`, the files
 * of settings such as DATABASE_URL_FILE, and the paths in CONFINE_READ.
 * @param {{ cwd?: string, read?: readonly string[], write?: readonly string[], workers?: string }} options the working
 *   directory of the service, further paths that it may read or write, and the setting WORKERS
 * @returns {string[]}
 */
function confinement({
  cwd = process.cwd(),
  read = [],
  write = [],
  workers = process.env.WORKERS ?? '',
} = {}) {
  const permission = ['--permission', '--experimental-permission'].find(isKnown);
  if (permission === undefined) throw new Error(`Node.js ${process.version} has no permission model.`);
  const { CONFINE_READ = '' } = process.env;
  const application = ['bin', 'dist', 'package.json'].map((name) => join(ROOT, name));
  const named = namedFiles(cwd);
  const wanted = ['.env', ...named.read, ...CONFINE_READ.split(delimiter), ...read].filter(
    (path) => path !== '',
  );
  const writable = [...named.write, ...write].map((path) => resolve(cwd, path));
  const readable = [...application, ...moduleFolders(), ...wanted.map((path) => resolve(cwd, path))];
  return [
    permission,
    '--allow-addons', // for argon2
    ...(SEVERAL_WORKERS.test(workers) ? ['--allow-child-process'] : []),
    ...outermost(readable.flatMap(withTarget)).map((path) => `--allow-fs-read=${path}`),
    ...outermost(writable.flatMap(withTarget)).map((path) => `--allow-fs-write=${path}`),
    '--disable-proto=throw',
    '--frozen-intrinsics',
    '--disallow-code-generation-from-strings',
    // From Node.js 25 on, the permission model also closes the network. SQLite bypasses the permission model, and SIGUSR1 starts
    // the debugger.
    ...['--allow-net', '--no-experimental-sqlite', '--disable-sigusr1'].filter(isKnown),
    // Keeps warnings about these flags out of the log.
    '--disable-warning=ExperimentalWarning',
    '--disable-warning=SecurityWarning',
  ];
}

module.exports = { confinement, modulesOf };

if (require.main === module) {
  const words = [...confinement(), join(ROOT, 'bin/vitrine.js')];
  if (words.some((word) => word.includes('\n')))
    throw new Error('A path of the service contains a line break.');
  process.stdout.write(`${words.join('\n')}\n`);
}
