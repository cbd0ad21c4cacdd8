// The lists that people save as tabs, for themselves or for all.
import type { Database } from '../../db/connection/database.ts';
import type { Transaction } from '../../db/connection/transactions.ts';
import type { Model } from '../../db/schema/model.ts';
import { viewStatements, type SavedView } from '../../query/statements/system-statements.ts';
import type { Caller } from '../access/access.ts';

export type { SavedView };

/** Maximum views of one list that a user has, with the shared ones. */
export const MAX_VIEWS = 50;

export type SavedViews = ReturnType<typeof createSavedViews>;

/** @param table of the views. Only admins share views, and change shared ones. */
export function createSavedViews(database: Pick<Database, 'run'>, table: Model) {
  const of = (model: string, { id }: Caller) => viewStatements(table, model, id);
  return {
    list: (model: string, caller: Caller): Promise<SavedView[]> =>
      database.run(of(model, caller).list(), 'read'),

    /** @returns whether there was room for it */
    add: (
      model: string,
      caller: Caller,
      { title, query, isShared }: Omit<SavedView, 'id'>,
      run: Transaction['run'],
    ): Promise<boolean> => run(of(model, caller).add(title, query, isShared && caller.admin, MAX_VIEWS)),

    /** Renames a view, or deletes it without a title. @returns whether the caller may, and the view was there */
    change: (model: string, caller: Caller, id: string, title?: string): Promise<boolean> =>
      database.run(of(model, caller).change(id, title, caller.admin), 'write'),
  };
}
