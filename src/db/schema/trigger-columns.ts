// Finds out from the source of a table's triggers whether they fill or change a column of a new record.
import type { Trigger } from './catalog.ts';

/**
 * `filled`: a new record may lack the column. `perhaps`: the trigger may fill it, but not always, or its function cannot be
 * read. `changed`: it sets the column to something made of its value.
 */
export type TriggerEffect = 'filled' | 'perhaps' | 'changed';

export interface TriggerFinding {
  readonly effect: TriggerEffect;
  /** The name of the trigger. */
  readonly trigger: string;
}

/** Comments, strings, quoted names, words, and signs. */
const TOKENS =
  /--[^\n]*|\/\*[\s\S]*?\*\/|e'(?:[^'\\]|''|\\[\s\S])*'|'(?:[^']|'')*'|\$(\w*)\$[\s\S]*?\$\1\$|"(?:[^"]|"")*"|[\w$]+|:=|\S/gi;

/** The tokens of a function without comments: unquoted names are in lower case, and quoted ones lose their quotes. */
function tokensOf(source: string): string[] {
  return (source.match(TOKENS) ?? []).flatMap((token) => {
    if (token.startsWith('--') || token.startsWith('/*')) return [];
    if (token.startsWith('"')) return [token.slice(1, -1).replaceAll('""', '"')];
    return [/['$]/.test(token) ? token : token.toLowerCase()];
  });
}

function statementsOf(tokens: readonly string[]): string[][] {
  const statements: string[][] = [[]];
  for (const token of tokens)
    if (token === ';') statements.push([]);
    else statements.at(-1)?.push(token);
  return statements;
}

const ASSIGNMENT = [':=', '='];

/** The first words of statements after which the next one may not run. */
const CONTROL = new Set(
  'if case loop while for foreach return exit continue begin declare exception end raise <'.split(' '),
);

/** The position of each `new.field`. */
const mentions = (tokens: readonly string[], field: string): number[] =>
  tokens.flatMap((token, at) =>
    token === 'new' && tokens[at + 1] === '.' && tokens[at + 2] === field ? [at] : [],
  );

/** What a statement assigns to `new.field` as its first tokens. */
const assigned = (statement: readonly string[], field: string): readonly string[] | undefined =>
  mentions(statement.slice(0, 3), field).length > 0 && ASSIGNMENT.includes(statement[3] ?? '')
    ? statement.slice(4)
    : undefined;

/** Whether a value does not depend on what the client sent for the column, apart from `coalesce(new.field, …)`. */
function isOwnValue(value: readonly string[], field: string): boolean {
  const isFallback = value.slice(0, 6).join(' ') === `coalesce ( new . ${field} ,`;
  const rest = isFallback ? value.slice(6) : value;
  return mentions(rest, field).length === 0 && !['null', 'null )'].includes(rest.join(' '));
}

/** Whether the first statements of a function set the column of each new record that lacks it. */
function isCertain(statements: readonly (readonly string[])[], field: string): boolean {
  const condition = ['if', 'new', '.', field, 'is', 'null', 'then'];
  for (const [index, statement] of statements.entries()) {
    const value = assigned(statement, field);
    if (value) return isOwnValue(value, field);
    const isDefault = condition.every((token, at) => statement[at] === token);
    const initial = isDefault ? assigned(statement.slice(condition.length), field) : undefined;
    if (initial) return isOwnValue(initial, field) && statements[index + 1]?.join(' ') === 'end if';
    if (CONTROL.has(statement[0] ?? '')) return false;
  }
  return false;
}

/** Whether a function sets the whole record, handles exceptions, or returns another record. */
const isUnclear = (tokens: readonly string[]): boolean =>
  tokens.some(
    (token, at) =>
      (token === 'new' && tokens[at + 1] !== '.' && tokens[at - 1] !== 'return') ||
      (token === 'exception' && tokens[at + 1] === 'when') ||
      (token === 'return' && !/^(new|null) ;$/.test(tokens.slice(at + 1, at + 3).join(' '))),
  );

const mentionsWord = (text: string, field: string): boolean =>
  new RegExp(`(?<!\\w)${field.replace(/[$()*+./?[\\\]^{|}]/g, '\\$&')}(?!\\w)`, 'iu').test(text);

/** Functions of PostgreSQL and its extensions by their source, and which of their arguments name columns that they fill. */
const FILLED_ARGUMENTS: Readonly<Record<string, (index: number) => boolean>> = {
  tsvector_update_trigger_byid: (index) => index === 0,
  tsvector_update_trigger_bycolumn: (index) => index === 0,
  insert_username: (index) => index === 0,
  autoinc: (index) => index % 2 === 0,
  check_primary_key: () => false,
  check_foreign_key: () => false,
};

/** The arguments of a trigger, which PostgreSQL stores as bytes. */
const argumentsOf = (text: string): string[] =>
  Buffer.from(
    text.replace(/\\(\\|\d{3})/g, (_, code: string) =>
      code === '\\' ? code : String.fromCharCode(parseInt(code, 8)),
    ),
    'latin1',
  )
    .toString()
    .split('\0');

/** The effect of a trigger on a column; undefined if it does not set it. */
function effectOf(
  { language, source, arguments: given, isConditional }: Trigger,
  field: string,
): TriggerEffect | undefined {
  const fills = ['internal', 'c'].includes(language) ? FILLED_ARGUMENTS[source] : undefined;
  if (fills) {
    const isNamed = argumentsOf(given).some((name, index) => name === field && fills(index));
    return isNamed ? (isConditional ? 'perhaps' : 'filled') : undefined;
  }
  const tokens = tokensOf(source);
  const text = [...tokens, ...argumentsOf(given)].join(' ');
  // A comment inside of a comment would end too early.
  const isReadable = language === 'plpgsql' && !/\/\*(?:(?!\*\/)[\s\S])*\/\*/.test(source);
  if (!isReadable || isUnclear(tokens)) return mentionsWord(text, field) ? 'perhaps' : undefined;
  const found = mentions(tokens, field);
  if (found.length === 0) return undefined;
  const statements = statementsOf(tokens.slice(tokens.indexOf('begin') + 1));
  const isLost = statements.some(
    (statement) =>
      mentions(statement, field).some(
        (at) => ASSIGNMENT.includes(statement[at + 3] ?? '') && statement.slice(at + 4).join(' ') === 'null',
      ) ||
      (statement.includes('into') && mentions(statement, field).length > 0),
  );
  if (!isConditional && !isLost && isCertain(statements, field)) return 'filled';
  const values = found
    .filter(
      (at) =>
        [...ASSIGNMENT, '[', '.'].includes(tokens[at + 3] ?? '') &&
        [';', 'begin', 'then', 'else', 'loop', '>'].includes(tokens[at - 1] ?? ''),
    )
    .map((at) => tokens.slice(at + 4, tokens.indexOf(';', at)));
  if (isLost || values.some((value) => isOwnValue(value, field))) return 'perhaps';
  return values.length > 0 ? 'changed' : undefined;
}

/** The effect of the triggers on a column, and the trigger that has it; undefined if none sets the column. */
export function triggerEffect(triggers: readonly Trigger[], field: string): TriggerFinding | undefined {
  const found = triggers.flatMap((trigger) => {
    const effect = effectOf(trigger, field);
    return effect ? [{ effect, trigger: trigger.name }] : [];
  });
  // A later trigger may remove what another one has filled.
  return ['perhaps', 'filled', 'changed'].flatMap((effect) =>
    found.filter((one) => one.effect === effect),
  )[0];
}
