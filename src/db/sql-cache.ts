// Keeps the SQL of statements, so that a request only binds values.
import { createTextCaches, type TextCache } from './text-cache.ts';

/** @see TextCache: the key is everything that the SQL of a statement depends on, but no values. */
export type SqlCache = TextCache;

/** Characters of the SQL of the whole process. */
const MAX_SIZE = 2 * 1024 * 1024;

export const createSqlCache: () => SqlCache = createTextCaches(MAX_SIZE);
