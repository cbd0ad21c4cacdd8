// The types of the panels on the admin area's start page.

/** A parameter's value. PostgreSQL converts it to the type that the statement needs. */
export type PanelValue = string | number | boolean | null;

export interface PanelContext {
  /**
   * Runs one read-only statement, with `$1`, `$2` and so on for its parameters. Each row has its values by column name. Values
   * are texts as PostgreSQL writes them, or null.
   */
  readonly query: (
    statement: string,
    values?: readonly PanelValue[],
  ) => Promise<Record<string, string | null>[]>;
  /** Aborts when no client waits for the panel, or when it has taken too long. */
  readonly signal: AbortSignal;
}

export interface PanelTable {
  readonly columns: readonly string[];
  /** At most 100 rows, each with one cell per column. */
  readonly rows: readonly (readonly (string | number | boolean | null)[])[];
}

export interface PanelSeries {
  /** At most 100 points, drawn in this order. */
  readonly series: readonly { readonly label: string; readonly value: number }[];
  /** The unit of the values: `EUR`. */
  readonly unit?: string;
  /** Bars when absent. */
  readonly kind?: 'bar' | 'line';
}

export type PanelContent = number | string | PanelTable | PanelSeries;

/** A part of the admin area's start page, exported by a registry file (see docs/configuring-admin.md). */
export interface Panel {
  readonly title: string;
  /** An explanation below the title. */
  readonly text?: string;
  readonly load: (context: PanelContext) => Promise<PanelContent>;
}
