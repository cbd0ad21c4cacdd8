import { Problem } from '../errors.ts';

/** Foreign key violation; since PostgreSQL 18 a RESTRICT has a code of its own. */
export const REFERRED: ReadonlySet<string> = new Set(['23503', '23001']);

/** A deletion that the database refuses, because other records refer to the record. */
export class Referred extends Problem {
  /** Whose records those are; empty where the registry does not know their table. */
  readonly models: readonly string[];

  constructor(detail: string, models: readonly string[]) {
    super(409, detail);
    this.models = models;
  }
}
