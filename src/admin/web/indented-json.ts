// JSON with line breaks and indentation, as a form shows what PostgreSQL outputs in one line.

/** Maximum length of JSON that is indented (characters): a longer text would block the event loop. */
const LONGEST = 65_536;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[^\s,:[\]{}"]+|[,:[\]{}]/g;
const STEP = '  ';

/** The bytes of a line break in a sent form (`%0D%0A`), and the most bytes of an ASCII character. */
const BREAK_BYTES = 6;
const CHARACTER_BYTES = 3;
/** Bytes that the indentation of any JSON may add. */
const SPARE_BYTES = 256;

/** The position of the bracket that ends an empty object, or an array without objects and arrays; -1 for others. */
function endInLine(tokens: readonly string[], at: number): number {
  if (tokens[at] === '{') return tokens[at + 1] === '}' ? at + 1 : -1;
  if (tokens[at] !== '[') return -1;
  let end = at + 1;
  while (!['[', ']', '{', undefined].includes(tokens[end])) end += 1;
  return tokens[end] === ']' ? end : -1;
}

/**
 * The JSON with a line for each member of an object, and for each object and array in an array. The values keep their texts, so no
 * digit is lost.
 * @param source valid JSON
 * @returns the source itself if it has line breaks already, or if it could make a form too large to be sent
 */
export function indentedJson(source: string): string {
  if (source.length > LONGEST || !/^[[{]/.test(source) || /[\r\n]/.test(source)) return source;
  const tokens = source.match(TOKEN) ?? [];
  const parts: string[] = [];
  let depth = 0;
  let added = 0;
  const breakLine = (): void => {
    parts.push('\n', STEP.repeat(depth));
    added += BREAK_BYTES + STEP.length * depth;
  };
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at] ?? '';
    const end = endInLine(tokens, at);
    if (token === ']' || token === '}') {
      depth -= 1;
      breakLine();
    }
    if (end < 0) parts.push(token === ':' ? ': ' : token);
    else for (; at <= end; at += 1) parts.push(tokens[at] === ',' ? ', ' : (tokens[at] ?? ''));
    if (end >= 0) at = end;
    else if (token === '[' || token === '{') {
      depth += 1;
      breakLine();
    } else if (token === ',') breakLine();
    if (added > CHARACTER_BYTES * source.length + SPARE_BYTES) return source;
  }
  return parts.join('');
}
