// Processes a form only once, even if it is sent twice, for instance by a double click.
import { createHash, randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { checkedAtEnd, type Transaction } from '../../db/connection/transactions.ts';
import { inBatch, type Caller } from '../../resources/access/access.ts';
import type { Operations } from '../../resources/records/operations.ts';
import type { AdminContext } from './admin-context.ts';
import { signature } from './cookies.ts';
import type { Form } from './form-data.ts';
import { html, PIECE, type Html } from './html.ts';

const FIELD = '_form';
/** The fixed cost of hashing one text, as a number of characters that take equally long. */
const TEXT_COST = 100;

/** Fields of which the digest is independent: the button, and what only the form of a stored record has. */
const IGNORED_FIELDS: ReadonlySet<string> = new Set(['_save', '_next', '_version', '_origin']);

/**
 * A hidden field with a random token, for a form that must run only once.
 * @param sent a form that may have run and is shown again: it keeps its token
 */
export function submitOnceField(sent?: Form): Html {
  const token = sent?.get(FIELD) ?? randomBytes(12).toString('base64url');
  return html`<input type="hidden" name="${FIELD}" value="${token}" />`;
}

/**
 * Identifies a form by its token and values; undefined for a form without a token. The values count, because people go back in the
 * browser and change the form for the next record. Lets other requests run in between.
 */
export async function submissionDigest({ get, entries }: Form): Promise<string | undefined> {
  if (get(FIELD) === undefined) return undefined;
  const hash = createHash('sha256');
  let hashed = 0;
  for (const text of entries.filter(([name]) => !IGNORED_FIELDS.has(name)).flat()) {
    hash.update(`${text.length};`);
    hashed += TEXT_COST;
    for (let at = 0; at < text.length; at += PIECE) {
      const piece = text.slice(at, at + PIECE);
      // UTF-16, because a piece may end between two surrogates.
      hash.update(piece, 'utf16le');
      hashed += piece.length;
      if (hashed < PIECE) continue;
      await setImmediate();
      hashed = 0;
    }
  }
  return hash.digest('base64url');
}

/** The caller with a batch, which is the same if the form is sent again. */
export async function inBatchOf({ token }: AdminContext, caller: Caller, form: Form): Promise<Caller> {
  const digest = await submissionDigest(form);
  return inBatch(caller, digest && signature(token, `batch ${digest}`).slice(0, 12));
}

/** A form that was carried out before, with what was noted of it. */
class SubmittedBefore extends Error {
  readonly result: string;
  constructor(result: string) {
    super('the form was sent before');
    this.result = result;
  }
}

/** What a transaction that carries out a form does first, and at its end with the result. */
export interface Once {
  readonly begin: (transaction: Transaction) => Promise<void>;
  readonly end: (transaction: Transaction, result: string) => Promise<void>;
}

/** Carries out a form once, in a transaction of `work`. A form that is sent again returns the result of the first time. */
export async function onceOnly(
  { sessions, token }: AdminContext,
  form: Form,
  work: (once: Once) => Promise<string>,
): Promise<string> {
  const digest = await submissionDigest(form);
  try {
    return await work({
      async begin(transaction) {
        const earlier = digest && (await sessions.submittedResult(transaction, token, digest));
        if (earlier !== undefined) throw new SubmittedBefore(earlier);
      },
      async end(transaction, result) {
        if (digest !== undefined) await sessions.noteResult(transaction, token, digest, result);
      },
    });
  } catch (error) {
    if (error instanceof SubmittedBefore) return error.result;
    throw error;
  }
}

/**
 * Saves the record of a form once, in a transaction. A form that is sent again returns the record that it saved the first time.
 * @param save saves the record with these operations, and returns its key
 */
export async function saveOnce(
  context: AdminContext,
  form: Form,
  save: (operations: Operations, transaction: Transaction) => Promise<{ readonly id: string }>,
): Promise<{ readonly id: string; readonly isRepeated: boolean }> {
  let isRepeated = true;
  const id = await onceOnly(context, form, (once) =>
    context.inTransaction(async (operations, transaction) => {
      await once.begin(transaction);
      isRepeated = false;
      const saved = await checkedAtEnd(transaction, () => save(operations, transaction));
      await once.end(transaction, saved.id);
      return saved.id;
    }),
  );
  return { id, isRepeated };
}
