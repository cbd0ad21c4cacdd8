// Checks a sealed history, from a database or from an export of it.
import { createHash, type KeyObject } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { Database } from '../../db/connection/database.ts';
import type { Statement } from '../../db/rows.ts';
import {
  allEntries,
  allSeals,
  type Entry,
  type SealedTable,
  type StoredSeal,
} from '../../query/statements/seal-statements.ts';
import { SEAL } from '../definition/system-tables.ts';
import {
  compareEntries,
  hashOf,
  isSignedBy,
  keyIdOf,
  lastIn,
  parseSeal,
  SEALED_TABLES,
  type SealContent,
} from './seals.ts';

/** A part of a history. The entries of a checkpoint come before it. */
export type Part = (Entry & { readonly table: string }) | { readonly seal: StoredSeal };

/** Rows at a time: those of an export may have tens of megabytes. */
const BATCH = 50;

async function* rowsOf<T>(database: Pick<Database, 'cursor'>, statement: Statement<T[]>): AsyncGenerator<T> {
  for await (const batch of database.cursor(statement, BATCH)) yield* batch;
}

/**
 * The parts of the history in a database.
 * @param tables those that it has
 * @param isWhole whether the texts of the entries are their values, or their digests
 */
export async function* partsIn(
  database: Pick<Database, 'cursor'>,
  tables: readonly SealedTable[],
  isWhole: boolean,
): AsyncGenerator<Part> {
  const readers = tables
    .filter(({ name }) => SEALED_TABLES.includes(name))
    .map((table) => ({ name: table.name, rows: rowsOf(database, allEntries(table, isWhole)) }));
  // The entries are read after the checkpoints, so that there are at least those that are sealed.
  const sealTable = tables.find(({ name }) => name === SEAL.model);
  const seals = sealTable && rowsOf(database, allSeals(sealTable));
  let seal = await seals?.next();
  const next = new Map<string, IteratorResult<Entry>>();
  for (const { name, rows } of readers) next.set(name, await rows.next());
  async function* entriesUpTo(last: (table: string) => bigint | undefined): AsyncGenerator<Part> {
    for (const { name, rows } of readers)
      for (let row = next.get(name); row && !row.done; row = next.get(name)) {
        const limit = last(name);
        if (limit !== undefined && row.value.id > limit) break;
        yield { table: name, ...row.value };
        next.set(name, await rows.next());
      }
  }
  for (; seals && seal && !seal.done; seal = await seals.next()) {
    const content = parseSeal(seal.value.content);
    yield* entriesUpTo((table) => lastIn(content, table));
    yield { seal: seal.value };
  }
  yield* entriesUpTo(() => undefined);
}

/** A line of an export. The values of an entry are the text that was sealed. */
export const lineOf = (part: Part): string =>
  'seal' in part
    ? JSON.stringify({ table: SEAL.model, ...part.seal, id: String(part.seal.id) })
    : `{"table":"${part.table}","id":"${part.id}","entry":${part.text}}`;

const LINE = /^\{"table":"(\w+)","id":"(\d{1,19})","entry":(\{.*\})\}$/;

/** The lines of a file. Unlike those of node:readline, they end only with a line feed. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest: string[] = [];
  for await (const chunk of createReadStream(file, 'utf8')) {
    const [first = '', ...more] = (chunk as string).split('\n');
    rest.push(first);
    if (more.length === 0) continue;
    yield rest.join('');
    yield* more.slice(0, -1);
    rest = more.slice(-1);
  }
  yield rest.join('');
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('base64');

/** The digest of an entry in an export, as PostgreSQL makes it: see seal-statements.ts. Only the text that was exported has one. */
function entryDigest(entry: string): string {
  try {
    const values = JSON.parse(entry) as Record<string, string | { readonly sha256: string }>;
    if (JSON.stringify(values) !== entry) return '';
    const lines = Object.entries(values).map(
      ([name, value]) => `${name} ${typeof value === 'string' ? digestOf(value) : value.sha256}\n`,
    );
    return digestOf(lines.join(''));
  } catch {
    return '';
  }
}

/** The parts of the history in an export. Any other line counts as a checkpoint that was changed. */
export async function* partsInFile(file: string): AsyncGenerator<Part> {
  for await (const line of linesOf(file)) {
    const [, table, id, entry] = LINE.exec(line) ?? [];
    if (table !== undefined && id !== undefined && entry !== undefined)
      yield { table, id: BigInt(id), text: entryDigest(entry) };
    else if (line !== '') yield { seal: sealIn(line) };
  }
}

function sealIn(line: string): StoredSeal {
  try {
    const { id, content, signature } = JSON.parse(line) as Record<string, unknown>;
    const seal = { id: BigInt(String(id)), content: String(content), signature: String(signature) };
    if (lineOf({ seal }) === line) return seal;
  } catch {
    // It is no checkpoint.
  }
  return { id: 0n, content: '', signature: '' };
}

/** A checkpoint that a witness has. */
export interface Witnessed {
  readonly number: string;
  readonly hash: string;
  readonly key: string;
  readonly signature: string;
}

const WITNESSED = ['number', 'hash', 'key', 'signature'] as const;

