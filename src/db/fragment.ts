import type { Shape } from './statement-shapes.ts';

/**
 * A piece of SQL as plain data: `text` has one more element than `values`, and a value stands between each two of them.
 * Placeholders are numbered once, in `compile`. It is not a promise, so it can be returned from anywhere.
 */
export interface Fragment {
  readonly text: readonly string[];
  readonly values: readonly (string | null)[];
}

/** What is sent to the database: SQL with $1…$n, and the values as strings (see `value`). */
export interface Statement {
  readonly text: string;
  readonly values: readonly (string | null)[];
  /** Its text is one of few, whatever clients ask, so that it is always prepared; others are while there is room for them. */
  readonly fixed?: boolean | undefined;
  /** Its answer has several records, and may be large. */
  readonly isPage?: boolean | undefined;
  /** What is known of statements with its text, once it is run. */
  readonly shape?: Shape;
}

const NONE: readonly never[] = [];

/** SQL that the program itself wrote, never anything from outside. */
export const raw = (text: string): Fragment => ({ text: [text], values: NONE });

export const EMPTY = raw('');

/** A quoted name; a dot separates schema and table only where `table` is used. */
export const identifier = (name: string): Fragment => raw(`"${name.replaceAll('"', '""')}"`);

/** A table name, `schema.table` or `table`. */
export const table = (name: string): Fragment => join(name.split('.').map(identifier), '.');

/**
 * A parameter. Values travel as text and are cast in SQL, because the driver's own serializers change some of them
 * (`$1::boolean` given 'true' would arrive as false).
 */
export const value = (text: string | null): Fragment => ({ text: ['', '::text'], values: [text] });

/** A list of any length as one parameter, so that its length does not change the statement's shape. */
export function valueList(values: readonly string[]): Fragment {
  const items = values.map((item) => `"${item.replace(/["\\]/g, '\\$&')}"`);
  return { text: ['', '::text[]'], values: [`{${items.join(',')}}`] };
}

/** Fragments one after the other, each with the SQL before it. */
class Builder {
  readonly #text: string[] = [];
  #values: (string | null)[] | undefined;
  #last: string;

  constructor(start: string) {
    this.#last = start;
  }

  add({ text, values }: Fragment, after: string): void {
    const [first = ''] = text;
    // Most fragments have no values.
    if (text.length === 1) {
      this.#last += first + after;
      return;
    }
    this.#text.push(this.#last + first);
    for (let index = 1; index < text.length - 1; index += 1) this.#text.push(text[index] ?? '');
    this.#last = (text[text.length - 1] ?? '') + after;
    this.#values ??= [];
    for (const one of values) this.#values.push(one);
  }

  end(): Fragment {
    this.#text.push(this.#last);
    return { text: this.#text, values: this.#values ?? NONE };
  }
}

/** SQL with fragments in it: sql`select ${column} from ${table}`. */
export function sql(strings: TemplateStringsArray, ...parts: readonly Fragment[]): Fragment {
  const builder = new Builder(strings[0] ?? '');
  for (let index = 0; index < parts.length; index += 1)
    builder.add(parts[index] ?? EMPTY, strings[index + 1] ?? '');
  return builder.end();
}

export function join(fragments: readonly Fragment[], separator: string): Fragment {
  const builder = new Builder('');
  const last = fragments.length - 1;
  for (let index = 0; index <= last; index += 1)
    builder.add(fragments[index] ?? EMPTY, index === last ? '' : separator);
  return builder.end();
}

/** Numbers the placeholders. */
export function compile(fragment: Fragment): Statement {
  let text = fragment.text[0] ?? '';
  for (let index = 1; index < fragment.text.length; index += 1) text += `$${index}${fragment.text[index]}`;
  return { text, values: fragment.values };
}
