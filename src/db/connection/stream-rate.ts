// Measures how fast the client of a stream takes its records.

/** A stream is slow if its client took fewer bytes than this in the latest seconds. Bytes in system buffers count as taken. */
const SLOW = { bytesPerSecond: 64 * 1024, seconds: 2 };
/** Batches within this time (milliseconds) are counted together, so that the list stays short. */
const MERGED = 100;

export interface StreamRate {
  /** Records that the stream has got its slot. How long it has waited for that says nothing about its client. */
  readonly begin: () => void;
  /** Records that the client was sent some bytes and must take them now. */
  readonly beginWait: (bytes: number) => void;
  /** Records that the client has room for more. */
  readonly endWait: () => void;
  /** Whether the stream waits for its client, which has taken little lately. */
  readonly isSlow: () => boolean;
}

export function watchRate(): StreamRate {
  let sent: { readonly at: number; readonly bytes: number }[] = [];
  let isWaiting = false;
  let begun = Infinity;
  const window = SLOW.seconds * 1000;
  const forgetBefore = (from: number): void => {
    sent = sent.filter(({ at }) => at >= from);
  };
  return {
    begin: () => {
      begun = performance.now();
    },
    beginWait: (bytes) => {
      isWaiting = true;
      const now = performance.now();
      if (sent.length > 0 && (sent[0]?.at ?? now) < now - window) forgetBefore(now - window);
      const last = sent.at(-1);
      if (last && now - last.at < MERGED) sent[sent.length - 1] = { at: last.at, bytes: last.bytes + bytes };
      else sent.push({ at: now, bytes });
    },
    endWait: () => {
      isWaiting = false;
    },
    isSlow: () => {
      const from = performance.now() - window;
      forgetBefore(from);
      const bytes = sent.reduce((sum, one) => sum + one.bytes, 0);
      return isWaiting && begun < from && bytes < SLOW.bytesPerSecond * SLOW.seconds;
    },
  };
}
