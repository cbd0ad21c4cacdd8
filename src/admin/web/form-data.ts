// Reads submitted forms, within limits of size.
import type { Settings } from '../../config.ts';
import { Problem } from '../../errors.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import { readMultipart, tooManyFields } from '../../http/message/multipart.ts';
import { essenceOf } from '../../http/message/text-decoding.ts';
import { decodeForm } from '../../query/parse/grammar.ts';
import { LONGEST_FORM } from '../../resources/records/admin-listing.ts';
import { t } from './language.ts';

/** The fields of a submitted form, in its order. */
export interface Form {
  readonly get: (name: string) => string | undefined;
  readonly all: (name: string) => readonly string[];
  readonly entries: readonly (readonly [name: string, value: string])[];
}

/** The fields for passwords and codes. Their values are never stored and never sent back to the browser. */
export const PASSWORD_FIELDS = ['_password', '_repeat', '_current', '_code'] as const;
export type PasswordField = (typeof PASSWORD_FIELDS)[number];

/** The key of a record as the value of a field. Browsers send each line break of a value as CR LF. */
export const fieldOfKey = (key: string): string => key.replace(/[%\r\n]/g, encodeURIComponent);

/** The key of which `fieldOfKey` has made this value. */
export const keyOfField = (value: string): string => value.replace(/%(?:25|0D|0A)/g, decodeURIComponent);

/** Builds a form from its entries. */
export function createForm(entries: Form['entries']): Form {
  const values = new Map<string, string[]>();
  for (const [name, value] of entries) {
    const known = values.get(name);
    if (known) known.push(value);
    else values.set(name, [value]);
  }
  return { entries, get: (name) => values.get(name)?.[0], all: (name) => values.get(name) ?? [] };
}

/** The largest form that is accepted. */
export interface FormLimit {
  readonly bytes: number;
  readonly fields: number;
  /** The field of a file in any encoding: each character of its value is a byte (Latin-1). */
  readonly file?: string;
}

/** A table has at most 1,600 columns, but a page of a list can have thousands of records to select. */
const MAX_FIELDS = 20_000;

/** The limit without a session. */
export const ANONYMOUS_LIMIT: FormLimit = { bytes: 65_536, fields: 2000 };

/** The limit of the login form, which may carry such a form as a signed text. */
export const LOGIN_LIMIT: FormLimit = { bytes: 147_456, fields: 2000 };

/** Bytes of everything but long values: names, digests, tokens and short values. */
const OVERHEAD = 65_536;

/**
 * The limit with a session: every form that a page shows can be sent back. Form encoding takes up to three bytes for one byte of
 * text and six for a line break. A record's form holds at most `LONGEST_FORM` bytes of text.
 */
export const formLimit = ({ maxBody }: Pick<Settings, 'maxBody'>): FormLimit => ({
  bytes: Math.max(3 * maxBody, 6 * Math.min(maxBody, LONGEST_FORM) + OVERHEAD),
  fields: MAX_FIELDS,
});

const isUsable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/**
 * Reads a form, multipart or URL-encoded.
 * @throws Problem 415, 413, 400
 */
export async function readForm(request: ApiRequest, { bytes, fields, file }: FormLimit): Promise<Form> {
  const contentType = request.headers['content-type'] ?? '';
  const essence = essenceOf(contentType);
  if (essence === 'multipart/form-data') {
    const body = await request.body(bytes);
    const yieldIfDue = request.requester.workInTurns();
    return createForm(await readMultipart(body, contentType, fields, yieldIfDue, { raw: file }));
  }
  if (essence !== 'application/x-www-form-urlencoded')
    throw new Problem(
      415,
      t('wrongContentType', { type: essence === '' ? t('none') : essence.slice(0, 100) }),
    );
  const decoded = decodeForm((await request.body(bytes)).toString('latin1'), fields);
  if (!decoded) throw tooManyFields(fields);
  return createForm(
    decoded.map(({ name, value }) => {
      if (name === undefined || value === undefined || !isUsable(name) || !isUsable(value))
        throw new Problem(400, t('formNotUtf8'));
      return [name, name === file ? Buffer.from(value).toString('latin1') : value] as const;
    }),
  );
}
