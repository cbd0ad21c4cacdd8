// New values of columns and who writes them, in the form that the writing statements need.
import type { Fragment } from '../../db/fragment.ts';
import type { Column } from '../../db/schema/model.ts';

export interface Change {
  readonly column: Column;
  /** The new value as text. For a password, see `hash`. */
  readonly value: string | null;
  /**
   * A password's new hash. `value` is then null. Exception: clients may send a record back with its stored hash. If the sent text
   * could be one, `value` is its salted digest, and a row whose stored hash has this digest keeps it.
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
