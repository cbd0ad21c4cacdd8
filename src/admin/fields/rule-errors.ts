// Assigns the error of a database rule to the form fields of its columns.
import { isDatabaseError } from '../../db/connection/database-errors.ts';
import { Problem, type FieldErrors } from '../../errors.ts';
import { ruleFaults } from '../../resources/records/conflicts.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';

/** An error at each column of the rule that refused a write. The notice on the page names the rule. */
export function ruleErrors(error: unknown, { model, output, readonly }: AdminResource): FieldErrors {
  const cause = error instanceof Problem ? error.cause : error;
  if (!isDatabaseError(cause)) return {};
  return ruleFaults(cause, { model, columns: output.filter((column) => !readonly.has(column)) });
}
