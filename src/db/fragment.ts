// The only place that turns text into SQL. Values always become parameters.
/**
 * A piece of SQL as plain data: `text` has one more element than `values`, with one value between each two texts.
 * `compile` numbers the placeholders.
 */
export interface Fragment {
  readonly text: readonly string[];
  readonly values: readonly (string | null)[];
}

/** SQL for the database with $1…$n, and the values as strings (see `value`). */
export interface BoundSql {
  readonly text: string;
  readonly values: readonly (string | null)[];
  /** Always prepared: clients cannot vary the text. Other statements are prepared while there is room. */
  readonly fixed?: boolean | undefined;
  /** The result has several records and may be large. */
  readonly isPage?: boolean | undefined;
  /**
   * Reads only tables without policies, and so runs no function of the database, which could change the settings of the session. Only
   * such statements are pipelined.
   */
  readonly isPlain?: boolean | undefined;
  /** SQL that runs before it, in a transaction of its own: sets the caller's identity (`identitySql`), or waits for a lock. */
  readonly preamble?: string | undefined;
  /** It sees one state of the database, in a transaction of its own (REPEATABLE READ). */
  readonly isSnapshot?: boolean | undefined;
  /** PostgreSQL may keep running a part of it long after a cancel request. It is not prepared, so PostgreSQL plans it for its values. */
  readonly mayBlock?: boolean | undefined;
  /**
   * The same read for connections that clients share: the first value is null if a record or page might be large. Left out if none
   * can be.
   */
  readonly small?: SmallSql | undefined;
  /**
   * The same read for an array of its only value, so that readers can share it. Its rows begin with the position in the array, and
   * the first value of a large row is null.
   */
  readonly many?: SmallSql | undefined;
}

/**
 * The SQL of a read that leaves out what might be large. A function, because most requests need one of the texts.
 * @param isSummed true: the limit applies to the sum of the records, which takes PostgreSQL longer to check; false: to each record,
 * with an equal share
 */
export type SmallSql = (isSummed: boolean) => string;

/** Answers above this size (bytes) are large: several in a row delay the statements behind them on their connection. */
export const LARGE = 256 * 1024;

/** Maximum keys in a statement that readers of one record each share. */
export const MAX_KEYS = 64;

/** The statement for a connection that clients share. */
export const withoutLarge = <T extends BoundSql>(statement: T, isSummed: boolean): T =>
  statement.small ? { ...statement, text: statement.small(isSummed) } : statement;

const NONE: readonly never[] = [];

/** Trusted SQL from the program itself, never input. */
export const raw = (text: string): Fragment => ({ text: [text], values: NONE });

export const EMPTY = raw('');

/** One quoted name. A dot is part of the name; `table` splits at dots. */
export const identifier = (name: string): Fragment => raw(`"${name.replaceAll('"', '""')}"`);

/** A text as an SQL literal: for texts of the program and the registry, never input. */
export const literal = (text: string): Fragment => raw(`'${text.replaceAll("'", "''")}'`);

/** A quoted table name from `schema.table` or `table`. */
export const table = (name: string): Fragment => join(name.split('.').map(identifier), '.');

/** A quoted name, and a quoted name of a table, as text. */
export const quotedName = (name: string): string => identifier(name).text.join('');
export const quotedTable = (name: string): string => table(name).text.join('');

/**
 * A parameter, sent as text and cast in SQL. The driver's own serializers change some values: with `$1::boolean`, 'true'
 * arrives as false.
 */
export const value = (text: string | null): Fragment => ({ text: ['', '::text'], values: [text] });

/**
 * An expression as text that compares character by character. By the collation of a column, texts whose case or accents differ may
 * be equal.
 */
export const exactText = (expression: Fragment): Fragment => sql`(${expression})::text collate "C"`;

/** An item of an array. Splitting is several times faster than replacing, for many items and for an item with many quotes. */
function arrayItem(item: string | null): string {
  if (item === null) return 'NULL';
  const escaped = item.includes('\\') ? item.split('\\').join('\\\\') : item;
  return `"${escaped.includes('"') ? escaped.split('"').join('\\"') : escaped}"`;
}

/** The text of an array, as PostgreSQL reads it. */
export const arrayText = (values: readonly (string | null)[]): string =>
  `{${values.map(arrayItem).join(',')}}`;

/** The items of an array that `arrayText` has made. */
export const arrayItems = (array: string): string[] =>
  [...array.matchAll(/"((?:[^"\\]|\\.)*)"/gs)].map(([, item = '']) => item.replace(/\\(.)/gs, '$1'));

/** A list as one parameter, so that its length does not change the statement's text. */
export const valueList = (values: readonly (string | null)[]): Fragment => ({
  text: ['', '::text[]'],
  values: [arrayText(values)],
});

/** Concatenates fragments and the SQL between them. */
class Builder {
  readonly #text: string[] = [];
  #values: (string | null)[] | undefined;
  #last: string;

  constructor(start: string) {
    this.#last = start;
  }

  add({ text, values }: Fragment, after: string): void {
    const [first = ''] = text;
    // Fast path: most fragments have no values.
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

/** Builds a fragment from SQL and other fragments: sql`select ${column} from ${table}`. */
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

/** Where the values of a statement go. */
export interface Binder {
  readonly add: (text: string | null) => Fragment;
  readonly take: (fragment: Fragment) => Fragment;
}

/** Leaves the values in the SQL, for a statement that is compiled once. */
export const IN_PLACE: Binder = { add: value, take: (fragment) => fragment };

/** Collects the values of a statement apart from its SQL, so that many statements can share one text. */
export class Parameters implements Binder {
  readonly values: (string | null)[] = [];

  /** Adds a value (see `value`). */
  readonly add = (text: string | null): Fragment => raw(`$${this.values.push(text)}::text`);

  /** Adds the values of a fragment. */
  readonly take = (fragment: Fragment): Fragment => {
    const { text, values } = fragment;
    if (values.length === 0) return fragment;
    const [first = ''] = text;
    return raw(
      values.reduce<string>((all, one, at) => `${all}$${this.values.push(one)}${text[at + 1]}`, first),
    );
  };

  /** The text of a fragment whose values are all here. */
  compile({ text, values }: Fragment): string {
    if (values.length > 0) throw new Error('a value is not among the parameters');
    return text.join('');
  }
}

/** The text of a fragment that `Parameters.take` has made: it has no values, and so a single text. */
export const boundText = ({ text }: Fragment): string => text[0] ?? '';

/** Turns a fragment into SQL with numbered placeholders. */
export function compile(fragment: Fragment): BoundSql {
  let text = fragment.text[0] ?? '';
  for (let index = 1; index < fragment.text.length; index += 1) text += `$${index}${fragment.text[index]}`;
  return { text, values: fragment.values };
}
