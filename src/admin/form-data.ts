import type { Settings } from '../config.ts';
import { Problem } from '../errors.ts';
import type { ApiRequest } from '../http/message.ts';
import { readMultipart } from '../http/multipart.ts';
import { essenceOf } from '../http/text.ts';
import { decodeForm } from '../query/grammar.ts';

/** The fields of a form that was sent, in its order. */
export interface Form {
  readonly get: (name: string) => string | undefined;
  readonly all: (name: string) => readonly string[];
  readonly entries: readonly (readonly [name: string, value: string])[];
}

/** A form of fields that did not come with the request itself. */
export function createForm(entries: Form['entries']): Form {
  return {
    entries,
    get: (name) => entries.find(([key]) => key === name)?.[1],
    all: (name) => entries.filter(([key]) => key === name).map(([, value]) => value),
  };
}

/** Bytes of a form: a byte of a text that is no plain letter is sent as three. */
export const formLimit = ({ maxBody }: Pick<Settings, 'maxBody'>): number => 3 * maxBody;

const isUsable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/**
 * Reads a form in either of the forms that browsers send.
 * @param limit bytes
 * @throws Problem 415, 413, 400
 */
export async function readForm(request: ApiRequest, limit: number): Promise<Form> {
  const contentType = request.headers['content-type'] ?? '';
  const essence = essenceOf(contentType);
  if (essence === 'multipart/form-data') {
    return createForm(readMultipart(await request.body(limit), contentType));
  }
  if (essence !== 'application/x-www-form-urlencoded') throw new Problem(415, 'The body must be a form.');
  const fields = decodeForm((await request.body(limit)).toString('latin1'));
  return createForm(
    fields.map(({ name, value }) => {
      if (name === undefined || value === undefined || !isUsable(name) || !isUsable(value))
        throw new Problem(400, 'The form has a field that is not UTF-8.');
      return [name, value] as const;
    }),
  );
}
