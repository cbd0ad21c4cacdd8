import { EMPTY, join, raw, sql, table, type Fragment } from '../../db/fragment.ts';
import { output, reference, type Column } from '../../db/schema/model.ts';

/** A column, where the path of foreign keys leads to. */
export interface LabelPath {
  readonly path: readonly Column[];
  readonly column: Column;
}

/** What people call a record: texts and columns in their order, `{first_name} {last_name}`. */
export type Label = readonly (string | LabelPath)[];

const literal = (text: string): Fragment => raw(`'${text.replaceAll("'", "''")}'`);

/** The joins that labels need; a path is joined once. They lead to one row at most. */
export class LabelJoins {
  readonly #aliases = new Map<string, string>();
  readonly #joins: Fragment[] = [];

  /** The alias of the record that a foreign key of `alias` refers to. */
  follow(alias: string, column: Column): string {
    const { references } = column;
    if (!references) return alias;
    const path = `${alias}.${column.field}`;
    const known = this.#aliases.get(path);
    if (known) return known;
    const target = `l${this.#aliases.size + 1}`;
    this.#aliases.set(path, target);
    const on = sql`${reference(target, references.primaryKey)} = ${reference(alias, column)}`;
    this.#joins.push(sql` left join ${table(references.table)} ${raw(target)} on ${on}`);
    return target;
  }

  sql(): Fragment {
    return this.#joins.length === 0 ? EMPTY : join(this.#joins, '');
  }
}

/**
 * What a text of a label needs to have something to separate: a value of the column behind it, and of one before it. What opens
 * a bracket belongs to the column in it alone, and what ends the label to the last column.
 */
function neededBy(
  label: Label,
  index: number,
): { next: LabelPath | undefined; before: readonly LabelPath[] } {
  const columns = (parts: Label): LabelPath[] => parts.filter((part) => typeof part !== 'string');
  const [next] = columns(label.slice(index));
  const before = columns(label.slice(0, index));
  const text = label[index];
  const isOpening = typeof text === 'string' && /[([{<„“«]\s*$/.test(text);
  return { next, before: next ? (isOpening ? [] : before) : before.slice(-1) };
}

/** The label of a record by the values of its columns; empty where none has any. */
export function joinLabel(label: Label, valueOf: (part: LabelPath) => string | null): string {
  const hasValue = (part: LabelPath): boolean => valueOf(part) !== null;
  const parts = label.map((part, index) => {
    if (typeof part !== 'string') return valueOf(part) ?? '';
    const { next, before } = neededBy(label, index);
    return (!next || hasValue(next)) && (before.length === 0 || before.some(hasValue)) ? part : '';
  });
  return parts.join('').trim();
}

const mayBeNull = ({ path, column }: LabelPath): boolean =>
  [...path, column].some(({ nullable }) => nullable);

/**
 * A value of a label. Of one that is longer PostgreSQL reads only the beginning. The dots keep that from being taken for a whole
 * name; they are ASCII, as a database need not be UTF-8.
 */
function cutPart(value: Fragment, { type, maxLength = Infinity }: Column, characters: number): Fragment {
  if (!type.long || maxLength <= characters) return value;
  // A character has up to 4 bytes, and the size of a value is known without reading it.
  const isLonger = sql`octet_length(${value}::text) > ${raw(String(4 * characters))}`;
  return sql`case when ${isLonger} then left(${value}::text, ${raw(String(characters))}) || '...' else ${value}::text end`;
}

/**
 * The same in SQL, as one text.
 * @param characters that stay; one more shows that it is cut
 */
export function labelSql(alias: string, label: Label, joins: LabelJoins, characters: number): Fragment {
  const value = ({ path, column }: LabelPath): Fragment =>
    output(
      path.reduce((from, step) => joins.follow(from, step), alias),
      column,
    );
  const hasValue = (part: LabelPath): Fragment => sql`${value(part)} is not null`;
  const text = (part: string, index: number): Fragment => {
    const { next, before } = neededBy(label, index);
    const needed = next && mayBeNull(next) ? [hasValue(next)] : [];
    if (before.length > 0 && before.every(mayBeNull))
      needed.push(sql`(${join(before.map(hasValue), ' or ')})`);
    return needed.length === 0
      ? literal(part)
      : sql`case when ${join(needed, ' and ')} then ${literal(part)} end`;
  };
  const parts = label.map((part, index) =>
    typeof part === 'string' ? text(part, index) : cutPart(value(part), part.column, characters),
  );
  return parts.length === 0
    ? raw("''::text")
    : sql`left(btrim(concat(${join(parts, ', ')})), ${raw(String(characters + 1))})`;
}
