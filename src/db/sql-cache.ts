// Keeps the SQL of statements by shape, so that a request only binds values.

/** Maximum characters of one generation of texts, for the whole process: clients can cause any number of shapes. */
const MAX_SIZE = 2 * 1024 * 1024;

/** The texts used in this generation, and those of the generation before it. */
let recent = new Map<string, string>();
let older = new Map<string, string>();
let size = 0;
let caches = 0;

/**
 * Finds the SQL of a shape, or builds and keeps it.
 * @param shape everything that the SQL depends on, but no values
 */
export type SqlCache = (shape: string, build: () => string) => string;

/** A cache whose shapes are separate from those of other caches. All caches share one limit. */
export function createSqlCache(): SqlCache {
  caches += 1;
  const prefix = `${caches} `;
  return (shape, build) => {
    const key = prefix + shape;
    const known = recent.get(key);
    if (known !== undefined) return known;
    const text = older.get(key) ?? build();
    size += key.length + text.length;
    if (size > MAX_SIZE) {
      older = recent;
      recent = new Map();
      size = key.length + text.length;
    }
    recent.set(key, text);
    return text;
  };
}
