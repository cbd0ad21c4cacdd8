// Checks that the keys of a column agree with each other, and that it can hold its choices and its default.
import { faultIf, type KeyFault } from '../../errors.ts';
import {
  boundFacts,
  choiceValues,
  declaredFacts,
  FILLED_BY_DATABASE,
  typeOf,
  type ColumnDefinition,
  type ElementDefinition,
} from '../../db/schema/model-definition.ts';
import { COLUMN_TYPES } from '../../db/types/column-types.ts';
import { isRelative } from '../../db/types/dates.ts';
import type { ColumnType, Facts } from '../../db/types/column-type.ts';
import type { Resource } from '../definition/resource.ts';
import { SCALE_FAULT } from './registry-schema.ts';
import { jsonOf, printed, type Loose } from '../definition/validators.ts';
import { textOf } from '../../messages.ts';

/** The fault of a date or time as a bound. A time of day has no day. */
function checkMoment(bound: unknown, type: ColumnType, key: string): KeyFault[] {
  if (bound === undefined || bound === 'now' || (bound === 'today' && type !== COLUMN_TYPES.time)) return [];
  const { fault } = type.fromJson(bound, JSON.stringify(bound), { castType: type.castType });
  const isOfOtherForm = fault !== undefined && ['notDateTime', 'notDate', 'notTime'].includes(fault.code);
  const words = type === COLUMN_TYPES.time ? "'now'" : "'now' or 'today'";
  const others = isOfOtherForm ? `, or ${words}` : '';
  return fault ? [{ key, text: `${printed(bound)} ${textOf(fault)}${others}` }] : [];
}

/** The faults of limits. @param path goes before the keys: `elements.` */
function checkLimits(limits: ElementDefinition, type: ColumnType, path = ''): KeyFault[] {
  const { precision, scale } = limits;
  const { min, max, earliest, latest } = boundFacts(limits, type);
  const [from, to] = [min ?? earliest, max ?? latest];
  const isLiteral = ![from, to].some((bound) => typeof bound === 'string' && isRelative(bound));
  return [
    ...(type.now
      ? (['min', 'max'] as const).flatMap((key) => checkMoment(limits[key], type, path + key))
      : []),
    ...faultIf(
      from !== undefined && to !== undefined && isLiteral && from > to,
      `${path}min`,
      'must not be greater than max',
    ),
    ...faultIf(scale !== undefined && precision === undefined, `${path}scale`, 'requires precision'),
    ...faultIf(
      scale !== undefined && precision !== undefined && scale > precision,
      `${path}scale`,
      SCALE_FAULT,
    ),
  ];
}

/** Maximum characters of a text that a pattern is matched with: no other request is served meanwhile. */
const MAX_MATCHED = 10_000;

function checkPattern(column: ColumnDefinition): KeyFault[] {
  if (column.type !== 'string' && column.type !== 'text') return [];
  const { type, pattern, maxLength = type === 'text' ? Infinity : 0 } = column;
  return faultIf(
    pattern !== undefined && maxLength > MAX_MATCHED,
    'pattern',
    `requires a maxLength of at most ${MAX_MATCHED}`,
  );
}

/** The faults of tones of values that are no choices. */
function checkTones(column: ColumnDefinition, type: ColumnType): KeyFault[] {
  const { tones } = column as { readonly tones?: object };
  const choices = choiceValues(column.choices, type)?.map(String) ?? [];
  return Object.keys(tones ?? {})
    .filter((value) => !choices.includes(value))
    .map((value) => ({ key: `tones.${value}`, text: 'is not one of the choices' }));
}

/** The faults of a column. A foreign key refers to an existing model. */
export function checkColumn(column: ColumnDefinition, resources: readonly Resource[]): KeyFault[] {
  const isSetNull = column.type === 'foreignKey' && column.onDelete === 'setNull';
  const type = typeOf(column, resources);
  const limits = column.type === 'array' ? (column.elements ?? {}) : (column as ElementDefinition);
  const faults = [
    ...checkLimits(limits, type.element ?? type, type.element ? 'elements.' : ''),
    ...checkPattern(column),
    ...checkTones(column, type),
    ...faultIf('widget' in column && column.choices !== undefined, 'widget', 'has no effect on choices'),
    ...faultIf(isSetNull && column.null !== true, 'onDelete', 'setNull requires null: true'),
  ];
  return faults.length > 0 ? faults : checkValues({ ...column }, type);
}

/** Whether a number may have lost digits when JavaScript read the file, while its type would keep them all. */
const isUnsafe = (value: unknown, { input }: ColumnType): boolean =>
  typeof value === 'number' &&
  Number.isFinite(value) &&
  Math.abs(value) > Number.MAX_SAFE_INTEGER &&
  input.control === 'number' &&
  input.json === 'string';

/** Why a column cannot hold a value, if so. */
function faultOf(value: unknown, column: Loose, type: ColumnType): string | undefined {
  const source = jsonOf(value);
  const notJson = source === undefined ? 'cannot be written as JSON' : undefined;
  if (isUnsafe(value, type)) return 'may have lost digits: write it as a string';
  const declared = declaredFacts(column as unknown as ColumnDefinition, type);
  const facts: Facts = type.element
    ? declared
    : { ...declared, ...(column as Partial<Facts>), ...boundFacts(column, type) };
  if (notJson && type.input.json === 'json') return notJson;
  const { fault } = type.fromJson(value, source ?? '', facts);
  return fault ? textOf(fault) : notJson;
}

/** The faults of choices that a column cannot hold, else those of its default. */
export function checkValues(column: Loose, type: ColumnType): KeyFault[] {
  const { element } = type;
  const { default: value } = column;
  const choices = choiceValues(column['choices'] as ColumnDefinition['choices'], element ?? type);
  const elements = { ...(column['elements'] as Loose | undefined), type: column['of'] };
  const faults = (choices ?? []).flatMap((choice) => {
    const text = element ? faultOf(choice, elements, element) : faultOf(choice, column, type);
    return text ? [{ key: 'choices', text: `${printed(choice)} ${text}` }] : [];
  });
  if (faults.length > 0 || value === undefined || (value === 'now' && type.now)) return faults;
  if (value === FILLED_BY_DATABASE)
    return faultIf(column['null'] === true, 'default', "'database' is for columns that are NOT NULL");
  const text =
    value === null
      ? 'is not allowed: leave the default out and set null: true'
      : faultOf(value, column, type);
  if (text) return [{ key: 'default', text: `${printed(value)} ${text}` }];
  return faultIf(
    choices !== undefined && !element && !choices.includes(value),
    'default',
    'is not one of the choices',
  );
}
