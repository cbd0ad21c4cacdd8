// Statistics for each SQL text (its "shape"): what it costs, whether it is prepared, and how large its results are.

/** Maximum number of shapes remembered, and of those prepared. */
const MAX_SHAPES = 500;
const MAX_PREPARED = 200;
/** Maximum characters of the texts of all shapes together: clients can make texts of more than 100,000. */
const MAX_CHARACTERS = 8 * 1024 * 1024;
/** Longer texts are not prepared: PostgreSQL keeps a plan for each, whose size grows with the text. */
const MAX_PREPARED_LENGTH = 8 * 1024;
/** A shape is costly from this cost on (milliseconds). */
export const COSTLY = 150;
/** The cost of a shape after a costly run that is an exception: the machine may have paused, or other statements kept it busy. */
const NEARLY_COSTLY = 0.9 * COSTLY;
/** A costly run is an exception while the mean is below this (milliseconds). */
const CHEAP_MEAN = 0.8 * COSTLY;
/** A shape is brief below this measured cost (milliseconds). */
const BRIEF = 10;
/** Milliseconds after which a running read counts as slow, unless its shape is already costly. */
export const OVERRUN = 300;
/** Time limit of an attempt (milliseconds): a costly shape may be brief with the values of this client. */
export const ATTEMPT = 150;
/** A run shorter than this (milliseconds) makes a shape varied for VARIED_FOR milliseconds. */
export const CHEAP_RUN = ATTEMPT / 3;
const VARIED_FOR = 10 * 60_000;
/** A new shape is proven if the highest cost in its plan is below this (milliseconds). */
const SAFE = 50;
/** Milliseconds per cost unit of PostgreSQL's planner. A high guess, used only until the first measurement. */
const COST_UNIT = 0.02;
/** The share of the old cost that remains after a cheaper run. */
const COST_DECAY = 0.8;

/** The weight of the newest measurement in the mean. */
const NEWEST_WEIGHT = 0.05;

/** Statistics for all statements with one SQL text. */
export interface Shape {
  readonly text: string;
  /** Expected milliseconds; undefined before the first estimate or measurement. */
  cost: number | undefined;
  /** Mean milliseconds, used to predict waiting times; undefined before the first measurement. */
  mean: number | undefined;
  /** Whether `cost` is PostgreSQL's estimate; the first measurement replaces it. */
  isEstimate: boolean;
  /** Whether a statement of this shape has completed, or its plan shows that it cannot take long. */
  isProven: boolean;
  /** Time of the last run shorter than CHEAP_RUN (milliseconds of `performance.now`). */
  cheapAt: number;
  uses: number;
  /** The number of uses of all shapes at the last use of this one. */
  latest: number;
  isPrepared: boolean;
  /** Whether clients cannot vary the text. Such shapes are few and never evicted. */
  isFixed: boolean;
  /** Whether it was evicted while a statement still refers to it. */
  isForgotten: boolean;
  /** `quick` statements: whether the last one was slow, or one delays those behind it. */
  wasSlow: boolean;
  /** Pages: time of the last large result (milliseconds of `performance.now`). */
  largeAt: number;
  /** Pages: whether the latest result was small, with no large one in recent minutes. */
  isSmall: boolean;
  /** Whether a page was left out because one of its records has more than its share of the bytes. */
  isUneven: boolean;
  /** Pages: mean milliseconds on a pipelined connection. */
  pipelinedMean: number;
  /** `quick` statements: mean milliseconds; 0 before the first one. */
  quickMean: number;
  /** Single records: the values of the statements whose results were large. */
  large: Set<string> | undefined;
}

/** A shape without statistics. */
export const newShape = (text: string, isFixed = false): Shape => ({
  text,
  isFixed,
  cost: undefined,
  mean: undefined,
  isEstimate: false,
  isProven: false,
  cheapAt: -Infinity,
  uses: 0,
  latest: 0,
  isPrepared: false,
  isForgotten: false,
  wasSlow: false,
  largeAt: -Infinity,
  isSmall: false,
  isUneven: false,
  pipelinedMean: 0,
  quickMean: 0,
  large: undefined,
});

/** Remembers the cost of statements and decides which to prepare. Evicts the least recently used. */
export class Shapes {
  /** By text length: comparing texts is faster than hashing each one for a map. */
  readonly #shapes = new Map<number, Shape[]>();
  #size = 0;
  #characters = 0;
  #uses = 0;
  #prepared = 0;

