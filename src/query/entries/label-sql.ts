// Record labels: the text by which people know a record, in SQL and in JavaScript.
import { EMPTY, join, literal, raw, sql, table, type Fragment } from '../../db/fragment.ts';
import { mayBeNull, output, reference, type Column, foreignReference } from '../../db/schema/model.ts';

/** A column of a label, reached by a path of foreign keys. */
export interface LabelPath {
  readonly path: readonly Column[];
  readonly column: Column;
}

/** The parts of a label in order, texts and columns: `{first_name} {last_name}`. */
export type Label = readonly (string | LabelPath)[];

/** Collects the joins of labels. Each path is joined once, and each join leads to at most one row. */
export class LabelJoins {
  /** Foreign keys that were followed. Two of them may have the same columns. */
  readonly #followed: { readonly alias: string; readonly column: Column; readonly target: string }[] = [];
  readonly #joins: Fragment[] = [];

  /** The alias of the record that a foreign key of `alias` refers to. */
  follow(alias: string, column: Column): string {
    const { references } = column;
    if (!references) return alias;
    const existing = this.#followed.find((one) => one.alias === alias && one.column === column);
    if (existing) return existing.target;
    const target = `l${this.#followed.length + 1}`;
    this.#followed.push({ alias, column, target });
    const on = sql`${reference(target, references.primaryKey)} = ${foreignReference(alias, column)}`;
    this.#joins.push(sql` left join ${table(references.table)} ${raw(target)} on ${on}`);
    return target;
  }

  sql(): Fragment {
    return this.#joins.length === 0 ? EMPTY : join(this.#joins, '');
  }
}

/**
 * The columns that must have values for a label to include a text. Otherwise a separator could be left over. A text needs:
 * - between columns: the next one, and at least one of those before it
 * - with an opening bracket at its end: only the next one
 * - at the end of the label: only the last one
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

/** The label of a record with these values. Empty if no column has a value. */
export function joinLabel(label: Label, valueOf: (part: LabelPath) => string | null): string {
  const hasValue = (part: LabelPath): boolean => valueOf(part) !== null;
  const parts = label.map((part, index) => {
    if (typeof part !== 'string') return valueOf(part) ?? '';
    const { next, before } = neededBy(label, index);
    return (!next || hasValue(next)) && (before.length === 0 || before.some(hasValue)) ? part : '';
  });
  return parts.join('').trim();
}

const mayLack = ({ path, column }: LabelPath): boolean => [...path, column].some(mayBeNull);

/**
 * A value of a label. PostgreSQL reads only the beginning of a longer one, followed by `...`. The dots are ASCII, because a
 * database may have another encoding than UTF-8.
 */
function cutPart(value: Fragment, { type, maxLength = Infinity }: Column, characters: number): Fragment {
  if (!type.long || maxLength <= characters) return value;
  // PostgreSQL knows the bytes of a value without reading it. A character has up to 4 bytes.
  const isLonger = sql`octet_length(${value}::text) > ${raw(String(4 * characters))}`;
  return sql`case when ${isLonger} then left(${value}::text, ${raw(String(characters))}) || '...' else ${value}::text end`;
}

/**
 * The label of a row in SQL.
 * @param characters the maximum length; the result has one character more if the label is longer
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
    const needed = next && mayLack(next) ? [hasValue(next)] : [];
    if (before.length > 0 && before.every(mayLack)) needed.push(sql`(${join(before.map(hasValue), ' or ')})`);
    return needed.length === 0
      ? literal(part)
      : sql`case when ${join(needed, ' and ')} then ${literal(part)} end`;
  };
  const parts = label.map((part, index) =>
    typeof part === 'string' ? text(part, index) : cutPart(value(part), part.column, characters),
  );
  return parts.length === 0
    ? raw("''::text")
    : sql`left(btrim(pg_catalog.concat(${join(parts, ', ')})), ${raw(String(characters + 1))})`;
}
