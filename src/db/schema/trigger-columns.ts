// Which columns of a new record a table's triggers certainly fill, by the names of their functions.
import type { Trigger } from './catalog.ts';

/** Functions of PostgreSQL and its extensions by their symbol, and which of their arguments name columns that they fill. */
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

/** The name of the trigger that certainly fills a column, if any. */
export const fillingTrigger = (triggers: readonly Trigger[], field: string): string | undefined =>
  triggers.find(({ builtIn, arguments: given, isConditional }) => {
    const fills = FILLED_ARGUMENTS[builtIn ?? ''];
    return (
      fills && !isConditional && argumentsOf(given).some((name, index) => name === field && fills(index))
    );
  })?.name;

/** The names of the triggers that may fill any column: only their functions know. */
export const unclearTriggers = (triggers: readonly Trigger[]): string[] =>
  triggers
    .filter(({ builtIn, isConditional }) => isConditional || !FILLED_ARGUMENTS[builtIn ?? ''])
    .map(({ name }) => name);
