// The facts of a column that its type works with: from the catalog, or else from the registry.
import type { ColumnType, Facts } from '../types/column-type.ts';
import { fractionalSecondDigitsOf, isWithTime, lengthOf, scalarOf, type CatalogColumn } from './catalog.ts';
import {
  boundFacts,
  declaredFacts,
  type ColumnDefinition,
  type ElementDefinition,
} from './model-definition.ts';

/** The facts of one column. */
type OwnFacts = Omit<Facts, 'parts'>;

/** The facts of an existing column, from the catalog. */
export function storedFacts(stored: CatalogColumn): OwnFacts {
  const { modifier, castType, labels, isDomain } = stored;
  const type = scalarOf(stored);
  const isArray = type !== stored.type;
  const numeric = type === 'numeric' && modifier > 4;
  // The type modifier of numeric(p,s) is p * 65536 + s + 4. Since PostgreSQL 15 the scale is a signed 11-bit number.
  const scale = (((modifier - 4) & 0x7ff) ^ 1024) - 1024;
  const facts: Facts = {
    castType,
    labels: labels ?? undefined,
    needsCast: isDomain && (type === 'enum' || isArray),
    collation: stored.collation ?? undefined,
    isNondeterministic: !stored.isDeterministic,
    maxLength: lengthOf(stored),
    storedLength: lengthOf(stored),
    precision: numeric ? ((modifier - 4) >> 16) & 0xffff : undefined,
    scale: numeric ? scale : undefined,
    fractionalSecondDigits: isWithTime(stored) ? fractionalSecondDigitsOf(stored) : undefined,
  };
  if (!isArray) return facts;
  const element = { ...facts, castType: castType.replace(/\[\]$/, ''), needsCast: false, nullable: true };
  return { castType, needsCast: facts.needsCast, elementFacts: element };
}

interface Limits extends ElementDefinition {
  readonly minLength?: number;
  readonly pattern?: string;
}

/** The facts of a column, or of the elements of an array, together with the limits of the registry. */
const limited = <T extends Facts>(
  facts: T,
  { maxLength, minLength, pattern, ...bounds }: Limits,
  type: ColumnType,
): T => ({
  ...facts,
  maxLength: smaller(facts.maxLength, maxLength),
  minLength,
  pattern,
  ...boundFacts(bounds, type),
});

/** The facts of a column with the limits of the registry. Those of an array are the limits of its elements. */
export function factsOf(
  definition: ColumnDefinition,
  type: ColumnType,
  stored: CatalogColumn | undefined,
): OwnFacts {
  const declared = declaredFacts(definition, type);
  const facts = stored ? storedFacts(stored) : declared;
  if (!facts.elementFacts || definition.type !== 'array') return limited(facts, definition as Limits, type);
  const elementFacts = limited(facts.elementFacts, definition.elements ?? {}, type.element ?? type);
  const { nullable = true, choices } = declared.elementFacts ?? {};
  return { ...facts, elementFacts: { ...elementFacts, nullable, choices } };
}

const smaller = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
