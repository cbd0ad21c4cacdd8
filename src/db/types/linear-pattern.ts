// Regular expressions that are matched in linear time: an automaton (Thompson's construction), which never goes back.

/** Answers whether a pattern matches anywhere in a text. */
export interface LinearPattern {
  readonly test: (text: string) => boolean;
  /** A short text that it matches; undefined if none was found. */
  readonly example: () => string | undefined;
}

/** Maximum nodes of an automaton: the time for each character of a text grows with them. */
const MAX_NODES = 1000;
/** Maximum remembered steps of an automaton. */
const MAX_STEPS = 10_000;
/** Maximum states to look for an example in. */
const MAX_LOOKED_AT = 100;

type Node =
  | { readonly kind: 'character'; readonly fits: (character: string) => boolean; readonly next: Node }
  | { readonly kind: 'start' | 'end'; readonly next: Node }
  | { readonly kind: 'split'; readonly to: Node[] }
  | { readonly kind: 'match' };

/** Makes the nodes of a part of a pattern, which lead to the next node. */
type Part = (next: Node) => Node;

const GROUP = /\((?:\?(?::|<[^=!>][^>]*>))?/suy;
/** A character, an escape or a class of characters, all of which match one character. */
const ATOM =
  /\[(?:\\.|[^\]\\])*\]|\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|x..|c.|.)|./suy;
