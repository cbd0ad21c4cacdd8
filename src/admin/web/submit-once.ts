// Processes a form only once, even if it is sent twice, for instance by a double click.
import { createHash, randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { CHECK_AT_ONCE, type Transaction } from '../../db/connection/transactions.ts';
import type { Operations } from '../../resources/records/operations.ts';
import type { AdminContext } from './admin-context.ts';
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

/** A form that was carried out before, with what was noted of it. */
export class SubmittedBefore extends Error {
  readonly result: string;
  constructor(result: string) {
    super('the form was sent before');
    this.result = result;
  }
}

/**
 * Carries out a form once, in a transaction.
 * @returns what begins the transaction, and what notes the result at its end
 * @throws SubmittedBefore from `begin`
 */
export async function onceOnly({ sessions, token }: AdminContext, form: Form) {
  const digest = await submissionDigest(form);
  return {
    begin: async (transaction: Transaction): Promise<void> => {
      const earlier = digest && (await sessions.submittedResult(transaction, token, digest));
      if (earlier !== undefined) throw new SubmittedBefore(earlier);
    },
    end: async (transaction: Transaction, result: string): Promise<void> => {
      if (digest !== undefined) await sessions.noteResult(transaction, token, digest, result);
    },
  };
}

/**
 * Saves the record of a form once, in a transaction. A form that is sent again returns the record that it saved the first time.
 * @param save saves the record with these operations, and returns its key
 */
export async function saveOnce(
  { inTransaction, sessions, token }: AdminContext,
  form: Form,
  save: (operations: Operations, transaction: Transaction) => Promise<{ readonly id: string }>,
): Promise<{ readonly id: string; readonly isRepeated: boolean }> {
  const digest = await submissionDigest(form);
  return inTransaction(async (operations, transaction) => {
    const earlier =
      digest === undefined ? undefined : await sessions.submittedResult(transaction, token, digest);
    if (earlier !== undefined) return { id: earlier, isRepeated: true };
    // The operation explains the error of a deferred constraint, which the commit would throw after it.
    await transaction.send(CHECK_AT_ONCE);
    const { id } = await save(operations, transaction);
    if (digest !== undefined) await sessions.noteResult(transaction, token, digest, id);
    return { id, isRepeated: false };
  });
}
