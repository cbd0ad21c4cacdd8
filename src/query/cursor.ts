// Cursors: the boundary of a page as an encrypted text, and the links from a page to its neighbors.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';
import { createTextCaches, type TextCache } from '../db/text-cache.ts';
import { badQuery, errorOf } from '../errors.ts';
import type { Boundary } from './plan.ts';
import type { Page } from './read.ts';
import { messageOf } from '../messages.ts';

/** Makes and reads the cursors of one list. */
export interface CursorTokens {
  readonly encode: (boundary: Boundary) => string;
  /** @returns undefined for a text that is no cursor of this list */
  readonly decode: (token: string) => Boundary | undefined;
}

/** Maximum number of lists whose tokens are cached: a client that follows the links asks for the same list with each page. */
const MAX_LISTS = 200;
/**
 * Maximum characters of cached tokens and their contents, in one generation (see text-cache.ts). They are cached because a client
 * sends back the cursors of its last page.
 */
const MAX_KEPT = 1024 * 1024;
const MAC_BYTES = 16;
const CIPHER = 'aes-256-ctr';

/**
 * Makes the cursors of lists. They are encrypted, so that the logs of proxies show no values. The initialization vector is an
 * HMAC of the content: equal pages get equal cursors, and `decrypt` recognizes a forged one.
 * @param secret that all processes on the database share
 * @returns the cursors of a list. `context` is what they are bound to: with another one they cannot be read.
 */
export function createCursorTokens(secret: Buffer): (context: string) => CursorTokens {
  const derive = (use: string): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', use, 32)));
  const keys = { mac: derive('vitrine cursor mac'), cipher: derive('vitrine cursor cipher') };
  const createCache = createTextCaches(MAX_KEPT);
  const recent = new Map<string, CursorTokens>();
  return (context) => {
    const known = recent.get(context);
    if (known) return known;
    if (recent.size >= MAX_LISTS) recent.clear();
    const tokens = tokensOf(keys, context, createCache);
    recent.set(context, tokens);
    return tokens;
  };
}

function tokensOf(
  keys: { readonly mac: KeyObject; readonly cipher: KeyObject },
  context: string,
  createCache: () => TextCache,
): CursorTokens {
  const [encoded, decoded] = [createCache(), createCache()];
  const bound = createHmac('sha256', keys.mac).update(context).digest();
  const mac = (content: Buffer): Buffer =>
    createHmac('sha256', keys.mac).update(bound).update(content).digest().subarray(0, MAC_BYTES);

  function encrypt(text: string): string {
    const content = Buffer.from(text);
    const vector = mac(content);
    const cipher = createCipheriv(CIPHER, keys.cipher, vector);
    // A stream cipher holds nothing back, so that `final`, which is slow, is not needed.
    return Buffer.concat([vector, cipher.update(content)]).toString('base64url');
  }

  /** @returns an empty text for one that `encrypt` has not made */
  function decrypt(token: string): string {
    const bytes = Buffer.from(token, 'base64url');
    if (bytes.length <= MAC_BYTES || bytes.toString('base64url') !== token) return '';
    const vector = bytes.subarray(0, MAC_BYTES);
    const decipher = createDecipheriv(CIPHER, keys.cipher, vector);
    const content = decipher.update(bytes.subarray(MAC_BYTES));
    return timingSafeEqual(vector, mac(content)) ? content.toString() : '';
  }

  return {
    encode({ keys: values, isBackward, isInclusive }) {
      const content = JSON.stringify([isBackward, isInclusive, ...values]);
      const token = encoded(content, () => encrypt(content));
      decoded(token, () => content);
      return token;
    },

    decode(token) {
      const content = decoded(token, () => decrypt(token));
      if (content === '') return undefined;
      type Content = [isBackward: boolean, isInclusive: boolean, ...values: (string | null)[]];
      const [isBackward, isInclusive, ...values] = JSON.parse(content) as Content;
      return { keys: values, isBackward, isInclusive };
    },
  };
}

/** The paging parameters of the neighbors of a page, such as `page=2`; undefined where there is no such page. */
export interface Neighbors {
  readonly next: string | undefined;
  readonly previous: string | undefined;
}

/**
 * @param boundary of the page; null for a page with a number
 * @param number of the page
 * @throws Problem 400 if a link would be too long
 */
export function cursorLinks(
  { firstKeys, lastKeys, hasMore }: Page,
  boundary: Boundary | null | undefined,
  number: bigint,
  encode: (boundary: Boundary) => string,
): Neighbors {
  const link = (keys: Boundary['keys'], isBackward: boolean, isInclusive = false): string => {
    // `pageStatement` leaves out keys that are too long.
    if (keys.length === 0) throw badQuery(errorOf('ordering', messageOf('longBoundary')));
    return `cursor=${encode({ keys, isBackward, isInclusive })}`;
  };
  // The page is empty, so the link back starts at the boundary. It includes the record there if this page excluded it.
  const linkBack = (): string | undefined =>
    boundary ? link(boundary.keys, !boundary.isBackward, !boundary.isInclusive) : undefined;
  const linkBeyond = (keys: Boundary['keys'] | undefined, isBackward: boolean): string | undefined =>
    keys ? link(keys, isBackward) : linkBack();
  if (boundary?.isBackward === true)
    return {
      next: linkBeyond(lastKeys, false),
      previous: hasMore && firstKeys ? link(firstKeys, true) : undefined,
    };
  const before = number > 1n ? `page=${number - 1n}` : undefined;
  const isFirst = !boundary && number === 1n;
  return {
    next: hasMore && lastKeys ? link(lastKeys, false) : undefined,
    previous: isFirst ? undefined : (linkBeyond(firstKeys, true) ?? before),
  };
}
