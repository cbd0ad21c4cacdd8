// Privileges that the database role needs for a table or view, and lacks.
import type { CatalogTable } from './catalog.ts';
import { fieldOf, type ModelDefinition } from './model-definition.ts';

export type Privilege = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE';

/**
 * Whether the role has a privilege: on the table, or on each column that needs it. Reads need every column; read-only columns
 * are not written.
 */
function isGranted(
  privilege: Privilege,
  definition: ModelDefinition & { readonly readonly?: readonly string[] },
  found: CatalogTable,
): boolean {
  if (found.privileges.includes(privilege)) return true;
  if (privilege === 'DELETE') return false;
  const written = Object.entries(definition.columns)
    .filter(([name]) => !definition.readonly?.includes(name))
    .map(([name, column]) => fieldOf(name, column));
  return found.columns
    .filter(({ field, generated }) => privilege === 'SELECT' || (written.includes(field) && !generated))
    .every(({ granted }) => granted.includes(privilege));
}

/** What the role may not do. @param needs the privileges that the service needs for the table */
export const missingPrivileges = (
  needs: readonly Privilege[],
  definition: ModelDefinition,
  found: CatalogTable,
): string[] => [
  ...needs
    .filter((privilege) => !isGranted(privilege, definition, found))
    .map((privilege) => `the database role may not ${privilege}`),
  ...found.unreadable.map(
    (name) =>
      `the database role may not SELECT from ${name}, which this view reads with the role's own privileges (security_invoker)`,
  ),
  ...(needs.includes('INSERT') ? found.unusableSequences : []).map(
    (sequence) => `the database role may not use the sequence ${sequence}`,
  ),
];
