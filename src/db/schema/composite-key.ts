// Keys that are made of columns. In JSON and in addresses such a key is one text: `12,34`, or the value of its only column.
import type { ColumnType, Facts, Parsed } from '../types/column-type.ts';
import { fromString, ORDERED } from '../types/column-type-parts.ts';
import { arrayItems, arrayText, raw, sql, type Fragment } from '../fragment.ts';
import { messageOf, type Message } from '../../messages.ts';

/** What a key needs to know of its columns. */
export interface KeyPart extends Facts {
  readonly key: string;
  readonly type: ColumnType;
}

/** A class of the characters that stay as they are in a key: the unreserved ones of RFC 3986. */
const UNRESERVED = '[A-Za-z0-9_.~-]';

/** Percent-encodes all characters that are not unreserved. `encodeURIComponent` leaves a few others. */
const encodePart = (text: string): string =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/** Joins the texts of a key's columns to the text of the key. That of one column is not encoded, since it needs no commas. */
export const joinKey = (texts: readonly string[]): string =>
  texts.length === 1 ? (texts[0] ?? '') : texts.map(encodePart).join(',');

/** Whether the text of a key has several values, separated by commas. */
export const hasSeveralColumns = ({ parts = [] }: Pick<Facts, 'parts'>): boolean => parts.length > 1;

/** The text of a key whose value in SQL is given. */
export const keyText = (value: string, { parts }: Facts): string =>
  parts ? joinKey(arrayItems(value)) : value;

function decodePart(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** The output of one of several columns of a key: percent-encoded, and with the fractions of a second that records do not show. */
export function partText(column: Fragment, part: KeyPart, isOnly: boolean): Fragment {
  const output = sql`${part.type.output(column, { ...part, fractionalSecondDigits: 0 })}::text`;
  if (isOnly || part.type.isUnreserved) return output;
  // Regular expressions do not support nondeterministic collations.
  const shown = sql`(${output} collate "C")`;
  const characters = sql`regexp_split_to_table(${shown}, '') with ordinality c (one, n)`;
  const bytes = raw(`regexp_replace(upper(encode(convert_to(one, 'UTF8'), 'hex')), '(..)', '%\\1', 'g')`);
  const encoded = sql`string_agg(case when one ~ ${raw(`'${UNRESERVED}'`)} then one else ${bytes} end, '' order by n)`;
  return sql`case when ${shown} ~ ${raw(`'^${UNRESERVED}*$'`)} then ${shown} else (select ${encoded} from ${characters}) end`;
}

/** Adds the fraction of a second of a text to its parsed value, which is in whole seconds. */
function withFraction(value: string, text: string): string {
  const fraction = /:\d\d(\.\d{1,6})/.exec(text)?.[1] ?? '';
  return value.replace(/(:\d\d)(?= BC$|$)/, `$1${fraction}`);
}

/** Refuses a text with more decimal places of seconds than the column keeps: PostgreSQL would round it to another key. */
export function tooManyPlaces(text: string, { fractionalSecondDigits }: Facts): Message | undefined {
  if (fractionalSecondDigits === undefined) return undefined;
  const places = /:\d\d\.(\d*[1-9])/.exec(text)?.[1]?.length ?? 0;
  return places > fractionalSecondDigits
    ? messageOf('tooManyPlaces', { max: fractionalSecondDigits, got: places })
    : undefined;
}

/** The texts of a key's columns, which may be more or fewer than the key has; undefined where one is not encoded correctly. */
export const partTexts = (text: string, parts: readonly unknown[]): (string | undefined)[] =>
  parts.length === 1 ? [text] : text.split(',', parts.length + 1).map(decodePart);

/** Splits the text of a key into the values of its columns, as PostgreSQL takes them. */
export function splitKey(text: string, parts: readonly KeyPart[]): readonly string[] | { fault: Message } {
  const texts = partTexts(text, parts);
  if (texts.length !== parts.length)
    return {
      fault: messageOf('notParts', { count: parts.length, names: parts.map(({ key }) => key).join(',') }),
    };
  const values: string[] = [];
  for (const [index, part] of parts.entries()) {
    const decoded = texts[index];
    const parsed: Parsed =
      decoded === undefined ? { fault: messageOf('notEncodedKey') } : part.type.parse(decoded, part);
    if (parsed.fault !== undefined)
      return { fault: messageOf('named', { name: part.key, fault: parsed.fault }) };
    values.push(part.fractionalSecondDigits ? withFraction(parsed.value, decoded ?? '') : parsed.value);
  }
  return values;
}

/** The type of a key that is made of columns. Its value in SQL is an array of their texts, see `cast`. */
export function compositeType(parts: readonly KeyPart[]): ColumnType {
  const parse = (text: string): Parsed => {
    const values = splitKey(text, parts);
    return 'fault' in values ? values : { value: arrayText(values) };
  };
  const examples = parts.map((part) => String(part.type.schema(part).example));
  const names = parts.map(({ key }) => key).join(',');
  const text = {
    type: 'string',
    description: parts.length === 1 ? `the value of ${names}` : `${names}, each percent-encoded`,
  };
  return {
    operators: ORDERED,
    castType: 'record',
    declare: () => 'record',
    accepts: [],
    parse,
    fromJson: fromString(parse),
    output: (column) => column,
    json: 'escaped', // so that CSV quotes it
    input: { control: 'text', json: 'string' },
    schema: () => ({ output: text, body: text, example: joinKey(examples) }),
  };
}
