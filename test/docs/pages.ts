import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { commandPath } from '../support.ts';
import { REPOSITORY } from '../paths.ts';
import { test } from 'node:test';

export const ROOT = REPOSITORY;

export const readPage = (page: string): string => readFileSync(join(ROOT, page), 'utf8');

/** Every page of the repository, by its path from the root. */
export function allPages(): string[] {
  const isOther = (name: string): boolean => ['node_modules', 'dist'].includes(name) || name.startsWith('.');
  const names = readdirSync(ROOT, { withFileTypes: true }).filter(({ name }) => !isOther(name));
  return names.flatMap((entry) => {
    if (!entry.isDirectory()) return entry.name.endsWith('.md') ? [entry.name] : [];
    const inside = readdirSync(join(ROOT, entry.name), { recursive: true, encoding: 'utf8' });
    return inside.filter((name) => name.endsWith('.md')).map((name) => join(entry.name, name));
  });
}

/** The code blocks of a page in one language. */
export function codeBlocks(page: string, language: string): string[] {
  const blocks = readPage(page).matchAll(/^```(\w*)\n(.*?)^```$/gms);
  return [...blocks].flatMap(([, name, code = '']) => (name === language ? [code] : []));
}

export interface Example {
  readonly command: string;
  /** What the page shows below the command. */
  readonly shown: string;
}

/** The commands of a console block, each with what stands below it. */
export function examplesOf(block: string): Example[] {
  return block
    .split(/^\$ /m)
    .slice(1)
    .map((text) => {
      const [, command = '', shown = ''] = /^((?:[^\n]*\\\n)*[^\n]*)\n?(.*)$/s.exec(text) ?? [];
      return { command, shown: shown.trim() };
    });
}

/** The curl commands of a page, in their order. */
export const curlExamples = (page: string): Example[] =>
  codeBlocks(page, 'console')
    .flatMap(examplesOf)
    .filter(({ command }) => command.startsWith('curl '));

export interface Site {
  readonly base: string;
  readonly password: string;
}

/** Where the pages have the service. */
const ADDRESS = 'http://127.0.0.1:8000/';
/** The day of the pages: what they show with its date is "now" in an answer. */
const DAY = '2026-01-15';
const NOW = '<now>';
const MOMENT = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g;

const maskShown = (text: string): string =>
  text.replace(MOMENT, (moment) => (moment.startsWith(DAY) ? NOW : moment));

const maskActual = (text: string): string =>
  text.replace(MOMENT, (moment) => {
    const age = Math.abs(Date.now() - Date.parse(`${moment.replace(' ', 'T')}Z`));
    return age < 600_000 ? NOW : moment;
  });

/** Whether a text on several lines is JSON that was wrapped for reading. */
function isWrapped(shown: string): boolean {
  try {
    return shown.includes('\n') && Boolean(JSON.parse(shown));
  } catch {
    return false;
  }
}

/** Anything but wrapped JSON stands as it came, whatever its line breaks are. */
export function sameBody(actual: string, shown: string): void {
  const plain = (text: string): string => text.replaceAll('\r\n', '\n').trimEnd();
  if (!isWrapped(shown)) return assert.equal(maskActual(plain(actual)), maskShown(shown));
  const compact = (text: string): string => JSON.stringify(JSON.parse(text));
  assert.equal(maskActual(compact(actual)), maskShown(compact(shown)));
}

function splitHead(text: string): [head: string[], body: string] {
  const [head = '', ...body] = text.replaceAll('\r\n', '\n').split('\n\n');
  return [head.split('\n'), body.join('\n\n')];
}

/** Runs the examples of one page, which share one state: the ETags that a page shows stand for those that are answered. */
export function testExamples(page: string, site: () => Site): void {
  const tags = new Map<string, string>();

  async function run(command: string): Promise<string> {
    const { base, password } = site();
    assert.ok(command.includes(ADDRESS), `a command for ${ADDRESS}`);
    let line = command.replaceAll(ADDRESS, `${base}/`).replaceAll('PASSWORD', password);
    for (const [shown, actual] of tags) line = line.replaceAll(shown, actual);
    const env = { PATH: commandPath(), HOME: ROOT, NO_PROXY: '*' }; // no settings of whoever runs the tests
    const { stdout } = await promisify(execFile)('sh', ['-c', line], { env });
    return stdout.replaceAll(new URL(base).host, new URL(ADDRESS).host);
  }

  function sameTag(actual: string | undefined, shown: string): void {
    assert.ok(actual, 'there is an ETag');
    const known = tags.get(shown);
    if (known === undefined) assert.ok(![...tags.values()].includes(actual), `${actual} is a new ETag`);
    else assert.equal(actual, known);
    tags.set(shown, actual);
  }

  function sameHead(actual: readonly string[], shown: readonly string[]): void {
    assert.equal(actual[0]?.trim(), shown[0]);
    for (const line of shown.slice(1)) {
      if (!line.startsWith('ETag: '))
        assert.ok(actual.includes(line), `${line}\nis not in\n${actual.join('\n')}`);
      else sameTag(actual.find((header) => header.startsWith('ETag: '))?.slice(6), line.slice(6));
    }
  }

  for (const { command, shown } of curlExamples(page)) {
    test(`${page}: ${command}`, async () => {
      const output = await run(command);
      if (!/ -i /.test(command)) return sameBody(output, shown);
      const [actualHead, actualBody] = splitHead(output);
      const [shownHead, shownBody] = splitHead(shown);
      sameHead(actualHead, shownHead);
      sameBody(actualBody, shownBody);
    });
  }
}
