// Arrays as people type them: one element per line, or a JSON array for those that lines cannot express.
import type { ColumnType } from '../../db/types/column-type.ts';
import { scanJson } from '../../db/types/json-scanner.ts';
import { jsonElements } from '../../db/types/json-elements.ts';
import { MAX_ELEMENTS } from '../../db/types/array-types.ts';
import { jsonFieldOf } from '../../resources/records/json-fields.ts';

/** Maximum lines of a field, empty ones included. */
const MAX_LINES = 2 * MAX_ELEMENTS;

/** Maximum length of an array that is shown in lines (characters): reading a longer one would block the event loop. */
const LONGEST = 65_536;

/** An element as one line; undefined if a line cannot express it: NULL, an empty text, outer spaces. */
function lineOf(element: unknown, isFirst: boolean): string | undefined {
  if (typeof element !== 'string' || element === 'null') return undefined;
  const text = element.startsWith('"') ? (JSON.parse(element) as string) : element;
  const isPlain =
    text !== '' && text.trim() === text && !/[\r\n]/.test(text) && !(isFirst && text.startsWith('['));
  return isPlain ? text : undefined;
}

/**
 * The elements of an array as texts, if a line can express each of them.
 * @param source the array as JSON, or the beginning of it
 */
export function linesOf(source: string): string[] | undefined {
  const mayBeArray = source.length <= LONGEST && source.startsWith('[') && source.endsWith(']');
  const isWhole = mayBeArray && typeof scanJson(source) !== 'number';
  const elements = isWhole ? jsonElements(source, MAX_ELEMENTS) : undefined;
  const lines = elements?.map((element, index) => lineOf(element, index === 0));
  return lines?.every((line) => line !== undefined) ? lines : undefined;
}

/**
 * The text of an array in a form. An empty field means NULL where the column allows it.
 * @param source the array as JSON
 * @param show gives the line of an element
 */
export function arrayToText(source: string, isNullable: boolean, show: (element: string) => string): string {
  const lines = linesOf(source);
  return lines && (lines.length > 0 || !isNullable) ? lines.map(show).join('\n') : source;
}

/**
 * The JSON of an array that was typed into a form. Empty lines are ignored.
 * @param read gives the element of a line
 * @returns the text itself for JSON, and for more lines than an array may have
 */
export function textToArray(text: string, element: ColumnType, read: (line: string) => string): string {
  if (text === '' || text.startsWith('[')) return text;
  const all = text.split('\n', MAX_LINES + 1);
  const lines = all.flatMap((line) => line.trim() || []);
  if (all.length > MAX_LINES || lines.length > MAX_ELEMENTS) return text;
  const jsonOf = (line: string): string => {
    const value = read(line);
    const field = jsonFieldOf({ type: element }, value);
    return 'source' in field ? field.source : JSON.stringify(value);
  };
  return `[${lines.map(jsonOf).join(',')}]`;
}
