// Requests that are repeated with the same Idempotency-Key: what was written then, if the caller may still read it.
import type { Database } from '../../db/connection/database.ts';
import { Problem } from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import type { Author } from '../../query/statements/history-sql.ts';
import {
  keptStatement,
  type Action,
  type KeptRecord,
  type RequestKey,
} from '../../query/statements/system-statements.ts';
import { CallerChanged } from '../access/access.ts';
import type { ResourceView } from '../access/resource-view.ts';
import { findRecord, recordResult } from './read-record.ts';

/** What the answer to a write shows of a record: the digest of the format, which the ETag has, and the names of the columns. */
export const shownBy = ({ outputDigest, output }: ResourceView): string =>
  [outputDigest, ...output.map(({ key }) => key)].join(' ');

/** What the answer to a repeated request is made of. Versions are as clients see them. */
export interface RepeatedRequest {
  readonly action: Action;
  readonly records: readonly KeptRecord[];
}

/**
 * What an earlier request with this key has written; undefined if there was none. Only a caller who may still read the answer gets it:
 * its columns, and where rules say which records exist for the caller, the records as well. If the rules hide single values, these are
 * as they are now.
 * @throws CallerChanged; Problem 422 if it was another request, 403 if the caller may no longer read the answer
 */
export async function repeatedRequest(
  database: Pick<Database, 'run'>,
  resource: ResourceView,
  key: RequestKey,
  { precondition }: Author,
): Promise<RepeatedRequest | undefined> {
  const { holds, answer } = await database.run(keptStatement(key, precondition), 'write');
  if (!holds) throw new CallerChanged();
  if (!answer) return undefined;
  if (answer.request !== key.request) throw new Problem(422, messageOf('otherRequest'));
  const { action } = answer;
  const { model, output, isReadable, visibility, hasIdentity, versionCipher } = resource;
  const [outputDigest = '', ...columns] = answer.shown.split(' ');
  const hidden = new Problem(403, messageOf('answerHidden'));
  if (action !== 'delete' && !columns.every((name) => output.some((column) => column.key === name)))
    throw hidden;
  const rows = visibility.rows(model);
  const mustFind = rows !== undefined || (isReadable && hasIdentity);
  const kept = async (record: KeptRecord): Promise<KeptRecord> => {
    const present = mustFind ? await findRecord(database, resource, record.id) : undefined;
    if (mustFind && !present) throw hidden;
    const shown = present && rows?.columns ? present : recordResult(record, { outputDigest, versionCipher });
    return { ...shown, id: record.id };
  };
  return { action, records: await Promise.all(answer.records.map(kept)) };
}
