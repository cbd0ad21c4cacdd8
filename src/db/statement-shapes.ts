/** How many shapes of statements are remembered, and how many of them are prepared. */
const MAX_SHAPES = 500;
const MAX_PREPARED = 200;
/** From here on (milliseconds) a shape is costly. */
export const COSTLY = 150;
/** What a shape costs after one costly statement, when it was brief before. */
const NEARLY_COSTLY = 0.9 * COSTLY;
/** Below this (milliseconds, measured) a shape is brief. */
const BRIEF = 10;
/** Milliseconds after which a read that is not known to be costly counts as slow. */
export const OVERRUN = 300;
/** Milliseconds of an attempt: what others have made costly may be brief with the values of this client. */
export const ATTEMPT = 150;
/** From a run of less than this (milliseconds) on, a costly shape counts as varied for a while. */
const QUICK = ATTEMPT / 3;
const VARIED_FOR = 10 * 60_000;
/** Below this (milliseconds, of the whole work that a plan could do) a read may run beside others of its client at once. */
const SAFE = 50;
/** What PostgreSQL's cost unit may take (milliseconds). A high guess, as it only holds until there is a measurement. */
const COST_UNIT = 0.02;
/** How much of an earlier measurement remains after the next, smaller one. */
const REMEMBERED = 0.8;

/** The weight of the newest measurement in the mean. */
const NEWEST = 0.05;

/** What is known of the statements with one SQL text. */
export interface Shape {
  readonly text: string;
  /** Milliseconds, or undefined while neither an estimate nor a measurement exists. */
  cost: number | undefined;
  /** Milliseconds on average, once it was measured: by it the wait for statements of this shape is expected. */
  mean: number | undefined;
  /** Whether the cost is what PostgreSQL expects: the first measurement takes its place. */
  isEstimate: boolean;
  /** Whether a statement of this shape was ever run to its end, or cannot take long. */
  isProven: boolean;
  /** When a statement of it was brief last (milliseconds, as of `performance.now`). */
  quickAt: number;
  uses: number;
  /** When it was used last, in uses of any shape. */
  latest: number;
  isPrepared: boolean;
  /** Whether it is one of the program's own, which are few: it is never forgotten. */
  isFixed: boolean;
  /** Whether another one took its place. */
  isForgotten: boolean;
  /** Of a `quick` statement: whether the last one was slow. */
  wasSlow: boolean;
  /** Of a page: when one had a large answer (milliseconds, as of `performance.now`). */
  largeAt: number;
  /** Of a page: whether the answers were small so far. */
  isSmall: boolean;
  /** Of a record: the values of the statements whose answers were large. */
  large: Set<string> | undefined;
}

/** A shape of which nothing is known. */
export const newShape = (text: string, isFixed = false): Shape => ({
  text,
  isFixed,
  cost: undefined,
  mean: undefined,
  isEstimate: false,
  isProven: false,
  quickAt: -Infinity,
  uses: 0,
  latest: 0,
  isPrepared: false,
  isForgotten: false,
  wasSlow: false,
  largeAt: -Infinity,
  isSmall: false,
  large: undefined,
});

/** Remembers what statements have cost, and chooses those worth preparing. The least recently used are forgotten first. */
export class Shapes {
  /** By the length of the text: to compare texts is faster than to compute a hash of each, as a map of texts would. */
  readonly #shapes = new Map<number, Shape[]>();
  #size = 0;
  #uses = 0;
  #prepared = 0;

  /** The shape of a statement, which counts as used. */
  use(text: string, isFixed = false): Shape {
    const shape = this.#find(text) ?? this.#add(text, isFixed);
    shape.uses += 1;
    shape.latest = this.#uses += 1;
    return shape;
  }

  #find(text: string): Shape | undefined {
    return this.#shapes.get(text.length)?.find((shape) => shape.text === text);
  }

  #add(text: string, isFixed: boolean): Shape {
    if (this.#size >= MAX_SHAPES) this.#forgetOldest();
    const shape = newShape(text, isFixed);
    const sameLength = this.#shapes.get(text.length);
    if (sameLength) sameLength.push(shape);
    else this.#shapes.set(text.length, [shape]);
    this.#size += 1;
    return shape;
  }

  /** Shapes that were used once go first: anybody can make any number of those, without ever running one. */
  #forgetOldest(): void {
    const oldest =
      this.#oldest(({ isFixed, uses }) => !isFixed && uses < 2) ?? this.#oldest(({ isFixed }) => !isFixed);
    if (!oldest) return;
    const { length } = oldest.text;
    const left = this.#shapes.get(length)?.filter((shape) => shape !== oldest) ?? [];
    if (left.length > 0) this.#shapes.set(length, left);
    else this.#shapes.delete(length);
    this.#size -= 1;
    if (oldest.isPrepared) this.#prepared -= 1;
    oldest.isForgotten = true;
  }

  /** Finding it costs more than keeping the shapes in order would, but only where a new one comes. */
  #oldest(isWanted: (shape: Shape) => boolean): Shape | undefined {
    let oldest: Shape | undefined;
    for (const shapes of this.#shapes.values())
      for (const shape of shapes)
        if (isWanted(shape) && shape.latest < (oldest?.latest ?? Infinity)) oldest = shape;
    return oldest;
  }

  /** Whether a shape is prepared: from its second use on, so that a statement nobody repeats evicts none. */
  prepare(shape: Shape): boolean {
    if (shape.isPrepared || shape.uses < 2 || shape.isForgotten) return shape.isPrepared;
    const evicted = this.#prepared >= MAX_PREPARED ? this.#oldest(({ isPrepared }) => isPrepared) : undefined;
    if (evicted) evicted.isPrepared = false;
    else this.#prepared += 1;
    shape.isPrepared = true;
    return true;
  }

  /**
   * Notes what a statement has cost (milliseconds). A costly one is remembered for several cheaper ones; the first one of a brief
   * shape may have been a pause of the machine. One that was canceled or failed can only show that the shape costs more than was
   * known.
   */
  measure(shape: Shape, milliseconds: number, isComplete: boolean): void {
    const { mean = milliseconds } = shape;
    if (isComplete && milliseconds < QUICK) shape.quickAt = performance.now();
    if (isComplete || milliseconds > mean) shape.mean = mean + (milliseconds - mean) * NEWEST;
    if (isComplete && milliseconds >= COSTLY && milliseconds < OVERRUN && classify(shape) === 'brief') {
      shape.cost = NEARLY_COSTLY;
      return;
    }
    const before = isComplete && shape.isEstimate ? 0 : (shape.cost ?? 0);
    shape.cost = Math.max(milliseconds, before * (isComplete ? REMEMBERED : 1));
    shape.isEstimate &&= !isComplete && milliseconds < COSTLY;
    shape.isProven ||= isComplete;
  }
}

/**
 * The class of a read: `slow` gets the narrow share of the costly ones, `trial` is for those that may cost much more than
 * PostgreSQL expects, `brief` for those that have not cost much so far.
 */
export function classify({ cost, isEstimate, isProven }: Shape): 'brief' | 'read' | 'trial' | 'slow' {
  if (cost === undefined) return 'read';
  if (cost >= COSTLY) return 'slow';
  if (!isProven) return 'trial';
  return isEstimate || cost >= BRIEF ? 'read' : 'brief';
}

/** Whether it depends on the values what a statement of the shape costs. */
export const isVaried = ({ quickAt }: Shape): boolean => performance.now() - quickAt < VARIED_FOR;

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
  shape.isEstimate = true;
  shape.isProven = highestCost(plan) * COST_UNIT < SAFE;
}
