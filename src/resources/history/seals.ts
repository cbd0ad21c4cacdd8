// Seals the history: a chain of signed checkpoints, each with the digests of the entries since the one before it.
import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto';
import { appendFileSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../db/connection/database.ts';
import type { Model } from '../../db/schema/model.ts';
import { StartError } from '../../errors.ts';
import { fileFault } from '../../setting-values.ts';
import { portionEnd } from '../../query/statements/history-entries.ts';
import {
  addSeal,
  digestsIn,
  existingTables,
  lastSeal,
  type Entry,
  type SealedTable,
  type StoredSeal,
} from '../../query/statements/seal-statements.ts';
import { HISTORY } from '../definition/system-tables.ts';
import type { RecordEvent } from '../users/events.ts';
import { createWatermark } from './watermark.ts';

/** The tables whose entries are sealed. */
export const SEALED_TABLES: readonly string[] = [HISTORY.model, 'vitrine_event'];

/** Milliseconds between two checkpoints: as a rule, while there is more to seal, and in a process while another one seals. */
const INTERVAL = 5_000;
const SHORT_INTERVAL = 1_000;
const PASSIVE_INTERVAL = 30_000;
/** Milliseconds between two checks of the entries of the latest checkpoint. */
const CHECK_INTERVAL = 60_000;
/** What a checkpoint seals of a table. */
const PORTION = { entries: 10_000, bytes: 256 * 1024 * 1024 };

/** The entries of a table in a checkpoint: all with ids above `after` and up to `last`. */
export interface SealedSpan {
  readonly after: string;
  readonly last: string;
  /** Ids and digests. */
  readonly entries: readonly (readonly [id: string, digest: string])[];
}

/** What a checkpoint says. Its text is stored, so there is no other form of it. */
export interface SealContent {
  readonly number: string;
  /** The hash of the checkpoint before it; empty for the first one. */
  readonly previous: string;
  readonly at: string;
  /** The id of the key that has signed it. */
  readonly key: string;
  readonly tables: Readonly<Record<string, SealedSpan | undefined>>;
}

export const hashOf = (content: string): string => createHash('sha256').update(content).digest('hex');

/** What is signed, so that a witness needs no more of a checkpoint. */
const signedText = (number: string, hash: string): Buffer => Buffer.from(`vitrine seal ${number} ${hash}`);

/**
 * Reads an Ed25519 key: a private one, or for checks also a public one.
 * @param given a file with the key in PEM, or its text, from the file of HISTORY_KEY_FILE
 * @param name what has given it, for the error, which does not repeat it: it may be the key
 * @throws StartError
 */
export function readKey(given: string, kind: 'private' | 'public', name = 'HISTORY_KEY'): KeyObject {
  const fault = (reason: string): StartError =>
    new StartError(`${name} must be a file with an Ed25519 key in PEM: ${reason}`);
  let key: KeyObject;
  try {
    const pem = given.includes('-----BEGIN') ? given : readFileSync(given);
    key = kind === 'private' ? createPrivateKey(pem) : createPublicKey(pem);
  } catch (error) {
    throw fault(fileFault(error));
  }
  if (key.asymmetricKeyType !== 'ed25519') throw fault(`it is of the type ${key.asymmetricKeyType}`);
  return key;
}

export const keyIdOf = (key: KeyObject): string => {
  const open = key.type === 'private' ? createPublicKey(key) : key;
  return hashOf(open.export({ type: 'spki', format: 'der' }).toString('base64')).slice(0, 16);
};

export function isSignedBy(
  key: KeyObject,
  { number, hash, signature }: { number: string; hash: string; signature: string },
): boolean {
  const bytes = Buffer.from(signature, 'base64');
  return bytes.toString('base64') === signature && verify(null, signedText(number, hash), key, bytes);
}

const isId = (id: unknown): boolean => typeof id === 'string' && /^\d{1,19}$/.test(id);

/** @returns undefined for a text that is no checkpoint */
export function parseSeal(text: string): SealContent | undefined {
  try {
    const content = JSON.parse(text) as SealContent;
    const spans = Object.values(content.tables);
    const isSpan = (span: SealedSpan | undefined): boolean =>
      isId(span?.after) && isId(span?.last) && span?.entries.every(([id]) => isId(id)) === true;
    return isId(content.number) && spans.every(isSpan) ? content : undefined;
  } catch {
    return undefined;
  }
}

export const lastIn = (content: SealContent | undefined, table: string): bigint =>
  BigInt(content?.tables[table]?.last ?? 0);

export type Fault = 'changed' | 'removed' | 'reordered' | 'added';

/** How the entries of a span differ from those that were sealed, in the order of their ids. */
export function compareEntries(
  sealed: SealedSpan['entries'],
  found: readonly Entry[],
): { readonly id: bigint; readonly fault: Fault }[] {
  const expected = new Map(sealed.map(([id, digest]) => [BigInt(id), digest]));
  const digests = new Set(expected.values());
  const seen = new Set<bigint>();
  const faults = found.flatMap(({ id, text }): { id: bigint; fault: Fault }[] => {
    const digest = seen.has(id) ? undefined : expected.get(id);
    seen.add(id);
    if (digest === text) return [];
    if (digest === undefined) return [{ id, fault: 'added' }];
    return [{ id, fault: digests.has(text) ? 'reordered' : 'changed' }];
  });
  for (const id of expected.keys()) if (!seen.has(id)) faults.push({ id, fault: 'removed' });
  return faults.sort((one, other) => (one.id < other.id ? -1 : 1));
}

/** What the log says: the fields of a line. */
type Report = (level: 'info' | 'error', fields: Readonly<Record<string, string>>) => void;

export interface SealerOptions {
  readonly database: Pick<Database, 'run'>;
  /** The tables of entries, and the one of checkpoints. */
  readonly models: readonly Model[];
  readonly seals: Model;
  readonly key: KeyObject;
  /** A file to which each checkpoint is appended, or a folder for files by month. */
  readonly witness: string | undefined;
  readonly report: Report;
  readonly storeEvent: RecordEvent;
}

export type Sealer = ReturnType<typeof startSealer>;

/** Seals new entries every few seconds. Of several processes, the others wait while one does. */
export function startSealer({ database, models, seals, key, witness, report, storeEvent }: SealerOptions) {
  const watermark = createWatermark(database, models);
  const keyId = keyIdOf(key);
  const openKey = createPublicKey(key);
  const stopped = new AbortController();
  let tables: readonly SealedTable[] = [];
  let latest: StoredSeal | undefined;
  let content: SealContent | undefined;
  let isPassive = false;
  let checkedAt = -Infinity;
  /** The first thing that was wrong with a latest checkpoint. */
  let fault = '';

  function witnessed(seal: StoredSeal, { at }: SealContent): void {
    const line = { number: String(seal.id), hash: hashOf(seal.content), at, key: keyId, signature: seal.signature }; // prettier-ignore
    report('info', {
      event: 'history.sealed',
      message: `sealed the history: checkpoint ${seal.id}`,
      ...line,
    });
    if (witness === undefined) return;
    try {
      const isFolder = statSync(witness, { throwIfNoEntry: false })?.isDirectory() === true;
      const file = isFolder ? join(witness, `vitrine-seals-${at.slice(0, 7)}.ndjson`) : witness;
      appendFileSync(file, `${JSON.stringify(line)}\n`);
    } catch (error) {
      report('error', { event: 'history.unwitnessed', message: (error as Error).message });
    }
  }

  /** Why the checkpoint that is stored now cannot be the one that was there before; '' if it can. */
  async function faultOf(stored: StoredSeal | undefined): Promise<string> {
    if (latest && (stored?.id ?? 0n) < latest.id) return `checkpoint ${latest.id} was removed`;
    if (!stored) return '';
    const parsed = parseSeal(stored.content);
    const name = `checkpoint ${stored.id}`;
    const isSame = latest === undefined || stored.id > latest.id || stored.content === latest.content;
    if (!isSame || parsed?.number !== String(stored.id)) return `${name} was changed`;
    const signed = { number: parsed.number, hash: hashOf(stored.content), signature: stored.signature };
    if (parsed.key === keyId && !isSignedBy(openKey, signed)) return `${name} has a wrong signature`;
    if (performance.now() - checkedAt < CHECK_INTERVAL) return '';
    checkedAt = performance.now();
    for (const table of tables) {
      const span = parsed.tables[table.name];
      if (!span) continue;
      const ids = { after: BigInt(span.after), upTo: BigInt(span.last) };
      const found = await database.run(digestsIn(table, ids, span.entries.length + 1), 'read');
      const [first] = compareEntries(span.entries, found);
      if (first) return `entry ${first.id} of ${table.name} was ${first.fault}`;
    }
    return '';
  }

  /** @returns whether there is more to seal already */
  async function sealNew(): Promise<boolean> {
    const marks = await watermark.now();
    if (tables.length === 0) tables = await database.run(existingTables(models), 'read');
    const isNew = ({ name }: SealedTable): boolean => (marks.get(name) ?? 0n) > lastIn(content, name);
    const isDue = latest !== undefined && performance.now() - checkedAt >= CHECK_INTERVAL;
    if (!tables.some(isNew) && !isDue) return false;
    // Another process may have added a column since.
    tables = await database.run(existingTables(models), 'read');
    const stored = await database.run(lastSeal(seals), 'read');
    const wrong = await faultOf(stored);
    if (wrong !== '' && fault === '') {
      fault = wrong;
      report('error', { event: 'history.broken', message: `The sealed history is broken: ${wrong}.` });
      void storeEvent('history.broken', { detail: { fault: wrong } });
    }
    isPassive = latest !== undefined && stored !== undefined && stored.id > latest.id;
    latest = stored;
    content = stored && parseSeal(stored.content);
    if (isPassive) return false;
    // Another process may have sealed it.
    if (!tables.some(isNew)) return false;
    const spans: Record<string, SealedSpan> = {};
    for (const table of tables) {
      const after = lastIn(content, table.name);
      const mark = isNew(table) ? (marks.get(table.name) ?? after) : after;
      const end = await database.run(portionEnd(table, { after, upTo: mark }, PORTION, table.columns), 'read'); // prettier-ignore
      const last = end === 0n ? mark : end;
      const found = end === 0n ? [] : await database.run(digestsIn(table, { after, upTo: end }, PORTION.entries), 'read'); // prettier-ignore
      const entries = found.map(({ id, text }) => [String(id), text] as const);
      spans[table.name] = { after: String(after), last: String(last), entries };
    }
    const id = (stored?.id ?? 0n) + 1n;
    const made: SealContent = {
      number: String(id),
      previous: stored ? hashOf(stored.content) : '',
      at: new Date().toISOString(),
      key: keyId,
      tables: spans,
    };
    const text = JSON.stringify(made);
    const signature = sign(null, signedText(made.number, hashOf(text)), key).toString('base64');
    const seal = { id, content: text, signature };
    if (!(await database.run(addSeal(seals, seal), 'write'))) return false;
    [latest, content] = [seal, made];
    witnessed(seal, made);
    return tables.some(isNew);
  }

  const attempt = (): Promise<boolean> =>
    sealNew().catch((error: unknown) => {
      report('error', { event: 'history.unsealed', message: (error as Error).message });
      return false;
    });

  const running = (async () => {
    while (!stopped.signal.aborted) {
      const hasMore = await attempt();
      const pause = isPassive ? PASSIVE_INTERVAL : hasMore ? SHORT_INTERVAL : INTERVAL;
      const options = { signal: stopped.signal, ref: false };
      await sleep(pause, undefined, options).catch(() => undefined);
    }
  })();

  return {
    isBroken: (): boolean => fault !== '',
    /** Seals what is there, in the process whose checkpoints are the latest. */
    close: async (): Promise<void> => {
      stopped.abort();
      await running;
      if (!isPassive) while (await attempt());
    },
  };
}
