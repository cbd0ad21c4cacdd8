// A map whose values are made of those of another one when they are first read.
import type { YieldIfDue } from '../../db/lanes/requester.ts';

export class LazyMap<Source, Value> implements ReadonlyMap<string, Value> {
  readonly #source: ReadonlyMap<string, Source>;
  readonly #make: (source: Source) => Value;
  readonly #made = new Map<string, Value>();

  constructor(source: ReadonlyMap<string, Source>, make: (source: Source) => Value) {
    this.#source = source;
    this.#make = make;
  }

  get size(): number {
    return this.#source.size;
  }

  has(name: string): boolean {
    return this.#source.has(name);
  }

  get(name: string): Value | undefined {
    const known = this.#made.get(name);
    const source = known === undefined ? this.#source.get(name) : undefined;
    if (source === undefined) return known;
    const value = this.#make(source);
    this.#made.set(name, value);
    return value;
  }

  keys(): MapIterator<string> {
    return this.#source.keys();
  }

  *entries(): MapIterator<[string, Value]> {
    for (const name of this.keys()) yield [name, this.get(name) as Value];
  }

  *values(): MapIterator<Value> {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator](): MapIterator<[string, Value]> {
    return this.entries();
  }

  forEach(work: (value: Value, name: string, map: ReadonlyMap<string, Value>) => void): void {
    for (const [name, value] of this) work(value, name, this);
  }
}

/** Makes the values of these names, and lets other clients run in between. */
export async function makeInTurns(
  map: ReadonlyMap<string, unknown>,
  yieldIfDue: YieldIfDue,
  names: Iterable<string> = map.keys(),
): Promise<void> {
  for (const name of names) {
    map.get(name);
    await yieldIfDue();
  }
}
