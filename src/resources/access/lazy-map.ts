// A map whose values are made of those of another one when they are first read.
import type { YieldIfDue } from '../../db/lanes/requester.ts';

/** Values by name. */
export type Named<Value> = Omit<ReadonlyMap<string, Value>, 'entries' | 'forEach'>;

export class LazyMap<Source, Value> implements Named<Value> {
  readonly #source: Named<Source>;
  readonly #make: (source: Source) => Value;
  readonly #made = new Map<string, Value>();

  constructor(source: Named<Source>, make: (source: Source) => Value) {
    [this.#source, this.#make] = [source, make];
  }

  get size(): number {
    return this.#source.size;
  }

  has = (name: string): boolean => this.#source.has(name);
  keys = (): MapIterator<string> => this.#source.keys();

  get(name: string): Value | undefined {
    const known = this.#made.get(name);
    const source = known === undefined ? this.#source.get(name) : undefined;
    if (source === undefined) return known;
    const value = this.#make(source);
    this.#made.set(name, value);
    return value;
  }

  *values(): MapIterator<Value> {
    for (const [, value] of this) yield value;
  }

  *[Symbol.iterator](): MapIterator<[string, Value]> {
    for (const name of this.keys()) yield [name, this.get(name) as Value];
  }
}

/** Makes the values of these names, and lets other clients run in between. */
export async function makeInTurns(
  map: Named<unknown>,
  yieldIfDue: YieldIfDue,
  names: Iterable<string> = map.keys(),
) {
  for (const name of names) {
    map.get(name);
    await yieldIfDue();
  }
}
