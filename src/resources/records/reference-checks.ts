// Checks that the foreign keys of a write refer to records.
import { foreignKeysOf, partsOf, type Column, type Model } from '../../db/schema/model.ts';
import { addError, type FieldErrors } from '../../errors.ts';
import { messageOf, type Message } from '../../messages.ts';
import {
  isReferenceCheck,
  type Check,
  type ReferenceCheck,
  type WantedKeys,
} from '../../query/statements/check-statements.ts';
import type { Change } from '../../query/statements/write-plan.ts';
import { inApi } from '../access/access.ts';
import { isAlwaysShown, type ResourceView } from '../access/resource-view.ts';

export const FOREIGN_KEY_VIOLATION = '23503';

/** The names of columns: for people their titles, for programs their keys. */
export const namesOf = (columns: readonly Column[], { seenBy }: Pick<ResourceView, 'seenBy'>): string =>
  columns.map(({ title, key }) => (seenBy.surface === 'admin' ? title : key)).join(', ');

/**
 * The error of a foreign key that refers to no record, and the columns whose fields it names.
 * @param known the columns that the caller has sent or may see
 */
export function absentReference(
  foreignKey: Column,
  known: (part: Column) => boolean,
  resource: Pick<ResourceView, 'seenBy'>,
): { readonly parts: readonly Column[]; readonly message: Message } {
  const parts = partsOf(foreignKey).filter(known);
  const fields = namesOf(parts, resource);
  return {
    parts,
    message: parts.length === 1 ? { code: 'noSuchRecord' } : { code: 'noSuchRecordOf', params: { fields } },
  };
}

/** The body of a write, as far as its references are concerned. */
interface ReferencingBody {
  readonly changes: readonly Change[];
  readonly errors: FieldErrors;
  readonly checks: Check[];
}

/** Whether only the scope of the caller's token keeps the records of a model from the caller. */
const isOutOfScope = (model: Model, { mayRead, seenBy, for: seenFor }: ResourceView): boolean =>
  seenBy.scope !== undefined && !mayRead(model) && seenFor(inApi(seenBy)).mayRead(model);

/**
 * Adds a check for each foreign key that the body sets. A record that the caller may not read counts as missing. A PUT may keep such
 * a reference, and one to nothing, unless that would reveal the value of an excluded column.
 * @param sentAs the name under which the body has a foreign key of one column
 */
export function addReferenceChecks(
  { changes, errors, checks }: ReferencingBody,
  resource: ResourceView,
  isUpdate: boolean,
  sentAs: (column: Column) => string,
): void {
  const { model, owner, output, settable, mayRead } = resource;
  const changeOf = (part: Column): Change | undefined => changes.find(({ column }) => column === part);
  const { create, update } = settable;
  // Unless the client may, the service sets the owner.
  const isSent = (part: Column): boolean =>
    (part !== owner || (isUpdate ? update : create).has(part)) && changeOf(part) !== undefined;
  const hasFault = ({ key, name }: Column): boolean =>
    Object.hasOwn(errors, key) || Object.hasOwn(errors, name);
  /** The value after the write. Undefined if it is the present one, or if the database makes it. */
  const valueOf = (part: Column): string | null | undefined => {
    const change = changeOf(part);
    if (change) return change.value;
    return isUpdate || part.hasDefault || part.generated ? undefined : null;
  };
  const ownKey = isUpdate ? [] : partsOf(model.primaryKey).map(valueOf);
  for (const foreignKey of foreignKeysOf(model)) {
    const parts = partsOf(foreignKey);
    const { references, isFull } = foreignKey;
    if (!references || !parts.some(isSent) || parts.some(hasFault)) continue;
    const values = parts.map(valueOf);
    const isComplete = !values.includes(undefined);
    const nulls = values.filter((value) => value === null).length;
    const isItself = references === model && values.every((value, index) => value === ownKey[index]);
    if (nulls === parts.length || (nulls > 0 && !isFull) || (isItself && isComplete)) continue;
    const absent = absentReference(
      foreignKey,
      (part) => foreignKey.parts === undefined || output.includes(part) || isSent(part),
      resource,
    );
    const fieldNames = foreignKey.parts ? absent.parts.map(({ key }) => key) : [sentAs(foreignKey)];
    const fault = isOutOfScope(references, resource)
      ? messageOf('scopeLacks', { model: references.name })
      : absent.message;
    const mayKeep = isUpdate && parts.every((part) => isAlwaysShown(resource, part));
    if (!mayRead(references) && !mayKeep) {
      for (const name of fieldNames) addError(errors, name, fault);
    } else if (isUpdate || isComplete) {
      const kind = !mayRead(references) ? 'sameReference' : mayKeep ? 'keptReference' : 'reference';
      checks.push({ fieldNames, fault, column: foreignKey, values, kind });
    } // Else the database makes a value, and only its constraint can check the reference.
  }
}

/** Whether a check needs present values of the record in columns that the caller may not read. */
export const readsExcluded = (
  { column, values }: ReferenceCheck,
  resource: Pick<ResourceView, 'excluded' | 'model' | 'visibility'>,
): boolean =>
  partsOf(column).some((part, index) => values[index] === undefined && !isAlwaysShown(resource, part));

/** Several values as one text. */
const keyText = (values: readonly (string | null | undefined)[]): string => JSON.stringify(values);

/** A check of one of several new records. */
interface PlacedCheck {
  /** The index of the record. */
  readonly index: number;
  readonly check: ReferenceCheck;
}

/** The references of several new records to others. Each key is asked for once. */
export class ReferencesOfMany {
  readonly #byForeignKey = new Map<Column, PlacedCheck[]>();
  readonly wanted: readonly WantedKeys[];

  constructor(bodies: readonly Pick<ReferencingBody, 'changes' | 'checks'>[], model: Model) {
    const keyParts = partsOf(model.primaryKey);
    const ownKeys = new Set(
      bodies.map(({ changes }) =>
        keyText(keyParts.map((part) => changes.find(({ column }) => column === part)?.value)),
      ),
    );
    bodies.forEach(({ checks }, index) => {
      for (const check of checks.filter(isReferenceCheck)) {
        // Records may refer to each other.
        if (check.column.references === model && ownKeys.has(keyText(check.values))) continue;
        const known = this.#byForeignKey.get(check.column);
        if (known) known.push({ index, check });
        else this.#byForeignKey.set(check.column, [{ index, check }]);
      }
    });
    this.wanted = [...this.#byForeignKey].map(([foreignKey, placed]) => {
      const keys = new Map(placed.map(({ check: { values } }) => [keyText(values), values]));
      return { foreignKey, keys: [...keys.values()].map((values) => values.map((value) => value ?? null)) };
    });
  }

  /**
   * The checks that fail.
   * @param existing the answers for `wanted`
   */
  failures(existing: readonly (readonly boolean[])[]): PlacedCheck[] {
    return this.wanted.flatMap(({ foreignKey, keys }, at) => {
      const missing = new Set(keys.filter((_, position) => existing[at]?.[position] !== true).map(keyText));
      const placed = this.#byForeignKey.get(foreignKey) ?? [];
      return placed.filter(({ check }) => missing.has(keyText(check.values)));
    });
  }
}
