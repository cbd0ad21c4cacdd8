import type { Settings } from '../../config.ts';
import { Problem } from '../../errors.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import { readMultipartInTurns, tooManyFields } from '../../http/api/multipart.ts';
import { essenceOf } from '../../http/message/text-decoding.ts';
import { decodeForm } from '../../query/parse/grammar.ts';
import { LONGEST_FORM } from '../../resources/records/browsing.ts';

/** The fields of a form that was sent, in its order. */
export interface Form {
  readonly get: (name: string) => string | undefined;
  readonly all: (name: string) => readonly string[];
  readonly entries: readonly (readonly [name: string, value: string])[];
}

/** The fields with passwords. They are neither kept nor sent back to the browser. */
export const PASSWORD_FIELDS: readonly string[] = ['_password', '_repeat', '_current'];

/** A form of fields that did not come with the request itself. */
export function createForm(entries: Form['entries']): Form {
  const values = new Map<string, string[]>();
  for (const [name, value] of entries) {
    const known = values.get(name);
    if (known) known.push(value);
    else values.set(name, [value]);
  }
  return { entries, get: (name) => values.get(name)?.[0], all: (name) => values.get(name) ?? [] };
}

/** How much of a form is read. */
export interface FormLimit {
  readonly bytes: number;
  readonly fields: number;
}

/** Fields of a form: a table has at most 1,600 columns, and a page of a list some thousand records to choose from. */
const MAX_FIELDS = 20_000;

/** Without a session, on every path of the admin area. */
export const ANONYMOUS_LIMIT: FormLimit = { bytes: 65_536, fields: 2000 };

/** Bytes of a form beside its long values: names, marks, tokens and short values. */
const BESIDE = 65_536;

/**
 * With a session: whatever a form holds can be sent back. A byte of a text that is not a plain letter is sent as three, and a line
 * break as six. A record's form has no more than `LONGEST_FORM` of them, whatever `MAX_BODY` is.
 */
export const formLimit = ({ maxBody }: Pick<Settings, 'maxBody'>): FormLimit => ({
  bytes: Math.max(3 * maxBody, 6 * Math.min(maxBody, LONGEST_FORM) + BESIDE),
  fields: MAX_FIELDS,
});

const isUsable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/**
 * Reads a form in either of the forms that browsers send.
 * @throws Problem 415, 413, 400
 */
export async function readForm(request: ApiRequest, { bytes, fields }: FormLimit): Promise<Form> {
  const contentType = request.headers['content-type'] ?? '';
  const essence = essenceOf(contentType);
  if (essence === 'multipart/form-data') {
    return createForm(await readMultipartInTurns(await request.body(bytes), contentType, fields));
  }
  if (essence !== 'application/x-www-form-urlencoded') throw new Problem(415, 'The body must be a form.');
  const decoded = decodeForm((await request.body(bytes)).toString('latin1'), fields);
  if (!decoded) throw tooManyFields(fields);
  return createForm(
    decoded.map(({ name, value }) => {
      if (name === undefined || value === undefined || !isUsable(name) || !isUsable(value))
        throw new Problem(400, 'The form has a field that is not UTF-8.');
      return [name, value] as const;
    }),
  );
}
