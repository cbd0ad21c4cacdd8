import assert from 'node:assert/strict';
import { join } from 'node:path';
import ts from 'typescript';
import { ROOT } from './pages.ts';

const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (file) => ts.sys.readFile(file));
const { options } = ts.parseJsonConfigFileContent(
  { ...(config as object), include: [], files: ['src/index.ts'] },
  ts.sys,
  ROOT,
);

/** What the compiler has against each of these texts, as if it were a file of the repository beside package.json. */
export function typeErrors(texts: readonly string[]): string[][] {
  const files = new Map(texts.map((text, index) => [join(ROOT, `example-${index}.ts`), text]));
  const real = ts.createCompilerHost(options);
  const host: ts.CompilerHost = {
    ...real,
    fileExists: (name) => files.has(name) || real.fileExists(name),
    readFile: (name) => files.get(name) ?? real.readFile(name),
    getSourceFile: (name, languageOrOptions, ...rest) => {
      const text = files.get(name);
      return text === undefined
        ? real.getSourceFile(name, languageOrOptions, ...rest)
        : ts.createSourceFile(name, text, languageOrOptions);
    },
  };
  const examples = ts.createProgram([...files.keys()], options, host);
  return [...files.keys()].map((name) =>
    ts
      .getPreEmitDiagnostics(examples, examples.getSourceFile(name))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
  );
}

let program: ts.Program | undefined;

/** The members of a type that a source file exports: of a union, the properties of all its members; without a type, all exports. */
function membersOf(file: string, typeName?: string): readonly ts.Symbol[] {
  // Names need no types of Node's and little of the language's, which are most of the work.
  program ??= ts.createProgram([join(ROOT, 'src/index.ts')], {
    ...options,
    types: [],
    lib: ['lib.es5.d.ts'],
  });
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(join(ROOT, 'src', file));
  const module = source && checker.getSymbolAtLocation(source);
  assert.ok(module, `${file} is a module`);
  const exported = checker.getExportsOfModule(module);
  if (typeName === undefined) return exported;
  const symbol = exported.find(({ name }) => name === typeName);
  assert.ok(symbol, `${file} exports ${typeName}`);
  const type = checker.getDeclaredTypeOfSymbol(symbol);
  const members = type.isUnion() ? type.types : [type];
  return members.flatMap((member) => checker.getPropertiesOfType(member));
}

/** The keys of a type, or the exports of a file. */
export const keysOf = (file: string, typeName?: string): string[] => [
  ...new Set(membersOf(file, typeName).map(({ name }) => name)),
];

/** The strings that a key of a type can be, or its list can have, by key. Keys that can be any string are left out. */
export function valuesOf(file: string, typeName: string): Map<string, string[]> {
  const found = new Map<string, ts.Type[]>();
  for (const member of membersOf(file, typeName)) {
    const checker = program!.getTypeChecker();
    const partsOf = (type: ts.Type): ts.Type[] => (type.isUnion() ? type.types : [type]);
    const types = partsOf(checker.getTypeOfSymbol(member)).flatMap((type) => {
      const element = checker.getIndexTypeOfType(type, ts.IndexKind.Number);
      const isText = type.flags & (ts.TypeFlags.StringLike | ts.TypeFlags.Any | ts.TypeFlags.Unknown);
      return isText ? type : element ? partsOf(element) : [];
    });
    found.set(member.name, [...(found.get(member.name) ?? []), ...types]);
  }
  return new Map(
    [...found].flatMap(([key, types]) => {
      const values = types.filter((type) => type.isStringLiteral()).map(({ value }) => value);
      return values.length > 0 && values.length === types.length ? [[key, values] as const] : [];
    }),
  );
}
