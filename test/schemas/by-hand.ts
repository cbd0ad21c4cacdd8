// What the schemas need besides values of the right types: rules that no catalog describes.
import type { ByHand } from './fill.ts';

/** By schema, table and column. */
export const BY_HAND: Readonly<Record<string, ByHand>> = {
  ledgersmb: {
    entity_credit_account: { entity_class: 1 },
    ar: { approved: false },
    budget_info: { start_date: '2026-01-01', end_date: '2026-12-31' },
  },
  // A text that a trigger casts to JSON.
  kea: { lease4: { user_context: '{}' }, lease6: { user_context: '{}' } },
};

/** SQL that runs after a schema was loaded, by schema. */
export const SETUP: Readonly<Record<string, string>> = {
  // Triggers note the user of the application who is logged in, and find that user by the database role.
  ledgersmb: `
    with e as (
      insert into entity (name, entity_class, country_id, control_code)
      select 'Bench', 3, min(id), 'bench' from country returning id
    ), p as (
      insert into person (entity_id, first_name, last_name) select id, 'Bench', 'User' from e
    )
    insert into users (username, entity_id) select session_user, id from e`,
  // Triggers refuse changes outside of a revision. The schema has a setting that turns them off.
  kea: `do $$ begin execute format('alter database %I set kea.disable_audit = true', current_database()); end $$`,
};

/** Answers of 500 that are right: the schema has an error. By schema, step and model. */
export const EXPLAINED: Readonly<Record<string, string>> = {
  'kea: change dhcp4_audit': 'its trigger for changes uses a column that the table does not have',
  'kea: change dhcp6_audit': 'its trigger for changes uses a column that the table does not have',
};
