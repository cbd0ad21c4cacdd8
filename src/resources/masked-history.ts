import type { Fragment } from '../db/fragment.ts';
import type { Model } from '../db/model.ts';
import { maskedHistory, type ShownKeys } from '../query/masked-history.ts';
import type { AdminResource } from './admin.ts';

/** What the history shows of a resource: the columns that the admin area shows now. */
function shownKeys({ output, passwords }: AdminResource): ShownKeys {
  return Object.fromEntries([
    ...output.map(({ key }) => [key, 'value'] as const),
    ...passwords.map(({ key }) => [key, 'password'] as const),
  ]);
}

const withRelation = (history: AdminResource, relation: Fragment): AdminResource => ({
  ...history,
  model: { ...history.model, relation },
});

/**
 * The history as the admin area may show it: whatever was written down, it has only what these resources show now.
 * @param history the resource of the log's table
 * @param hidden the models that the admin area leaves out. A key that the database generates says nothing about its record;
 * other keys are data, and are hidden as well.
 */
export function maskHistory(
  history: AdminResource,
  resources: readonly AdminResource[],
  hidden: readonly Model[],
): AdminResource {
  const numbered = hidden.filter(({ primaryKey }) => primaryKey.hasDefault);
  const shown = [
    ...numbered.map(({ name }) => [name, {}] as const),
    ...resources.map((resource) => [resource.name, shownKeys(resource)] as const),
  ];
  return withRelation(history, maskedHistory(history.model, Object.fromEntries(shown)));
}

/** The same for the changes of one resource. */
export const historyOf = (history: AdminResource, resource: AdminResource): AdminResource =>
  withRelation(
    history,
    maskedHistory(history.model, { [resource.name]: shownKeys(resource) }, resource.name),
  );
