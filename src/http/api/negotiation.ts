/** The forms that answers come in. */
export type Format = 'json' | 'html' | 'csv' | 'ndjson';

export const MEDIA_TYPES: Readonly<Record<Format, string>> = {
  json: 'application/json',
  html: 'text/html',
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
};

/** A media range of an `Accept` header: `text/csv;q=0.5`, and `text/*` as well as `*` for both halves. */
interface MediaRange {
  readonly name: string;
  /** From 0, which refuses it, to 1. */
  readonly quality: number;
}

/**
 * Values of parameters between quotes, which may hold commas and semicolons. One that does not end goes on to the end of the
 * header: to look for its end again and again would take long.
 */
const QUOTED = /"(?:[^"\\]|\\.)*(?:"|\\?$)/g;
const RANGE = /^\s*([\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+)\s*(?:;|$)/;
const QUALITY = /;\s*q\s*=\s*([^;\s]*)\s*(?:;|$)/i;
const WEIGHT = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;

/** What cannot be read is left out, as if it had not been sent. */
function parseAccept(header: string): MediaRange[] {
  const elements = header.replace(QUOTED, '""').split(',');
  return elements.flatMap((element) => {
    const name = RANGE.exec(element)?.[1]?.toLowerCase();
    const weight = QUALITY.exec(element)?.[1] ?? '1';
    return name === undefined || !WEIGHT.test(weight) ? [] : [{ name, quality: Number(weight) }];
  });
}

/**
 * How much a client wants a media type: what the most specific range that fits it says. Parameters other than `q` make no
 * difference, since there is but one representation of each type.
 */
function qualityOf(type: string, ranges: readonly MediaRange[]): number {
  for (const name of [type, type.replace(/\/.*/, '/*'), '*/*']) {
    const fitting = ranges.filter((range) => range.name === name);
    if (fitting.length > 0) return Math.max(...fitting.map(({ quality }) => quality));
  }
  return 0;
}

/** Whether an `Accept` header, or none, is one of the usual ones that leave nothing but JSON: found without reading it. */
const wantsJson = (accept: string | undefined): boolean =>
  accept === undefined ||
  accept === '*/*' ||
  accept === MEDIA_TYPES.json ||
  accept.startsWith('application/json,'); // first among equals: no weight can be above its own

/**
 * The form that an `Accept` header asks for (RFC 9110, 12.5.1). Without one that can be read it is JSON.
 * @param offers the first one stands where the client has no preference
 * @returns undefined where it refuses all of them
 */
export function negotiate(accept: string | undefined, offers: readonly Format[]): Format | undefined {
  if (wantsJson(accept)) return 'json';
  const ranges = parseAccept(accept ?? '');
  if (ranges.length === 0) return 'json';
  let best: Format | undefined;
  let most = 0;
  for (const offer of offers) {
    const quality = qualityOf(MEDIA_TYPES[offer], ranges);
    if (quality > most) {
      best = offer;
      most = quality;
    }
  }
  return best;
}

/** What there is of a collection; of all other paths the first two alone. */
export const FORMATS: readonly Format[] = ['json', 'html', 'csv', 'ndjson'];
