// What can be done to the selected records of a list.
import { notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { boundedForm, editableColumns, fieldsOf, type FormField } from '../fields/form-field.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { redirectFailed } from '../web/admin-request.ts';
import type { Form } from '../web/form-data.ts';
import { t, type PlainCode } from '../web/language.ts';
import { listUrl, readChoice, type BulkContext } from './target.ts';
import { actOnSelection, fieldsOfAction, nameInMenu } from './custom-actions.ts';
import { deleteSelection } from './delete.ts';
import { exportRecords, type ExportFormat } from './export.ts';
import { setColumns } from './set-columns.ts';

/** An action of the menu of a list. It receives the form of the list, and those of its own pages. */
interface SelectionAction {
  readonly name: string;
  readonly title: string;
  readonly answer: (context: BulkContext, form: Form) => Promise<Reply>;
  /** The fields of its form, if not those of the records. */
  readonly fields?: readonly FormField[];
}

const EXPORTS: readonly (readonly [format: ExportFormat, title: PlainCode])[] = [
  ['csv', 'exportCsv'],
  ['excel.csv', 'exportCsvForExcel'],
  ['json', 'exportJson'],
  ['shown.csv', 'exportShownCsv'],
  ['shown.excel.csv', 'exportShownCsvForExcel'],
];

/** Whether a form of the list asks for a file, which has no page. */
export const isExport = (form: Form): boolean => form.get('_action')?.startsWith('export.') === true;

/** The actions that a list offers. */
export function selectionActions(resource: AdminView): readonly SelectionAction[] {
  const { may, allows, actions } = resource;
  const all: readonly (SelectionAction & { readonly isAllowed: boolean })[] = [
    {
      name: 'set',
      title: t('changeMore'),
      isAllowed: may.has('change') && editableColumns(resource, false).length > 0,
      answer: setColumns,
    },
    ...actions.map((action) => ({
      name: nameInMenu(action),
      title: action.title,
      isAllowed: action.on.includes('list'),
      answer: (context: BulkContext, form: Form) => actOnSelection(context, action, form),
      fields: fieldsOfAction(action),
    })),
    ...EXPORTS.map(([format, title]) => ({
      name: `export.${format}`,
      title: t(title),
      isAllowed: allows.has('export'),
      answer: (context: BulkContext) =>
        exportRecords(context, context.choice.selection, format, context.choice.state),
    })),
    { name: 'delete', title: t('deleteMore'), isAllowed: may.has('delete'), answer: deleteSelection },
  ];
  return all.filter(({ isAllowed }) => isAllowed);
}

/**
 * Runs an action on the records selected on a list.
 * @throws Problem 404 for an action that the list does not offer
 */
export async function runSelectionAction(listContext: ResourceContext, submitted: Form): Promise<Reply> {
  const { resource } = listContext;
  const action = selectionActions(resource).find(({ name }) => name === submitted.get('_action'));
  const form = boundedForm(submitted, action?.fields ?? fieldsOf(resource, false));
  const context = { ...listContext, choice: readChoice(form) };
  const backWithError = (text: string): Reply => redirectFailed(context, listUrl(context), text);
  if (context.choice.ids?.length === 0) return backWithError(t('noRecordsSelected'));
  if (!action) throw notFound(t('actionNotOffered'));
  try {
    return await action.answer(context, form);
  } catch (error) {
    // The list itself shows the errors of a filter.
    const isFilterError = error instanceof Problem && error.status === 400 && error.errors !== undefined;
    if (!isFilterError) throw error;
    return backWithError(t('invalidFilter'));
  }
}
