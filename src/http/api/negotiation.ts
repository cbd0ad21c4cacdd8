// Chooses the format of a response by the `Accept` header.
import { Problem } from '../../errors.ts';
import type { ApiRequest } from '../message/message.ts';
import { isAdminPath, isHealthCheck } from '../message/request-head.ts';
import { messageOf } from '../../messages.ts';

/** The representations of records, chosen by the `Accept` header (RFC 9110, section 12.5.1). */
export type Format = 'json' | 'html' | 'csv' | 'ndjson';
/** Those of the change feed. */
export type FeedFormat = 'json' | 'ndjson' | 'events';

export const MEDIA_TYPES: Readonly<Record<Format | FeedFormat, string>> = {
  json: 'application/json',
  html: 'text/html',
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
  events: 'text/event-stream',
};

export const COLLECTION_FORMATS: readonly Format[] = ['json', 'html', 'csv', 'ndjson'];
/** The formats of single records and of the index. */
export const RECORD_FORMATS: readonly Format[] = ['json', 'html'];

/** A media range of an `Accept` header, such as `text/csv;q=0.5`, `text/*` or the range of all types. */
interface MediaRange {
  readonly name: string;
  /** From 0 (not acceptable) to 1. */
  readonly quality: number;
}

/**
 * Quoted parameter values, which may hold commas and semicolons. An unclosed quote extends to the end of the header:
 * otherwise every quote in it would be searched again, in quadratic time.
 */
const QUOTED = /"(?:[^"\\]|\\.)*(?:"|\\?$)/g;
const RANGE = /^\s*([\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+)\s*(?:;|$)/;
const WEIGHT = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;

/** The text of the parameter `q`, the first of several; 1 if there is none. */
function weightOf(element: string): string {
  for (const parameter of element.split(';').slice(1)) {
    const [name = '', value = ''] = parameter.split('=', 2);
    if (name.trim().toLowerCase() === 'q') return value.trim();
  }
  return '1';
}

/** The media ranges of an `Accept` header, without malformed elements. Takes linear time. */
export function parseAccept(header: string): MediaRange[] {
  const elements = header.replace(QUOTED, '""').split(',');
  return elements.flatMap((element) => {
    const name = RANGE.exec(element)?.[1]?.toLowerCase();
    const weight = weightOf(element);
    return name === undefined || !WEIGHT.test(weight) ? [] : [{ name, quality: Number(weight) }];
  });
}

/**
 * The quality of a media type, from the most specific range that matches it. Parameters other than `q` are ignored: each
 * type has only one representation.
 */
function qualityOf(type: string, ranges: readonly MediaRange[]): number {
  for (const name of [type, type.replace(/\/.*/, '/*'), '*/*']) {
    const matching = ranges.filter((range) => range.name === name);
    if (matching.length > 0) return Math.max(...matching.map(({ quality }) => quality));
  }
  return 0;
}

/** A longer header counts as malformed: the service parses all of it several times per request. */
const MAX_ACCEPT = 1_024;

/** A fast path: whether `Accept` is missing or too long, or one of the usual values that select JSON. */
const wantsJson = (accept: string | undefined): boolean =>
  accept === undefined ||
  accept.length > MAX_ACCEPT ||
  accept === '*/*' ||
  accept === MEDIA_TYPES.json ||
  accept.startsWith('application/json,'); // without `q` its quality is 1, the highest, and JSON wins ties

/**
 * The format that an `Accept` header asks for; JSON if it is missing or malformed.
 * @param offers the first of several with equal quality wins
 * @returns undefined if the header accepts none of them
 */
function negotiate<F extends Format | FeedFormat>(
  accept: string | undefined,
  offers: readonly (F | 'json')[],
): F | 'json' | undefined {
  if (wantsJson(accept)) return 'json';
  const ranges = parseAccept(accept ?? '');
  if (ranges.length === 0) return 'json';
  let best: F | 'json' | undefined;
  let highest = 0;
  for (const offer of offers) {
    const quality = qualityOf(MEDIA_TYPES[offer], ranges);
    if (quality > highest) {
      best = offer;
      highest = quality;
    }
  }
  return best;
}

/** Whether the response's format depends on `Accept`. True for unknown paths as well: their 404 can be an HTML page. */
export const isNegotiated = ({ method, path }: Pick<ApiRequest, 'method' | 'path'>): boolean =>
  (method === 'GET' || method === 'HEAD') && !isHealthCheck(path) && !isAdminPath(path);

/** Whether the client gets HTML: this decides about errors, caching, and whether a long query waits for a turn. */
export const wantsHtml = (request: Pick<ApiRequest, 'method' | 'path' | 'headers'>): boolean =>
  isNegotiated(request) && negotiate(request.headers.accept, COLLECTION_FORMATS) === 'html';

/** The format that a request asks for. @throws Problem 406 if it accepts none of them */
export function formatOf<F extends Format | FeedFormat>(
  { headers }: Pick<ApiRequest, 'headers'>,
  offers: readonly (F | 'json')[],
): F | 'json' {
  const format = negotiate(headers.accept, offers);
  if (format !== undefined) return format;
  const formats = offers.map((offer) => MEDIA_TYPES[offer]).join(', ');
  throw new Problem(406, messageOf('notAcceptable', { formats }));
}
