// JSON with line breaks and indentation, as a form shows what PostgreSQL outputs in one line.
import { indentJson } from '../../resources/records/json-fields.ts';

/** Maximum length of JSON that is indented (characters): a longer text would block the event loop. */
const LONGEST = 65_536;
/** An array without objects and arrays, with a line for each element. Texts in JSON have no line breaks. */
const FLAT = /\[\n((?:[^[\]{}"]|"(?:[^"\\]|\\.)*")*)\n *\]/g;

/** Bytes that a line break takes in a sent form (`%0D%0A`) besides its own, and the most bytes of an ASCII character. */
const BREAK_BYTES = 5;
const CHARACTER_BYTES = 3;
/** Bytes that the indentation of any JSON may add. */
const SPARE_BYTES = 256;

/**
 * The JSON with a line for each member of an object, and for each object and array in an array. The values keep their texts, so no
 * digit is lost.
 * @param source valid JSON
 * @returns the source itself if it has line breaks already, or if it could make a form too large to be sent
 */
export function indentedJson(source: string): string {
  if (source.length > LONGEST || !/^[[{]/.test(source) || /[\r\n]/.test(source)) return source;
  const flattened = (_: string, elements: string): string =>
    `[${elements.trimStart().replace(/\n */g, ' ')}]`;
  const text = indentJson(source).replace(FLAT, flattened);
  const breaks = text.split('\n').length - 1;
  const added = text.length - source.length + BREAK_BYTES * breaks;
  return added > CHARACTER_BYTES * source.length + SPARE_BYTES ? source : text;
}
