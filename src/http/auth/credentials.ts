// Parses the `Authorization` header.
import { decodeUtf8 } from '../message/text-decoding.ts';

export interface Credentials {
  readonly name: string;
  readonly password: string;
}

const BASIC = /^basic +([A-Za-z0-9+/]+={0,2})$/i;
const BEARER = /^bearer(?: +(.*))?$/i;

/** The token of a Bearer `Authorization` header, whatever it is. @returns undefined for other headers */
export function parseBearer(header: string): string | undefined {
  const match = BEARER.exec(header);
  return match ? (match[1] ?? '') : undefined;
}

/** Parses the name and password of a Basic `Authorization` header. @returns undefined if it is malformed */
export function parseBasic(header: string): Credentials | undefined {
  const payload = BASIC.exec(header.trim())?.[1];
  if (payload === undefined) return undefined;
  const bytes = Buffer.from(payload, 'base64');
  if (bytes.toString('base64') !== payload) return undefined; // Node also accepts malformed base64.
  const text = decodeUtf8(bytes);
  if (text === undefined) return undefined;
  const colon = text.indexOf(':');
  if (colon < 0 || text.includes('\0')) return undefined;
  return { name: text.slice(0, colon), password: text.slice(colon + 1) };
}
