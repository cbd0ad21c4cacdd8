/** How many shapes of statements are remembered, and how many of them are prepared. */
const MAX_SHAPES = 500;
const MAX_PREPARED = 200;
/** From here on (milliseconds) a shape is costly. */
export const COSTLY = 150;
/** Milliseconds after which a read that is not known to be costly counts as slow. */
export const OVERRUN = 300;
/** Below this (milliseconds, of the whole work that a plan could do) a read may run beside others of its client at once. */
const SAFE = 50;
/** What PostgreSQL's cost unit may take (milliseconds). A high guess, as it only holds until there is a measurement. */
const COST_UNIT = 0.02;
/** How much of an earlier measurement remains after the next, smaller one. */
const REMEMBERED = 0.8;

/** What is known of the statements with one SQL text. */
export interface Shape {
  readonly text: string;
  /** Milliseconds, or undefined while neither an estimate nor a measurement exists. */
  cost: number | undefined;
  /** Whether a statement of this shape was ever run to its end, or cannot take long. */
  isProven: boolean;
  uses: number;
}

/** Remembers what statements have cost, and chooses those worth preparing. The least recently used are forgotten first. */
export class Shapes {
  readonly #shapes = new Map<string, Shape>();
  readonly #prepared = new Set<string>();

  /** The shape of a statement, which counts as used. */
  use(text: string): Shape {
    const shape = this.#shapes.get(text) ?? { text, cost: undefined, isProven: false, uses: 0 };
    shape.uses += 1;
    this.#shapes.delete(text);
    this.#shapes.set(text, shape);
    if (this.#shapes.size > MAX_SHAPES) removeOldest(this.#shapes);
    return shape;
  }

  /** Whether a shape is prepared: from its second use on, so that a statement nobody repeats evicts none. */
  prepare({ text, uses }: Shape): boolean {
    if (!this.#prepared.delete(text)) {
      if (uses < 2) return false;
      if (this.#prepared.size >= MAX_PREPARED) removeOldest(this.#prepared);
    }
    this.#prepared.add(text);
    return true;
  }

  /**
   * Notes what a statement has cost (milliseconds). A costly one is remembered for several cheaper ones. One that was canceled
   * or failed can only show that the shape costs more than was known.
   */
  measure(shape: Shape, milliseconds: number, isComplete: boolean): void {
    shape.cost = Math.max(milliseconds, (shape.cost ?? 0) * (isComplete ? REMEMBERED : 1));
    shape.isProven ||= isComplete;
  }
}

/**
 * The class of a read: `slow` gets the narrow share of the costly ones, `trial` is for those that may cost much more than
 * PostgreSQL expects.
 */
export function classify({ cost, isProven }: Shape): 'read' | 'trial' | 'slow' {
  if (cost === undefined || isProven) return (cost ?? 0) >= COSTLY ? 'slow' : 'read';
  return cost >= COSTLY ? 'slow' : 'trial';
}

function removeOldest(collection: Map<string, unknown> | Set<string>): void {
  const oldest = collection.keys().next();
  if (!oldest.done) collection.delete(oldest.value);
}

interface Plan {
  readonly 'Total Cost'?: number;
  readonly Plans?: readonly Plan[];
}

/** The highest cost of a node: of all rows that it could read, where the plan expects to find enough after a few. */
const highestCost = (plan: Plan): number =>
  Math.max(plan['Total Cost'] ?? 0, ...(plan.Plans ?? []).map(highestCost));

/** Notes what PostgreSQL's planner expects of a shape, from the JSON of EXPLAIN. */
export function noteEstimate(shape: Shape, json: string): void {
  const [first] = JSON.parse(json) as { Plan?: Plan }[];
  const plan = first?.Plan ?? {};
  shape.cost = (plan['Total Cost'] ?? 0) * COST_UNIT;
  shape.isProven = highestCost(plan) * COST_UNIT < SAFE;
}
