import { join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { output, type Column } from '../../db/schema/model.ts';

/** PostgreSQL's functions take 100 arguments. */
const MOST_ARGUMENTS = 90;

const literal = (text: string): Fragment => raw(`'${text}'`);

/** The JSON value of a column whose quotes, if it has any, stand outside; never NULL. */
function jsonValue(alias: string, column: Column): Fragment {
  const shown = output(alias, column);
  const { json } = column.type;
  const bare = json === 'escaped' ? sql`to_json(${shown})` : shown;
  if (!column.nullable) return bare;
  return json === 'quoted'
    ? sql`coalesce('"' || ${shown} || '"', 'null')`
    : sql`coalesce(${bare}::text, 'null')`;
}

function concat(parts: readonly Fragment[]): Fragment {
  const groups: Fragment[] = [];
  for (let at = 0; at < parts.length; at += MOST_ARGUMENTS) {
    groups.push(sql`concat(${join(parts.slice(at, at + MOST_ARGUMENTS), ', ')})`);
  }
  return groups.length === 1 && groups[0] ? groups[0] : sql`concat(${join(groups, ', ')})`;
}

function build(alias: string, columns: readonly Column[]): Fragment {
  const parts: Fragment[] = [];
  let between = '{';
  columns.forEach((column, index) => {
    const quote = column.type.json === 'quoted' && !column.nullable ? '"' : '';
    parts.push(
      literal(`${between}${index === 0 ? '' : ','}"${column.key}":${quote}`),
      jsonValue(alias, column),
    );
    between = quote;
  });
  return concat([...parts, literal(`${between}}`)]);
}

const members = new WeakMap<Column, Map<string, Fragment>>();

/** `"key":value` of one column, complete with its quotes. */
export function member(alias: string, column: Column): Fragment {
  const made = members.get(column) ?? new Map<string, Fragment>();
  const known = made.get(alias);
  if (known) return known;
  const quote = column.type.json === 'quoted' && !column.nullable ? '"' : '';
  const parts = [literal(`"${column.key}":${quote}`), jsonValue(alias, column)];
  const fragment = concat(quote === '' ? parts : [...parts, literal(quote)]);
  members.set(column, made.set(alias, fragment));
  return fragment;
}

/** The expressions that were made already: a resource always outputs the same columns. */
const known = new WeakMap<readonly Column[], Map<string, Fragment>>();

/**
 * A record's JSON as one expression: its texts put together, which costs PostgreSQL half of what its functions for JSON do
 * (they look up names and types for every row). Keys are registry names, so none has a character that needs escaping.
 */
export function record(alias: string, columns: readonly Column[]): Fragment {
  const made = known.get(columns) ?? new Map<string, Fragment>();
  const fragment = made.get(alias) ?? build(alias, columns);
  known.set(columns, made.set(alias, fragment));
  return fragment;
}
