import { existsSync } from 'node:fs';
import { extname, isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { StartError } from '../errors.ts';
import shipped from './registry.ts';

/** Whether this process can import TypeScript: Node itself does since 22.18, and tsx makes older ones do it. */
const readsTypeScript = (): boolean =>
  Boolean((process.features as { typescript?: unknown }).typescript) || import.meta.url.endsWith('.ts');

/** What a resource file exports, unchecked. */
export interface ResourceFile {
  /** Its default export. */
  readonly registry: unknown;
  /** Its export of this name; none of them when absent. */
  readonly panels: unknown;
}

/**
 * The registry file's exports; the shipped registry when there is none.
 * @throws StartError when the file cannot be loaded
 */
export async function loadResources(file: string | undefined): Promise<ResourceFile> {
  if (file === undefined) return { registry: shipped, panels: [] };
  const path = resolve(file);
  if (!['.ts', '.mts', '.js', '.mjs'].includes(extname(path)))
    throw new StartError(`RESOURCES=${file} must end in .ts, .mts, .js or .mjs.`);
  if (!existsSync(path)) throw new StartError(`RESOURCES=${file}: there is no such file.`);
  if (/\.m?ts$/.test(path) && !readsTypeScript()) {
    throw new StartError(
      `RESOURCES=${file}: Node ${process.version} does not read TypeScript. Use Node 22.18 or later, or a .js or .mjs file.`,
    );
  }
  try {
    // By its path: behind a whole URL tsx takes x.ts for x.js.
    return exportsOf((await import(pathToFileURL(path).pathname)) as Exports);
  } catch (error) {
    const { code, resource = '' } = (error ?? {}) as { code?: unknown; resource?: string };
    if (code === 'ERR_ACCESS_DENIED' && isAbsolute(resource)) {
      throw new StartError(
        `RESOURCES=${file} cannot be loaded: this process may not access ${resource}. To let it be read, list its folder in CONFINE_READ.`,
      );
    }
    // Node says in the first line of the stack where a file cannot be read as JavaScript.
    const { stack = '', message = String(error) } = error instanceof Error ? error : {};
    const [, line] = /^file:.*:(\d+)\n/.exec(stack) ?? [];
    const where = line === undefined ? '' : ` (line ${line})`;
    throw new StartError(`RESOURCES=${file} cannot be loaded: ${message}${where}`);
  }
}

interface Exports {
  readonly default?: unknown;
  readonly panels?: unknown;
}

/** A CommonJS file's own exports arrive one level further down, as the default export. */
function exportsOf(module: Exports): ResourceFile {
  const { default: registry } = module;
  const isCommon = typeof registry === 'object' && registry !== null && 'default' in registry;
  const { default: found, panels } = isCommon ? (registry as Exports) : module;
  return { registry: found, panels: panels ?? [] };
}
