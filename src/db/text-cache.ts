// Keeps texts that are made again and again, within a limit.

/**
 * Finds the text of a key, or builds and keeps it.
 * @param key everything that the text depends on
 */
export type TextCache = (key: string, build: () => string) => string;

/**
 * Makes caches whose keys are separate, and which share one limit.
 * @param maxSize characters of one generation of keys and texts: clients can cause any number of them
 */
export function createTextCaches(maxSize: number): () => TextCache {
  /** The texts used in this generation, and those of the generation before it. */
  let recent = new Map<string, string>();
  let older = new Map<string, string>();
  let size = 0;
  let caches = 0;
  return () => {
    caches += 1;
    const prefix = `${caches} `;
    return (given, build) => {
      const key = prefix + given;
      const known = recent.get(key);
      if (known !== undefined) return known;
      const text = older.get(key) ?? build();
      size += key.length + text.length;
      if (size > maxSize) {
        older = recent;
        recent = new Map();
        size = key.length + text.length;
      }
      recent.set(key, text);
      return text;
    };
  };
}
