// Checks the keys of views, materialized views and foreign tables, which no constraint enforces.
import type { Database } from '../../db/connection/database.ts';
import { isDatabaseError, reasonOf } from '../../db/connection/database-errors.ts';
import type { Catalog } from '../../db/schema/catalog.ts';
import { isKeyless, partsOf, type Model } from '../../db/schema/model.ts';
import type { Fault } from '../../errors.ts';
import { keyFaultsStatement } from '../../query/statements/conflict-statements.ts';
import type { ResourceView, ResourceViews } from '../../resources/access/resource-view.ts';
import type { Warning } from './risk-warnings.ts';

interface KeyReport {
  readonly faults: readonly Fault[];
  readonly warnings: readonly Warning[];
}

/** Whether a unique index has the columns of the key, as on a materialized view. Such an index allows several rows with NULL. */
const hasUniqueIndex = ({ primaryKey, wholeUniques }: Model): boolean => {
  const parts = partsOf(primaryKey);
  return wholeUniques.some(
    (columns) => columns.length === parts.length && columns.every((column) => parts.includes(column)),
  );
};

const warning = (text: string): Warning => ({ kind: 'view-key', text });

async function checkKey(database: Database, { name, model }: ResourceView): Promise<KeyReport> {
  const { field } = model.primaryKey;
  try {
    const { isNull, isDuplicate } = await database.run(keyFaultsStatement(model), 'read');
    const texts = [
      ...(isNull ? [`${field} is NULL in some rows, so they have no address`] : []),
      ...(isDuplicate ? [`${field} is not unique: several rows have the same value`] : []),
    ];
    return {
      faults: texts.map((text) => ({ model: name, key: 'primaryKey', text })),
      warnings:
        texts.length > 0
          ? []
          : [
              warning(
                hasUniqueIndex(model)
                  ? `${name}: its key ${field} is unique by an index and not NULL now, but nothing enforces that it is not NULL`
                  : `${name}: its key ${field} is unique and not NULL now, but nothing enforces it`,
              ),
            ],
    };
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    return {
      faults: [],
      warnings: [warning(`${name}: its key ${field} could not be checked: ${reasonOf(error)}`)],
    };
  }
}

/** A view without data cannot be read. @param known the differences found so far; the keys of their resources are not checked */
export async function checkViewKeys(
  database: Database,
  served: ResourceViews,
  catalog: Catalog,
  known: readonly Fault[],
): Promise<KeyReport> {
  const views = [...served.values()].filter(
    ({ name, model }) =>
      model.primaryKey.isUnchecked === true &&
      !isKeyless(model) &&
      catalog.get(model.table)?.isPopulated !== false &&
      !known.some((fault) => fault.model === name),
  );
  const reports: KeyReport[] = [];
  for (const view of views) reports.push(await checkKey(database, view));
  return {
    faults: reports.flatMap(({ faults }) => faults),
    warnings: reports.flatMap(({ warnings }) => warnings),
  };
}
