import type { Column } from '../../db/schema/model.ts';

/** A new value of a column, as text for the database. */
export interface Change {
  readonly column: Column;
  /** For a password the seal of the text that was sent, where it may be what is stored already, else null: see `hash`. */
  readonly value: string | null;
  /** A password's new hash. */
  readonly hash?: string;
}
