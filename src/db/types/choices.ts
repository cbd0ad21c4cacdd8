// Checks values against the choices of a column.
import type { ColumnType, Facts, Parsed } from './column-type.ts';
import { isSameNumber } from './json-values.ts';

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
  const isAllowed = (value: string): boolean =>
    allowed.includes(value) || (type.bounded === true && allowed.some((one) => isSameNumber(one, value)));
  const names = choices.map((choice) => (typeof choice === 'string' ? choice : JSON.stringify(choice)));
  return (parsed) =>
    parsed.fault !== undefined || isAllowed(parsed.value)
      ? parsed
      : { ...parsed, fault: `must be one of ${names.join(', ')}` };
}
