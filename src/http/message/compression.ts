// Compresses responses to anonymous clients. With credentials or cookies, the compressed size of a response could reveal secrets
// that it contains beside texts of an attacker (BREACH).
import { pipeline as pipe, Readable, type Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { brotliCompress, constants, createBrotliCompress, createGzip, gzip } from 'node:zlib';
import { piecesOfBytes } from './body-pieces.ts';
import { joinBody, isStreamed, lengthOf, type ApiRequest, type Reply, type WholeBody } from './message.ts';

/** Minimum size (bytes). Compressing smaller responses saves too little. */
const MIN_BYTES = 1_024;
/** Responses that are compressed at the same time. The threads for it also hash passwords, so further ones are sent as they are. */
const MAX_RUNNING = 2;

const TYPES = /^(?:application\/json|application\/x-ndjson|text\/csv)(?:;|$)/;
/** A longer `Accept-Encoding` is ignored: splitting one of 31,000 characters takes a millisecond. */
const MAX_LENGTH = 1_024;
/** The parameters of a coding in `Accept-Encoding` with its weight. */
const WEIGHT = /;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*$/;

const GZIP = { level: 5 };
/** The default quality takes a hundred times as long. */
const BROTLI = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 19 },
};

const brotliAsync = promisify<Buffer | string, typeof BROTLI, Buffer>(brotliCompress);
const gzipAsync = promisify<Buffer | string, typeof GZIP, Buffer>(gzip);

/** Streams are flushed after each chunk, so that a client sees the first records while PostgreSQL looks for the next. */
const CODERS = {
  br: {
    whole: (bytes: Buffer | string): Promise<Buffer> => brotliAsync(bytes, BROTLI),
    stream: (): Transform => createBrotliCompress({ ...BROTLI, flush: constants.BROTLI_OPERATION_FLUSH }),
    parts: (): Transform => createBrotliCompress(BROTLI),
  },
  gzip: {
    whole: (bytes: Buffer | string): Promise<Buffer> => gzipAsync(bytes, GZIP),
    stream: (): Transform => createGzip({ ...GZIP, flush: constants.Z_SYNC_FLUSH }),
    parts: (): Transform => createGzip(GZIP),
  },
} as const;
type Coding = keyof typeof CODERS;

/** The accepted coding with the highest weight; undefined if there is none, or if the client prefers no coding. */
function codingOf(accepted: string): Coding | undefined {
  if (accepted.length > MAX_LENGTH) return undefined;
  const weights = new Map<string, number>();
  for (const element of accepted.toLowerCase().split(',')) {
    const [name = ''] = element.split(';', 1);
    weights.set(name.trim(), Number(name === element ? 1 : (WEIGHT.exec(element)?.[1] ?? 1)));
  }
  const [br = 0, gzip = 0, identity = 0] = ['br', 'gzip', 'identity'].map((name) => weights.get(name));
  if (Math.max(br, gzip) === 0 || Math.max(br, gzip) < identity) return undefined;
  return br >= gzip ? 'br' : 'gzip';
}

const mayCompress = ({ authorization, cookie }: ApiRequest['headers']): boolean =>
  authorization === undefined && cookie === undefined;

/** Whether the response is compressed for clients that accept it, so that it varies with `Accept-Encoding`. */
export function isCompressible({ headers }: ApiRequest, reply: Reply): boolean {
  const type = reply.headers['Content-Type'];
  const isLong = isStreamed(reply) || lengthOf(reply.body) >= MIN_BYTES;
  return (
    mayCompress(headers) && reply.status === 200 && isLong && typeof type === 'string' && TYPES.test(type)
  );
}

let running = 0;

/** The compressed forms of bodies that the service keeps, see `Reply.isKept`. */
const kept = new WeakMap<Buffer, Map<Coding, Promise<Buffer>>>();

/** Compresses a body that the service keeps once for each coding. */
function keptForm(body: Buffer, coding: Coding): Promise<Buffer> {
  const forms = kept.get(body) ?? new Map<Coding, Promise<Buffer>>();
  kept.set(body, forms);
  const made = forms.get(coding) ?? CODERS[coding].whole(body);
  forms.set(coding, made);
  return made;
}

/** The weak form of a tag. */
const weakly = (tag: string): string => (tag.startsWith('W/') ? tag : `W/${tag}`);

/** Gives a 304 the tag of the response that the client has, which is the weak one if that was compressed. */
export function withKnownTag({ headers }: ApiRequest, reply: Reply): Reply {
  const tag = reply.headers['ETag'];
  const accepted = headers['accept-encoding'];
  if (typeof tag !== 'string' || accepted === undefined || !mayCompress(headers)) return reply;
  if (codingOf(String(accepted)) === undefined) return reply;
  const known = headers['if-none-match']?.split(',').map((one) => one.trim()) ?? [];
  if (known.includes(tag) || !known.includes(weakly(tag))) return reply;
  return { ...reply, headers: { ...reply.headers, ETag: weakly(tag) } };
}

/** The headers of a compressed response. Its ETag is weak: the bytes differ from those without compression. */
function codedHeaders({ ETag: tag, ...headers }: Reply['headers'], coding: Coding): Reply['headers'] {
  const weak = typeof tag === 'string' ? { ETag: weakly(tag) } : {};
  return { ...headers, ...weak, 'Content-Encoding': coding };
}

/**
 * Compresses a response that `isCompressible`.
 * @returns undefined to send it as it is: the client accepts no coding, or others are being compressed
 */
export function compress({ headers }: ApiRequest, reply: Reply): Promise<Reply> | Reply | undefined {
  const accepted = headers['accept-encoding'];
  if (accepted === undefined) return undefined;
  const coding = codingOf(String(accepted));
  if (coding === undefined) return undefined;
  const { whole, stream, parts } = CODERS[coding];
  const coded = codedHeaders(reply.headers, coding);
  // The number of streams is limited elsewhere.
  if (isStreamed(reply)) return { ...reply, headers: coded, body: compressed(reply.body, stream()) };
  const { body } = reply;
  if (reply.isKept && Buffer.isBuffer(body))
    return keptForm(body, coding).then((bytes) => ({ ...reply, headers: coded, body: bytes }));
  if (running >= MAX_RUNNING) return undefined;
  running += 1;
  const smaller =
    typeof body === 'string' || Buffer.isBuffer(body) ? whole(body) : compressParts(body, parts);
  return smaller.then((bytes) => ({ ...reply, headers: coded, body: bytes })).finally(() => (running -= 1));
}

async function compressParts(body: readonly Buffer[], coder: () => Transform): Promise<WholeBody> {
  const bytes: Buffer[] = [];
  // Each piece is a job for another thread, and a body has thousands of records and commas.
  await pipeline(Readable.from(piecesOfBytes(body)), coder(), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) bytes.push(chunk);
  });
  return joinBody(bytes);
}

/** The compressed bytes of a stream. Ending it ends the source, also before the first byte. */
function compressed(source: AsyncIterable<Buffer | string>, coder: Transform): AsyncIterable<Buffer> {
  const bytes = coder[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let hasStarted = false;
  const iterator: AsyncIterator<Buffer> = {
    next: () => {
      if (!hasStarted) pipe(source, coder, () => undefined); // the reader gets the error
      hasStarted = true;
      return bytes.next();
    },
    return: async () => {
      coder.destroy();
      await source[Symbol.asyncIterator]().return?.();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}
