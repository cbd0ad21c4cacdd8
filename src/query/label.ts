import { EMPTY, join, raw, sql, table, type Fragment } from '../db/fragment.ts';
import { output, reference, type Column } from '../db/model.ts';

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

const mayBeNull = ({ path, column }: LabelPath): boolean =>
  [...path, column].some(({ nullable }) => nullable);

/**
 * The label of a record as one text. What is NULL is left out, with the text before it, the text at the start without a column
 * before it, and the text at the end behind it: `{title} ({year})` without a year is the title. So it may be empty.
 */
export function labelSql(alias: string, label: Label, joins: LabelJoins): Fragment {
  const value = ({ path, column }: LabelPath): Fragment =>
    output(
      path.reduce((from, step) => joins.follow(from, step), alias),
      column,
    );
  const columns = label.flatMap((part, index) => (typeof part === 'string' ? [] : [{ ...part, index }]));
  /** A text between two columns stands there for both: without one of them it separates nothing. */
  const text = (part: string, index: number): Fragment => {
    const next = columns.find((column) => column.index > index);
    const before = columns.filter((column) => column.index < index);
    const needed = next && mayBeNull(next) ? [sql`${value(next)} is not null`] : [];
    // What opens a bracket belongs to the column in it alone, and what closes one to the column before.
    const isOpening = /[([{<„“«]\s*$/.test(part);
    const last = next ? (isOpening ? [] : before) : before.slice(-1);
    if (last.length > 0 && last.every(mayBeNull))
      needed.push(
        sql`(${join(
          last.map((column) => sql`${value(column)} is not null`),
          ' or ',
        )})`,
      );
    return needed.length === 0
      ? literal(part)
      : sql`case when ${join(needed, ' and ')} then ${literal(part)} end`;
  };
  const parts = label.map((part, index) => (typeof part === 'string' ? text(part, index) : value(part)));
  return parts.length === 0 ? raw("''::text") : sql`btrim(concat(${join(parts, ', ')}))`;
}