  /** Finds or adds the shape of a statement and counts one use. */
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
    let hasRoom = true;
    while (hasRoom && (this.#size >= MAX_SHAPES || this.#characters + text.length > MAX_CHARACTERS))
      hasRoom = this.#forgetOldest();
    const shape = newShape(text, isFixed);
    const sameLength = this.#shapes.get(text.length);
    if (sameLength) sameLength.push(shape);
    else this.#shapes.set(text.length, [shape]);
    this.#size += 1;
    this.#characters += text.length;
    return shape;
  }

  /**
   * Evicts shapes used once first: clients can create any number of them without running a statement.
   * @returns whether there was one to evict
   */
  #forgetOldest(): boolean {
    const oldest =
      this.#oldest(({ isFixed, uses }) => !isFixed && uses < 2) ?? this.#oldest(({ isFixed }) => !isFixed);
    if (!oldest) return false;
    const { length } = oldest.text;
    const left = this.#shapes.get(length)?.filter((shape) => shape !== oldest) ?? [];
    if (left.length > 0) this.#shapes.set(length, left);
    else this.#shapes.delete(length);
    this.#size -= 1;
    this.#characters -= length;
    if (oldest.isPrepared) this.#prepared -= 1;
    oldest.isForgotten = true;
    return true;
  }

  /** A linear search, needed only to evict a shape. Keeping the shapes in order would cost every use. */
  #oldest(isWanted: (shape: Shape) => boolean): Shape | undefined {
    let oldest: Shape | undefined;
    for (const shapes of this.#shapes.values())
      for (const shape of shapes)
        if (isWanted(shape) && shape.latest < (oldest?.latest ?? Infinity)) oldest = shape;
    return oldest;
  }

  /** Whether to prepare a shape: from its second use on, so that a single use evicts no other. */
  prepare(shape: Shape): boolean {
    if (shape.isPrepared || shape.uses < 2 || shape.isForgotten) return shape.isPrepared;
    if (shape.text.length > MAX_PREPARED_LENGTH) return false;
    const evicted = this.#prepared >= MAX_PREPARED ? this.#oldest(({ isPrepared }) => isPrepared) : undefined;
    if (evicted) evicted.isPrepared = false;
    else this.#prepared += 1;
    shape.isPrepared = true;
    return true;
  }

  /**
   * Records the duration of a statement (milliseconds). The cost rises at once and falls slowly. Single costly runs do not make a
   * shape costly that is cheap on average. A canceled or failed statement can only raise the cost.
   */
  measure(shape: Shape, milliseconds: number, isComplete: boolean): void {
    const { mean = milliseconds } = shape;
    if (isComplete && milliseconds < CHEAP_RUN) shape.cheapAt = performance.now();
    if (isComplete || milliseconds > mean) shape.mean = mean + (milliseconds - mean) * NEWEST_WEIGHT;
    const isException = isComplete && milliseconds >= COSTLY && milliseconds < OVERRUN && mean < CHEAP_MEAN;
    if (isException && !shape.isEstimate && shape.isProven && classify(shape) !== 'slow') {
      shape.cost = NEARLY_COSTLY;
      return;
    }
    const before = isComplete && shape.isEstimate ? 0 : (shape.cost ?? 0);
    shape.cost = Math.max(milliseconds, before * (isComplete ? COST_DECAY : 1));
    shape.isEstimate &&= !isComplete && milliseconds < COSTLY;
    shape.isProven ||= isComplete;
  }
}

/**
 * Classifies a read by its shape: `slow` is known to be costly, `trial` may cost much more than PostgreSQL estimates, `brief`
 * has been cheap so far, and `read` is the rest.
 */
export function classify({ cost, isEstimate, isProven }: Shape): 'brief' | 'read' | 'trial' | 'slow' {
  if (cost === undefined) return 'read';
  if (cost >= COSTLY) return 'slow';
  if (!isProven) return 'trial';
  return isEstimate || cost >= BRIEF ? 'read' : 'brief';
}

/** Whether the cost of a shape depends on the values: one of its statements was quick recently. */
export const isVaried = ({ cheapAt }: Shape): boolean => performance.now() - cheapAt < VARIED_FOR;

interface Plan {
  readonly 'Total Cost'?: number;
  readonly Plans?: readonly Plan[];
}

/** The highest cost of any node in a plan. Below a LIMIT it exceeds the plan's own total. */
const highestCost = (plan: Plan): number =>
  Math.max(plan['Total Cost'] ?? 0, ...(plan.Plans ?? []).map(highestCost));

/**
 * Records the planner's estimate for a shape.
 * @param json the output of EXPLAIN; an empty array if there is none
 * @param milliseconds that planning took: the statement itself is planned, too
 */
export function noteEstimate(shape: Shape, json: string, milliseconds: number): void {
  const [first] = JSON.parse(json) as { Plan?: Plan }[];
  const plan = first?.Plan ?? {};
  shape.cost = Math.max((plan['Total Cost'] ?? 0) * COST_UNIT, milliseconds);
  shape.isEstimate = true;
  shape.isProven = first !== undefined && highestCost(plan) * COST_UNIT < SAFE;
}
