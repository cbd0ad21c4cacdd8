/** Adds to a count; a count of 0 is removed, so that the map does not grow. */
export function increment<Key>(counts: Map<Key, number>, key: Key, by = 1): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
