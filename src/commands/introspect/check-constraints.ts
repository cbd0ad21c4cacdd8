// What check constraints say of a single column, as far as the registry can say it too: choices, and bounds of numbers.
import type { ColumnType } from '../../db/types/column-type.ts';
import type { Printed } from './default-value.ts';

/** Strings, names in quotes, casts, numbers, words, and other signs. Parentheses and white space do not match. */
const TOKENS =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|::(?:"[^"]+"|[\w. ])+(?:\(\d+(?:,\d+)?\))?(?:\[\])?|-?\d+(?:\.\d+)?|\w+|[<>=]+|[^\s()]/g;

/** The tokens of an expression without casts. The column, which is VALUE in the check of a domain, is `undefined`. */
function tokensOf(expression: string, field: string): (string | undefined)[] {
  const names = ['VALUE', field, `"${field.replaceAll('"', '""')}"`];
  return (expression.match(TOKENS) ?? [])
    .filter((token) => !token.startsWith('::'))
    .map((token) => (names.includes(token) ? undefined : token));
}

const literal = (token: string | undefined): string | undefined =>
  token?.startsWith("'")
    ? token.slice(1, -1).replaceAll("''", "'")
    : /^-?\d/.test(token ?? '')
      ? token
      : undefined;

/** Splits a list at the tokens that equal a separator. */
function split(tokens: readonly (string | undefined)[], separator: string): (string | undefined)[][] {
  const groups: (string | undefined)[][] = [[]];
  for (const token of tokens)
    if (token === separator) groups.push([]);
    else groups.at(-1)?.push(token);
  return groups;
}

/** The values of `x = any (array['a', 'b'])` or `x = 'a' or x = 'b'`. */
function valuesIn(tokens: readonly (string | undefined)[]): string[] | undefined {
  const isList = tokens.slice(0, 5).join(' ') === ' = ANY ARRAY [' && tokens.at(-1) === ']';
  const values = isList
    ? split(tokens.slice(5, -1), ',').map((item) => (item.length === 1 ? literal(item[0]) : undefined))
    : split(tokens, 'OR').map(([column, sign, value, ...rest]) =>
        column === undefined && sign === '=' && rest.length === 0 ? literal(value) : undefined,
      );
  return values.every((value) => value !== undefined) ? values : undefined;
}

/** The bounds of `x >= 0 and x <= 10`. `x > 0` is a bound only of whole numbers. */
function boundsIn(
  tokens: readonly (string | undefined)[],
  isWhole: boolean,
): { readonly min?: number; readonly max?: number } | undefined {
  const bounds: { min?: number; max?: number } = {};
  for (const [column, sign = '', value, ...rest] of split(tokens, 'AND')) {
    const number = Number(literal(value) ?? NaN);
    const isStrict = sign === '>' || sign === '<';
    if (column !== undefined || rest.length > 0 || !/^[<>]=?$/.test(sign)) return undefined;
    if (!Number.isSafeInteger(number) || (isStrict && !isWhole)) return undefined;
    if (sign.startsWith('>')) bounds.min = Math.max(bounds.min ?? -Infinity, isStrict ? number + 1 : number);
    else bounds.max = Math.min(bounds.max ?? Infinity, isStrict ? number - 1 : number);
  }
  return bounds;
}

/** The limits of a column in the registry that follow from its check constraints. Other constraints are left to PostgreSQL. */
export function limitsOf(
  checks: readonly string[],
  field: string,
  type: ColumnType,
): Readonly<Record<string, Printed>> {
  const { json, control } = type.input;
  const isText = control === 'text' || control === 'textarea';
  const isNumber = control === 'number' && json === 'number';
  for (const check of checks) {
    const tokens = tokensOf(check, field);
    const values = isText || isNumber ? valuesIn(tokens) : undefined;
    if (values) return { choices: isNumber ? [...new Set(values.map(Number))] : [...new Set(values)] };
  }
  if (!type.bounded) return {};
  const isWhole = type.castType === 'int4' || type.castType === 'int8';
  return Object.assign(
    {},
    ...checks.map((check) => boundsIn(tokensOf(check, field), isWhole) ?? {}),
  ) as Record<string, Printed>;
}
