import type { Fragment } from '../../db/fragment.ts';
import { maskedHistory, type ShownKeys } from '../../query/statements/masked-history-sql.ts';
import type { Column, Model } from '../../db/schema/model.ts';

/** What of a resource of the admin area decides about its history. */
interface Recorded {
  readonly name: string;
  readonly model: Model;
  readonly output: readonly Column[];
  readonly passwords: readonly Column[];
}

/** What the history shows of a resource: the columns that the admin area shows now. */
function shownKeys({ output, passwords }: Recorded): ShownKeys {
  return Object.fromEntries([
    ...output.map(({ key }) => [key, 'value'] as const),
    ...passwords.map(({ key }) => [key, 'password'] as const),
  ]);
}

const withRelation = <T extends Recorded>(history: T, relation: Fragment): T => ({
  ...history,
  model: { ...history.model, relation },
});

/**
 * The history as the admin area may show it: whatever was written down, it has only what these resources show now.
 * @param history the resource of the log's table
 * @param hidden the models that the admin area leaves out. A key that the database generates says nothing about its record;
 * other keys are data, and are hidden as well.
 */
export function maskHistory<T extends Recorded>(
  history: T,
  resources: readonly Recorded[],
  hidden: readonly Model[],
): T {
  const numbered = hidden.filter(({ primaryKey }) => primaryKey.hasDefault);
  const shown = [
    ...numbered.map(({ name }) => [name, {}] as const),
    ...resources.map((resource) => [resource.name, shownKeys(resource)] as const),
  ];
  return withRelation(history, maskedHistory(history.model, Object.fromEntries(shown)));
}

/** The same for the changes of one resource. */
export const historyOf = <T extends Recorded>(history: T, resource: Recorded): T =>
  withRelation(
    history,
    maskedHistory(history.model, { [resource.name]: shownKeys(resource) }, resource.name),
  );
