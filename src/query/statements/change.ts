// A new value of a column, in the form that the writing statements need.
import type { Column } from '../../db/schema/model.ts';

export interface Change {
  readonly column: Column;
  /**
   * The value as text. For a password, whose new value is `hash`: the salted digest of the sent text if that may be the stored
   * hash, else null.
   */
  readonly value: string | null;
  /** A password's new hash. */
  readonly hash?: string;
}
