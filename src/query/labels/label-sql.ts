// Record labels: the text by which people know a record, in SQL and in JavaScript.
import { join, literal, raw, sql, type Fragment } from '../../db/fragment.ts';
import { mayBeNull, output, type Column } from '../../db/schema/model.ts';
import type { Joins } from '../plan.ts';

/** A column of a label, reached by a path of foreign keys. */
export interface LabelPath {
  readonly path: readonly Column[];
  readonly column: Column;
  /** Whether a label shows it only if no column before it has a value. */
  readonly isSubstitute?: boolean;
}

/** The parts of a label in order, texts and columns: `{first_name} {last_name}`. */
export type Label = readonly (string | LabelPath)[];

/** A text of a label. It is shown if each of these groups has a column with a value. Otherwise it could be left over. */
interface LabelText {
  readonly text: string;
  readonly needs: readonly (readonly LabelPath[])[];
}

/** The brackets and quotation marks that can enclose columns, and what closes them. */
const CLOSING: Readonly<Record<string, string>> = {
  '(': ')',
  '[': ']',
  '<': '>',
  '«': '»',
  '„': '“',
  '“': '”',
  '"': '"',
};

const columnsOf = (label: Label): LabelPath[] => label.filter((part) => typeof part !== 'string');

/** The position of the bracket that closes the one at `at`; `at` itself if there is none. */
function closingAt(tokens: Label, at: number): number {
  const open = tokens[at];
  const close = typeof open === 'string' ? CLOSING[open] : undefined;
  let depth = 0;
  for (let index = at + 1; close !== undefined && index < tokens.length; index += 1) {
    if (tokens[index] === close && depth === 0) return index;
    depth += tokens[index] === open ? 1 : tokens[index] === close ? -1 : 0;
  }
  return at;
}

/**
 * Finds out what the texts of a label need. An item is a column, or a pair of brackets with what it encloses.
 * - A text before an item, and brackets, need a value in the item, and one in an earlier item if there are any.
 * - A text at the end needs a value in the last item.
 * @param tokens the parts of the label, with each bracket as a separate text
 */
function partsOf(tokens: Label): (LabelText | LabelPath)[] {
  const parts: (LabelText | LabelPath)[] = [];
  let before: readonly LabelPath[] = [];
  let last: readonly LabelPath[] = [];
  let text = '';
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at] ?? '';
    const end = closingAt(tokens, at);
    const enclosed = tokens.slice(at + 1, end);
    const columns = typeof token === 'string' ? columnsOf(enclosed) : [token];
    if (typeof token === 'string' && columns.length === 0) {
      text += token;
      continue;
    }
    const needs = before.length > 0 ? [columns, before] : [columns];
    parts.push({ text, needs });
    if (typeof token !== 'string') parts.push(token);
    else parts.push({ text: token, needs }, ...partsOf(enclosed), { text: CLOSING[token] ?? '', needs });
    before = [...before, ...columns];
    last = columns;
    text = '';
    at = end;
  }
  return [...parts, { text, needs: last.length > 0 ? [last] : [] }];
}

/** The columns and the texts of a label in order. */
const analyzed = (label: Label): (LabelText | LabelPath)[] =>
  partsOf(
    label.flatMap((part): Label => (typeof part === 'string' ? part.split(/([()[\]<>«»„“”"])/) : [part])),
  ).filter((part) => !('text' in part) || part.text !== '');

/** The columns before a part, if the part is shown only without them. */
const replacedBy = (part: LabelPath, label: Label): readonly LabelPath[] =>
  part.isSubstitute ? columnsOf(label.slice(0, label.indexOf(part))) : [];

/** The label for those who see only some of its columns: without the others, and without the texts that need one of them. */
export const withoutHidden = (label: Label, isVisible: (part: LabelPath) => boolean): Label =>
  analyzed(label)
    .filter((part) => ('text' in part ? part.needs.every((group) => group.some(isVisible)) : isVisible(part)))
    .map((part) => ('text' in part ? part.text : part));

/** The label of a record with these values. Empty if no column has a value. */
export function joinLabel(label: Label, valueOf: (part: LabelPath) => string | null): string {
  const hasValue = (part: LabelPath): boolean => (valueOf(part) ?? '').trim() !== '';
  const isShown = (part: LabelText | LabelPath): boolean =>
    'text' in part
      ? part.needs.every((group) => group.some(hasValue))
      : !replacedBy(part, label).some(hasValue);
  return analyzed(label)
    .filter(isShown)
    .map((part) => ('text' in part ? part.text : valueOf(part)))
    .join('')
    .trim();
}

/** White space as an SQL literal. */
const SPACES = "E' \\t\\n\\r'";

const isText = ({ type }: Column): boolean => type.operators.has('ilike');

/** Whether its value may be missing. An empty text is missing, too. */
const mayLack = ({ path, column }: LabelPath): boolean => isText(column) || [...path, column].some(mayBeNull);

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
export function labelSql(alias: string, label: Label, joins: Joins, characters: number): Fragment {
  const value = ({ path, column }: LabelPath): Fragment =>
    output(
      path.reduce((from, step) => joins.follow(from, step) ?? from, alias),
      column,
    );
  const maximum = raw(String(characters));
  const hasValue = (part: LabelPath): Fragment =>
    isText(part.column)
      ? sql`btrim(left(${value(part)}::text, ${maximum}), ${raw(SPACES)}) <> ''`
      : sql`${value(part)} is not null`;
  const anyOf = (group: readonly LabelPath[]): Fragment => sql`(${join(group.map(hasValue), ' or ')})`;
  const text = ({ text: shown, needs }: LabelText): Fragment => {
    const uncertain = needs.filter((group) => group.every(mayLack));
    return uncertain.length === 0
      ? literal(shown)
      : sql`case when ${join(uncertain.map(anyOf), ' and ')} then ${literal(shown)} end`;
  };
  const parts = analyzed(label).map((part) => {
    if ('text' in part) return text(part);
    const cut = cutPart(value(part), part.column, characters);
    const others = replacedBy(part, label);
    return others.length === 0 ? cut : sql`case when ${anyOf(others)} then null else ${cut} end`;
  });
  return parts.length === 0
    ? raw("''::text")
    : sql`left(btrim(pg_catalog.concat(${join(parts, ', ')})), ${raw(String(characters + 1))})`;
}