/** The checkpoints in the lines of a witness, which may also be the log of the service. */
export function witnessedIn(lines: readonly string[]): Witnessed[] {
  return lines.flatMap((line) => {
    try {
      const found = JSON.parse(line) as Witnessed;
      const isWhole = WITNESSED.every((name) => typeof found[name] === 'string');
      return isWhole && /^\d{1,19}$/.test(found.number) ? [found] : [];
    } catch {
      return [];
    }
  });
}

export interface Findings {
  /** The first faults, and their number. */
  readonly faults: readonly string[];
  readonly count: number;
  readonly checkpoints: number;
  readonly entries: number;
  /** The last checkpoint, and the last one that a witness has. */
  readonly last: SealContent | undefined;
  readonly lastWitnessed: SealContent | undefined;
  /** Entries after the last checkpoint. */
  readonly unsealed: number;
}

/** Maximum faults that are described. */
const MAX_FAULTS = 20;

/**
 * Checks a history.
 * @param keys with which checkpoints may be signed; none to leave out the signatures
 * @param from the number of the first checkpoint whose entries must still be there
 */
export async function verifyHistory(
  parts: AsyncIterable<Part>,
  { keys, witnessed, from }: { keys: readonly KeyObject[]; witnessed: readonly Witnessed[]; from: bigint },
): Promise<Findings> {
  const keyOf = new Map(keys.map((key) => [keyIdOf(key), key]));
  const trusted = witnessed.filter((one) => {
    const key = keyOf.get(one.key);
    return keys.length === 0 || (key !== undefined && isSignedBy(key, one));
  });
  const hashes = new Map(trusted.map(({ number, hash }) => [number, hash]));
  const waiting = new Map<string, Entry[]>();
  const latest = new Map<string, bigint>();
  const faults: string[] = [];
  let [count, checkpoints, entries] = [0, 0, 0];
  let number = 0n;
  /** The hash of the checkpoint before, and whether it can be read. */
  let previous = '';
  let isReadable = true;
  let last: SealContent | undefined;
  let lastWitnessed: SealContent | undefined;
  const report = (text: string): void => {
    count += 1;
    if (faults.length < MAX_FAULTS) faults.push(text);
  };

  /** Takes the entries up to an id. */
  function take(table: string, upTo: bigint): Entry[] {
    const all = waiting.get(table) ?? [];
    const rest = all.filter(({ id }) => id > upTo);
    waiting.set(table, rest);
    return all.filter(({ id }) => id <= upTo);
  }

  function checkSeal({ id, content: text, signature }: StoredSeal): void {
    const name = `checkpoint ${id}`;
    const hash = hashOf(text);
    const content = parseSeal(text);
    const isNext = id === number + 1n;
    const isContinued = isNext && isReadable;
    checkpoints += 1;
    if (!isNext && id > number) report(`checkpoint ${number + 1n} was removed`);
    else if (!isNext) report(`${name} was added or reordered`);
    else if (content && content.previous !== previous)
      report(`checkpoint ${number} was changed: ${name} follows another one`);
    const known = hashes.get(String(id));
    if (known !== undefined && known !== hash) report(`${name} was changed: a witness has another one`);
    [number, previous] = [id, hash];
    isReadable = content?.number === String(id);
    if (content?.number !== String(id)) return report(`${name} was changed`);
    const key = keyOf.get(content.key);
    if (keys.length > 0 && !key) report(`${name} is signed with an unknown key (${content.key})`);
    if (key && !isSignedBy(key, { number: content.number, hash, signature }))
      report(`${name} was changed: its signature is wrong`);
    for (const [table, span] of Object.entries(content.tables)) {
      if (!span) continue;
      const after = BigInt(span.after);
      if (isContinued && after !== lastIn(last, table))
        report(`${name} does not begin where the one before it ends, in ${table}`);
      // What a missing checkpoint has sealed is in none that follows.
      const found = take(table, BigInt(span.last)).filter((entry) => isContinued || entry.id > after);
      entries += found.length;
      if (id >= from)
        for (const { id: entry, fault } of compareEntries(span.entries, found))
          report(`entry ${entry} of ${table} was ${fault} after it was sealed (${name}, ${content.at})`);
    }
    last = content;
    if (known === hash) lastWitnessed = content;
  }

  for await (const part of parts) {
    if ('seal' in part) checkSeal(part.seal);
    else {
      const { table, id } = part;
      const all = waiting.get(table) ?? [];
      all.push(part);
      waiting.set(table, all);
      if (id <= (latest.get(table) ?? id - 1n)) report(`entry ${id} of ${table} was reordered`);
      latest.set(table, id);
    }
  }
  const highest = trusted.reduce((max, one) => (BigInt(one.number) > max ? BigInt(one.number) : max), 0n);
  if (highest > number) report(`checkpoint ${number + 1n} was removed: a witness has it`);
  let unsealed = 0;
  for (const [table, rest] of waiting) {
    unsealed += rest.length;
    for (const { id } of rest)
      if (id <= lastIn(last, table)) report(`entry ${id} of ${table} was added after it was sealed`);
  }
  return { faults, count, checkpoints, entries, last, lastWitnessed, unsealed };
}
