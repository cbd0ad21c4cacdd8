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

/** The label of a record as one text; what is NULL is left out, so that it may be empty. */
export function labelSql(alias: string, label: Label, joins: LabelJoins): Fragment {
  const parts = label.map((part) => {
    if (typeof part === 'string') return literal(part);
    const at = part.path.reduce((from, column) => joins.follow(from, column), alias);
    return output(at, part.column);
  });
  return parts.length === 0 ? raw("''::text") : sql`btrim(concat(${join(parts, ', ')}))`;
}
