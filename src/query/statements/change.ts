// New values of columns and who writes them, in the form that the writing statements need.
import type { Fragment } from '../../db/fragment.ts';
import type { Column } from '../../db/schema/model.ts';

export interface Change {
  readonly column: Column;
  /** The new value as text. For a password, see `hash`. */
  readonly value: string | null;
  /**
   * A password's new hash. `value` is then null. Exception: the sent text may be the stored hash itself. `value` is then a
   * salted digest of the text, and a column with the same digest keeps its hash.
   */
  readonly hash?: string;
}

/** Who writes. */
export interface Author {
  readonly id: string;
  readonly name: string;
  /** SQL condition: the user has not changed since an earlier request. Undefined if this request has read the user. */
  readonly precondition?: Fragment;
}
