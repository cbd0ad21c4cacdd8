// What one axis of `npm run bench:scale` measures and how it is shown.
import type { Measurement } from '../report.ts';
import type { Stage } from './stage.ts';

/** What one kind of request costs at one place of an axis: medians of some rounds. */
export interface Point extends Omit<Measurement, 'row' | 'server' | 'generatorCpu'> {
  readonly x: number;
  readonly request: string;
}

export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Plot {
  /** Part of the file's name. */
  readonly name: string;
  readonly title: string;
  readonly xLabel: string;
  readonly lines: readonly Line[];
}

export interface Table {
  readonly head: readonly string[];
  readonly body: readonly (readonly string[])[];
}

export interface Findings {
  readonly points: readonly Point[];
  /** What is known of each place besides the cost of requests, such as memory. */
  readonly facts?: Table;
  readonly plots?: readonly Plot[];
  /** Sentences about what was left out. */
  readonly notes?: readonly string[];
}

export interface Axis {
  readonly name: string;
  readonly title: string;
  /** The name of the axis in tables and plots. */
  readonly unit: string;
  /** What is measured, in sentences. */
  readonly text: string;
  readonly run: (stage: Stage) => Promise<Findings>;
}
