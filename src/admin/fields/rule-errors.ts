// At which fields of a form the message of a check constraint belongs.
import { isDatabaseError, isInFunction, isOfTable } from '../../db/connection/database-errors.ts';
import { Problem, type FieldErrors } from '../../errors.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';

/** An error at each column of the check constraint that refused a write. The page says which rule it is. */
export function ruleErrors(error: unknown, { model, output, readonly }: AdminResource): FieldErrors {
  const cause = error instanceof Problem ? error.cause : error;
  if (!isDatabaseError(cause) || !isOfTable(model, cause) || isInFunction(cause)) return {};
  const fields = model.checks.get(cause.constraint_name ?? '') ?? [];
  const columns = output.filter((column) => fields.includes(column.field) && !readonly.has(column));
  const text =
    fields.length === 1
      ? 'a rule of the database does not allow this value'
      : 'a rule of the database does not allow these values together';
  return Object.fromEntries(columns.map(({ key }) => [key, [text]]));
}
