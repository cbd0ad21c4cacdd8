// The flags with which Node.js confines the service. docs/running.md says what they forbid.
// CommonJS, because the process file for PM2 loads it, too. As a program it prints one argument for node on each line.
const { existsSync, realpathSync } = require('node:fs');
const { delimiter, join, resolve, sep } = require('node:path');

const ROOT = realpathSync(join(__dirname, '..'));
const DEPENDENCIES = ['postgres', '@node-rs/argon2'];

/** Whether this release line of Node.js has the flag. */
const isKnown = (flag) => process.allowedNodeEnvironmentFlags.has(flag);

/** A path and its target: Node.js checks both of a symbolic link. */
const withTarget = (path) => (existsSync(path) ? [path, realpathSync(path)] : [path]);

/** Drops paths inside other paths. Node.js 20 does not let a folder itself be read when a path in it is allowed as well. */
const outermost = (paths) =>
  [...new Set(paths)].filter((path, _at, all) => !all.some((other) => path.startsWith(join(other, sep))));

/** The outermost node_modules on a path, because pnpm keeps the packages further down in it. */
function modulesOf(path) {
  const parts = path.split(sep);
  const at = parts.indexOf('node_modules');
  return at < 0 ? [] : [parts.slice(0, at + 1).join(sep)];
}

/** The folders of the packages that the service loads. bin/vitrine.js reports the ones that are not installed. */
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

/**
 * The flags for this release line of Node.js. The service may read the application, its packages, the registry file and what
 * CONFINE_READ lists.
 * @param {{ cwd?: string, read?: readonly string[], write?: readonly string[] }} options where the service runs, and further
 *   paths that it may read or write
 * @returns {string[]}
 */
function confinement({ cwd = process.cwd(), read = [], write = [] } = {}) {
  const permission = ['--permission', '--experimental-permission'].find(isKnown);
  if (permission === undefined) throw new Error(`Node.js ${process.version} has no permission model.`);
  const { RESOURCES = '', CONFINE_READ = '' } = process.env;
  const application = ['bin', 'dist', 'package.json'].map((name) => join(ROOT, name));
  const wanted = [RESOURCES, ...CONFINE_READ.split(delimiter), ...read].filter((path) => path !== '');
  const readable = [...application, ...moduleFolders(), ...wanted.map((path) => resolve(cwd, path))];
  return [
    permission,
    '--allow-addons', // argon2 is one
    ...outermost(readable.flatMap(withTarget)).map((path) => `--allow-fs-read=${path}`),
    ...outermost(write.flatMap(withTarget)).map((path) => `--allow-fs-write=${path}`),
    '--disable-proto=throw',
    '--frozen-intrinsics',
    '--disallow-code-generation-from-strings',
    // From Node.js 25 on, the permission model closes the network, too. SQLite opens files past the permission model, and
    // SIGUSR1 starts the debugger.
    ...['--allow-net', '--no-experimental-sqlite', '--disable-sigusr1'].filter(isKnown),
    // Warnings about these flags are not lines of the log.
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
