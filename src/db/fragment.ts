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
  readonly fixed?: boolean;
  /** Its answer has several records, and may be large. */
  readonly isPage?: boolean;
}

/** SQL that the program itself wrote, never anything from outside. */
export const raw = (text: string): Fragment => ({ text: [text], values: [] });

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

/** SQL with fragments in it: sql`select ${column} from ${table}`. */
export function sql(strings: TemplateStringsArray, ...parts: readonly Fragment[]): Fragment {
  const text = [strings[0] ?? ''];
  const values: (string | null)[] = [];
  parts.forEach((part, index) => {
    text[text.length - 1] += part.text[0] ?? '';
    text.push(...part.text.slice(1));
    values.push(...part.values);
    text[text.length - 1] += strings[index + 1] ?? '';
  });
  return { text, values };
}

export function join(fragments: readonly Fragment[], separator: string): Fragment {
  const [first, ...others] = fragments;
  if (!first) return EMPTY;
  const text = [...first.text];
  const values = [...first.values];
  for (const fragment of others) {
    text[text.length - 1] += separator + (fragment.text[0] ?? '');
    text.push(...fragment.text.slice(1));
    values.push(...fragment.values);
  }
  return { text, values };
}

/** Numbers the placeholders. */
export function compile(fragment: Fragment): Statement {
  let text = fragment.text[0] ?? '';
  for (let index = 1; index < fragment.text.length; index += 1) text += `$${index}${fragment.text[index]}`;
  return { text, values: fragment.values };
}