const QUANTIFIER = /(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/suy;
const UNSUPPORTED: readonly (readonly [RegExp, string])[] = [
  [/\(\?<?[=!]/y, 'lookarounds'],
  [/\\(?:[1-9]|k<)/y, 'back-references'],
  [/\\[bB]/y, 'word boundaries'],
  [/\(\?(?!:|<)/y, 'modifiers'],
];

/** Parses a pattern that JavaScript accepts with the flag `u`. @throws Error */
function parse(source: string, node: (node: Node) => Node): Part {
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const match = pattern.exec(source);
    if (match) at = pattern.lastIndex;
    return match;
  };
  const choice = (): Part => {
    const options = [sequence()];
    while (source[at] === '|') {
      at += 1;
      options.push(sequence());
    }
    const [only] = options;
    return options.length === 1 && only
      ? only
      : (next) => node({ kind: 'split', to: options.map((option) => option(next)) });
  };
  const sequence = (): Part => {
    const parts: Part[] = [];
    while (at < source.length && source[at] !== '|' && source[at] !== ')') parts.push(repeated(term()));
    return (next) => parts.reduceRight((rest, part) => part(rest), next);
  };
  const term = (): Part => {
    for (const [found, name] of UNSUPPORTED)
      if (take(found)) throw new Error(`has ${name}, which are not supported`);
    const kind = { '^': 'start', $: 'end' }[source[at] ?? ''] as 'start' | 'end' | undefined;
    if (kind) {
      at += 1;
      return (next) => node({ kind, next });
    }
    if (take(GROUP)) {
      const group = choice();
      at += 1; // the closing parenthesis
      return group;
    }
    const one = new RegExp(`^${take(ATOM)?.[0]}$`, 'u');
    return (next) => node({ kind: 'character', fits: (character) => one.test(character), next });
  };
  const repeated = (part: Part): Part => {
    const match = take(QUANTIFIER);
    if (!match) return part;
    const [quantifier, from, comma, to] = match;
    const min = Number(from ?? (quantifier.startsWith('+') ? 1 : 0));
    const max = from === undefined ? (quantifier.startsWith('?') ? 1 : Infinity) : comma ? Number(to || Infinity) : min; // prettier-ignore
    return (next) => {
      let rest = next;
      if (max === Infinity) {
        const loop: Node = { kind: 'split', to: [] };
        loop.to.push(part(loop), next);
        rest = node(loop);
      } else
        for (let count = min; count < max; count += 1) rest = node({ kind: 'split', to: [part(rest), next] });
      for (let count = 0; count < min; count += 1) rest = part(rest);
      return rest;
    };
  };
  return choice();
}

/** The nodes that an automaton is in after a part of a text: those that wait for a character or for the end. */
interface State {
  readonly nodes: readonly Node[];
  readonly isMatch: boolean;
  readonly isMatchAtEnd: boolean;
  readonly steps: Map<string, State>;
}

/** Follows the nodes that take no character. */
function reach(nodes: readonly Node[], isStart: boolean, isEnd: boolean): Set<Node> {
  const found = new Set(nodes);
  const add = (node: Node): unknown => found.add(node);
  // A set iterates over what is added meanwhile.
  for (const node of found) {
    if (node.kind === 'split') node.to.forEach(add);
    if ((node.kind === 'start' && isStart) || (node.kind === 'end' && isEnd)) add(node.next);
  }
  return found;
}

const isMatchIn = (nodes: Iterable<Node>): boolean => [...nodes].some(({ kind }) => kind === 'match');

const compiled = new Map<string, LinearPattern>();

/**
 * The pattern with this source, in the syntax of JavaScript with the flag `u`.
 * @throws Error whose message continues "pattern …"
 */
export function linearPattern(source: string): LinearPattern {
  const known = compiled.get(source);
  if (known) return known;
  try {
    new RegExp(source, 'u');
  } catch (error) {
    throw new Error(`is not a regular expression: ${(error as Error).message}`, { cause: error });
  }
  const numbers = new Map<Node, number>();
  const entry = parse(source, (node) => {
    if (numbers.size >= MAX_NODES) throw new Error('is too long, or repeats too much');
    numbers.set(node, numbers.size);
    return node;
  })({ kind: 'match' });
  const made = createPattern(entry, numbers);
  compiled.set(source, made);
  return made;
}

function createPattern(entry: Node, numbers: ReadonlyMap<Node, number>): LinearPattern {
  const states = new Map<string, State>();
  let steps = 0;
  const stateOf = (from: readonly Node[], isStart: boolean): State => {
    const reached = reach(from, isStart, false);
    const nodes = [...reached].filter(({ kind }) => kind === 'character' || kind === 'end');
    const isMatch = isMatchIn(reached);
    const key = `${isStart} ${isMatch} ${nodes
      .map((node) => numbers.get(node))
      .toSorted()
      .join()}`;
    const present = states.get(key);
    if (present) return present;
    const isMatchAtEnd = isMatchIn(reach(nodes, isStart, true));
    const state = { nodes, isMatch, isMatchAtEnd: isMatch || isMatchAtEnd, steps: new Map<string, State>() };
    states.set(key, state);
    return state;
  };
  const first = stateOf([entry], true);
  const step = ({ nodes, steps: known }: State, character: string): State => {
    const next = nodes.flatMap((node) =>
      node.kind === 'character' && node.fits(character) ? [node.next] : [],
    );
    const state = stateOf([...next, entry], false);
    if ((steps += 1) > MAX_STEPS) {
      for (const one of [first, ...states.values()]) one.steps.clear();
      states.clear();
      steps = 0;
    }
    known.set(character, state);
    return state;
  };
  const test = (text: string): boolean => {
    let state = first;
    for (const character of text) {
      if (state.isMatch) return true;
      state = state.steps.get(character) ?? step(state, character);
      if (state.nodes.length === 0 && !state.isMatch) return false; // No character leads out of it.
    }
    return state.isMatchAtEnd;
  };
  return { test, example: () => findExample(first, step) };
}

/** The printable characters of ASCII, the usual ones of codes and names first. */
const CHARACTERS = [
  ...new Set(['a', 'A', '0', ...Array.from({ length: 95 }, (_, index) => String.fromCharCode(126 - index))]),
];

/** The shortest text of printable characters that leads to a match. */
function findExample(first: State, step: (state: State, character: string) => State): string | undefined {
  const texts = new Map([[first, '']]);
  for (const [state, text] of texts) {
    if (state.isMatchAtEnd) return text;
    if (texts.size > MAX_LOOKED_AT) return undefined;
    for (const character of CHARACTERS) {
      const next = step(state, character);
      if (!texts.has(next)) texts.set(next, text + character);
    }
  }
  return undefined;
}
