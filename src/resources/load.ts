import { existsSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { StartError } from '../errors.ts';
import shipped from './registry.ts';

/** Whether this process can import TypeScript: Node itself does since 22.18, and tsx makes older ones do it. */
const readsTypeScript = (): boolean =>
  Boolean((process.features as { typescript?: unknown }).typescript) || import.meta.url.endsWith('.ts');

/**
 * The default export of the registry file, unchecked; the shipped registry when there is none.
 * @throws StartError when the file cannot be loaded
 */
export async function loadRegistry(file: string | undefined): Promise<unknown> {
  if (file === undefined) return shipped;
  const path = resolve(file);
  if (!['.ts', '.mts', '.js', '.mjs'].includes(extname(path)))
    throw new StartError(`RESOURCES=${file} must end in .ts, .js or .mjs.`);
  if (!existsSync(path)) throw new StartError(`RESOURCES=${file}: there is no such file.`);
  if (/\.m?ts$/.test(path) && !readsTypeScript()) {
    throw new StartError(
      `RESOURCES=${file}: Node ${process.version} does not read TypeScript. Use Node 22.18 or later, or a .js or .mjs file.`,
    );
  }
  try {
    const module = (await import(pathToFileURL(path).href)) as { default?: unknown };
    // A CommonJS file's `exports.default` arrives one level further down.
    const registry = module.default as { default?: unknown } | undefined;
    return registry && typeof registry === 'object' && 'default' in registry ? registry.default : registry;
  } catch (error) {
    throw new StartError(`RESOURCES=${file} cannot be loaded: ${(error as Error).message}`);
  }
}
