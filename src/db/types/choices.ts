// Checks values against the choices of a column.
import type { ColumnType, Facts, Parsed } from './column-type.ts';
import { numberKey } from './json-values.ts';
import { messageOf, type Message } from '../../messages.ts';

/**
 * Returns a function that adds a fault to values other than the choices. Numbers compare by value: 1.5 equals "1.50".
 * @param choices the choices of the registry; undefined for any value
 */
export function checkChoice(
  type: ColumnType,
  facts: Facts,
  choices: readonly unknown[] | undefined,
): (parsed: Parsed) => Parsed {
  if (!choices) return (parsed) => parsed;
  const allowed = choices.flatMap((choice) => {
    const { value } = type.fromJson(choice, JSON.stringify(choice), facts);
    return value === undefined ? [] : [value];
  });
  const texts = new Set(allowed);
  // Most values are written like a choice. An array compares up to 10,000 elements, so each is parsed once at most.
  let keys: ReadonlySet<string> | undefined;
  const isAllowed = (value: string): boolean => {
    if (texts.has(value)) return true;
    if (type.bounded !== true) return false;
    keys ??= new Set(allowed.map(numberKey));
    return keys.has(numberKey(value));
  };
  let fault: Message | undefined;
  const choiceFault = (): Message => {
    if (fault !== undefined) return fault; // an array may need it 10,000 times
    const names = choices.map((choice) => (typeof choice === 'string' ? choice : JSON.stringify(choice)));
    return (fault = messageOf('notOneOf', { names: names.join(', ') }));
  };
  return (parsed) =>
    parsed.fault !== undefined || isAllowed(parsed.value) ? parsed : { ...parsed, fault: choiceFault() };
}
