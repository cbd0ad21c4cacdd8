// Loads the registry file that the RESOURCES setting names.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, extname, isAbsolute, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { StartError } from '../errors.ts';
import shipped from './registry.ts';

/** The exports of a registry file, unchecked. */
export interface RegistryFile {
  /** The default export. */
  readonly registry: unknown;
  /** The export `panels`; an empty array when absent. */
  readonly panels: unknown;
  /** The export `roles`; no roles when absent. */
  readonly roles: unknown;
  /** The export `admin`: the admin area as a whole. Undefined when absent. */
  readonly admin?: unknown;
  /** The export `changes`: who may read the change feed. Undefined when absent. */
  readonly changes?: unknown;
}

/** The names of registry files that are suggested when they are in the current folder. */
const USUAL_FILES = ['resources.js', 'resources.mjs', 'resources.ts'];

/** Whether confinement, if any, allows this process to read a file. */
function mayRead(file: string): boolean {
  const { permission } = process as Partial<NodeJS.Process>;
  return permission?.has('fs.read', resolve(file)) ?? true;
}

/** Whether a file exists and this process may know it: with confinement, Node.js 20 throws an error otherwise. */
const isThere = (file: string): boolean => mayRead(file) && existsSync(file);

/** What every command says when RESOURCES is not set. It says so because serving the samples creates their tables. */
export function samplesNotice(): string {
  const names = shipped.map(({ model }) => model);
  const file = USUAL_FILES.find(isThere);
  const hint = file === undefined ? '' : `; to serve ${file}, set RESOURCES=${file}`;
  return `RESOURCES is not set, so the sample models ${names.slice(0, -1).join(', ')} and ${names.at(-1)} are served${hint}`;
}

/**
 * Loads a registry file, or the shipped registry when no file is set.
 * @throws StartError when the file cannot be loaded
 */
export async function loadRegistryFile(file: string | undefined): Promise<RegistryFile> {
  if (file === undefined) return { registry: shipped, panels: [], roles: {} };
  const path = resolve(file);
  if (!['.ts', '.mts', '.js', '.mjs'].includes(extname(path)))
    throw new StartError(`RESOURCES=${file} must end in .ts, .mts, .js or .mjs.`);
  const denied = (name: string): StartError =>
    new StartError(
      `RESOURCES=${file} cannot be loaded: this process may not access ${name}. To allow it, add its folder to CONFINE_READ.`,
    );
  if (!mayRead(path)) throw denied(path);
  if (!existsSync(path)) throw new StartError(`RESOURCES=${file}: there is no such file.`);
  try {
    // As a path: with a file URL, tsx confuses x.ts and x.js.
    return exportsOf((await import(pathToFileURL(path).pathname)) as Exports);
  } catch (error) {
    const { code, resource = '' } = (error ?? {}) as { code?: unknown; resource?: string };
    if (code === 'ERR_ACCESS_DENIED' && isAbsolute(resource)) throw denied(resource);
    // Node.js can read TypeScript since 22.18, and older versions with tsx.
    if (code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.m?ts$/.test(path)) {
      throw new StartError(
        `RESOURCES=${file}: Node.js ${process.version} cannot read TypeScript. Use Node.js 22.18 or later, or a .js or .mjs file.`,
      );
    }
    const { message = String(error) } = error instanceof Error ? error : {};
    throw new StartError(`RESOURCES=${file} cannot be loaded: ${message}${positionOf(error, path)}`);
  }
}

/** The first line of the stack of a syntax error: the file and the line. Other stacks begin with the message. */
const POSITION = /^(?:file:\/\/)?(\/.*):(\d+)$/;
/** The first frame of an error that was thrown before any module of the registry ran. */
const NOT_RUN = /^SyntaxError.*\n +at [^\n]*node:internal\/modules\//;
/** Milliseconds. */
const MAX_PARSE = 5_000;

/** The file and the line of a syntax error, such as ` (resources.js:18)`; '' if Node.js does not give them. */
function positionOf(error: unknown, path: string): string {
  if (!(error instanceof SyntaxError)) return '';
  let { stack = '' } = error;
  // Node.js 20 and 22 only print the position, so another process prints it. It only parses the file.
  // A confined process may not start others, and gets no position.
  if (NOT_RUN.test(stack))
    try {
      stack = spawnSync(process.execPath, ['--check', path], { encoding: 'utf8', timeout: MAX_PARSE }).stderr;
    } catch {
      return '';
    }
  const [, found, line] = POSITION.exec(stack.split('\n')[0] ?? '') ?? [];
  return found === undefined ? '' : ` (${relative(dirname(path), decodeURI(found))}:${line})`;
}

interface Exports {
  readonly default?: unknown;
  readonly panels?: unknown;
  readonly roles?: unknown;
  readonly admin?: unknown;
  readonly changes?: unknown;
}

/** Importing a CommonJS file puts its exports under the default export. */
function exportsOf(module: Exports): RegistryFile {
  const { default: registry } = module;
  const isCommonJs = typeof registry === 'object' && registry !== null && 'default' in registry;
  const exported: Exports = isCommonJs ? registry : module;
  const { default: found, panels = [], roles = {}, admin, changes } = exported;
  return {
    registry: found,
    panels,
    roles,
    ...(admin !== undefined && { admin }),
    ...(changes !== undefined && { changes }),
  };
}
