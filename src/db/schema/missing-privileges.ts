// Privileges that the database role needs for a table or view, and lacks.
import type { CatalogTable } from './catalog.ts';
import { isKeyMade } from './catalog-keys.ts';
import { COLUMN_TYPES } from '../types/column-types.ts';
import { isPresent } from '../types/dates.ts';
import { fieldOf, keyFieldsOf, keyNamesOf, type ModelDefinition } from './model-definition.ts';

export type Privilege = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE';

type Definition = ModelDefinition & { readonly readonly?: readonly string[]; readonly owner?: string };

/**
 * The columns that a write sets: not the version and the read-only ones. An INSERT also sets the owner, the present day, and a key that the
 * database does not make. An UPDATE sets no part of a key.
 */
function writtenFields(
  privilege: 'INSERT' | 'UPDATE',
  definition: Definition,
  found: CatalogTable,
): string[] {
  const isInsert = privilege === 'INSERT';
  const { columns, owner, readonly, version } = definition;
  const keyNames = keyNamesOf(definition);
  const isSet = (name: string): boolean => {
    if (name === version || (!isInsert && keyNames?.includes(name))) return false;
    const isToday = columns[name]?.type === 'date' && isPresent(columns[name].default, COLUMN_TYPES.date);
    return !readonly?.includes(name) || (isInsert && (name === owner || isToday));
  };
  const written = Object.entries(columns).filter(([name]) => isSet(name));
  const sendsKey = isInsert && keyNames === undefined && !isKeyMade(definition, found);
  return [
    ...written.map(([name, column]) => fieldOf(name, column)),
    ...(sendsKey ? keyFieldsOf(definition) : []),
  ];
}

/** Whether the role has a privilege: on the table, or on each column that needs it. Reads need every column. */
function isGranted(privilege: Privilege, definition: Definition, found: CatalogTable): boolean {
  if (found.privileges.includes(privilege)) return true;
  if (privilege === 'DELETE') return false;
  const written = privilege === 'SELECT' ? [] : writtenFields(privilege, definition, found);
  return found.columns
    .filter(({ field, generated }) => privilege === 'SELECT' || (written.includes(field) && !generated))
    .every(({ granted }) => granted.includes(privilege));
}

/** Whether the role may not read `xmin`, although it is the version of a row. It is no column that one usually grants. */
const lacksVersion = (definition: Definition, found: CatalogTable): boolean =>
  found.hasXmin && definition.version === undefined && !found.isXminReadable;

/** What the role may not do. @param needs the privileges that the service needs for the table */
export const missingPrivileges = (
  needs: readonly Privilege[],
  definition: Definition,
  found: CatalogTable,
): string[] => [
  ...(found.hasUsage ? [] : [`the database role may not use the schema ${found.schema}`]),
  ...needs
    .filter((privilege) => !isGranted(privilege, definition, found))
    .map((privilege) => `the database role may not ${privilege}`),
  ...(isGranted('SELECT', definition, found) && lacksVersion(definition, found)
    ? [
        'the database role may only SELECT single columns, but the version of a row needs SELECT on the whole table',
      ]
    : []),
  ...found.unreadable.map(
    (name) =>
      `the database role may not SELECT from ${name}, which this view reads with the role's own privileges (security_invoker)`,
  ),
  ...(needs.includes('INSERT') ? found.unusableSequences : []).map(
    (sequence) => `the database role may not use the sequence ${sequence}`,
  ),
];
