/** Some records of a resource: those that a query of the API's grammar and a search match, or of them those with these keys. */
export interface Selection {
  /** Percent-encoded, without `?`. */
  readonly query: string;
  /** Words, separated by spaces. */
  readonly search: string;
  readonly ids?: readonly string[];
}

/** How many records there are; past what can be counted in no time, PostgreSQL's own guess. */
export interface Count {
  readonly count: number;
  readonly isExact: boolean;
}
