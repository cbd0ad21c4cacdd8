// The records that a bulk action, a deletion or an export applies to, and their number.

/** The records of a resource that match a query and a search; with `ids`, only those of them with these keys. */
export interface Selection {
  /** A query as the API takes it: percent-encoded, without `?`. */
  readonly query: string;
  /** Words separated by spaces. */
  readonly search: string;
  readonly ids?: readonly string[];
}

/**
 * A number of records: exact up to a limit. Above it PostgreSQL's estimate, or only the limit where an estimate would reveal hidden
 * records.
 */
export interface Count {
  readonly count: number;
  readonly precision: 'exact' | 'estimate' | 'exceeded';
}
