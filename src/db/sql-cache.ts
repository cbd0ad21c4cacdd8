// Keeps the SQL of statements by shape, so that a request only binds values.
import { createTextCaches, type TextCache } from './text-cache.ts';

/** @see TextCache: the key is the shape of a statement, which is everything that its SQL depends on, but no values. */
export type SqlCache = TextCache;

/** Characters of the SQL of the whole process. */
const MAX_SIZE = 2 * 1024 * 1024;

export const createSqlCache: () => SqlCache = createTextCaches(MAX_SIZE);
