// Compiles TypeScript without checking types, in a tenth of the time that tsc takes.
import { readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';

/** The part of esbuild that is used here. */
interface Compiler {
  readonly build: (options: object) => Promise<unknown>;
}
interface Build {
  readonly onResolve: (options: { filter: RegExp }, resolve: (found: Import) => object) => void;
}
interface Import {
  readonly path: string;
  readonly kind: string;
}

/** Leaves imports as they are, except that they name the compiled files. */
const compiledImports = {
  name: 'compiled-imports',
  setup: ({ onResolve }: Build): void =>
    onResolve({ filter: /./ }, ({ path, kind }) =>
      kind === 'entry-point'
        ? {}
        : { external: true, path: path.startsWith('.') ? path.replace(/\.ts$/, '.js') : path },
    ),
};

/** Compiles each file of the folders `roots` into the same place below `target`. */
export async function compile(target: string, roots: readonly string[]): Promise<void> {
  // esbuild comes with tsx.
  const { build } = createRequire(createRequire(import.meta.url).resolve('tsx'))('esbuild') as Compiler;
  const files = await Promise.all(
    roots.map(async (root) =>
      (await readdir(root, { recursive: true }))
        .filter((file) => file.endsWith('.ts'))
        .map((file) => join(root, file)),
    ),
  );
  await build({
    entryPoints: files.flat(),
    outdir: target,
    outbase: '.',
    bundle: true,
    plugins: [compiledImports],
    format: 'esm',
    platform: 'node',
    target: 'node20',
    treeShaking: false,
    sourcemap: true,
    logLevel: 'error',
  });
}
