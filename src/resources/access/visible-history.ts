// Masks the history, so that it shows no more of a record than the admin area does.
import type { Fragment } from '../../db/fragment.ts';
import { maskedHistory, type ShownKeys } from '../../query/entries/masked-history-sql.ts';
import type { Column, Model } from '../../db/schema/model.ts';

/** The parts of an admin resource that decide what its history shows. */
interface ShownResource {
  readonly name: string;
  readonly model: Model;
  readonly output: readonly Column[];
  readonly passwords: readonly Column[];
}

/** The JSON keys that the history shows of a resource: those of the columns that the admin area shows now. */
function shownKeys({ output, passwords }: ShownResource): ShownKeys {
  return Object.fromEntries([
    ...output.map(({ key }) => [key, 'value'] as const),
    ...passwords.map(({ key }) => [key, 'password'] as const),
  ]);
}

const withRelation = <T extends ShownResource>(history: T, relation: Fragment): T => ({
  ...history,
  model: { ...history.model, relation },
});

/**
 * The history with only the values that the admin area shows now. It may have recorded more before.
 * @param history the resource of the history's table
 * @param hidden the models that the admin area does not show. Of their records the history shows only keys that the database
 * generates. Any other key is data, so the history hides it.
 */
export function maskHistory<T extends ShownResource>(
  history: T,
  resources: readonly ShownResource[],
  hidden: readonly Model[],
): T {
  const withGeneratedKeys = hidden.filter(({ primaryKey: { hasDefault, parts } }) => hasDefault && !parts);
  const shown = [
    ...withGeneratedKeys.map(({ name }) => [name, {}] as const),
    ...resources.map((resource) => [resource.name, shownKeys(resource)] as const),
  ];
  return withRelation(history, maskedHistory(history.model, Object.fromEntries(shown)));
}

/** The history of one resource, with only the values that the admin area shows now. */
export const historyOf = <T extends ShownResource>(history: T, resource: ShownResource): T =>
  withRelation(
    history,
    maskedHistory(history.model, { [resource.name]: shownKeys(resource) }, resource.name),
  );
