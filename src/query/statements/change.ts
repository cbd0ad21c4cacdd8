import type { Column } from '../../db/schema/model.ts';

/** A new value of a column, as text for the database. */
export interface Change {
  readonly column: Column;
  /**
   * The value. For a password, the salted digest of the text if that may be the stored hash itself, else null; `hash` has the
   * new value.
   */
  readonly value: string | null;
  /** A password's new hash. */
  readonly hash?: string;
}
