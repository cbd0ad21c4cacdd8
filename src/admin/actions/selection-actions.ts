// What can be done to the selected records of a list.
import { notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView, OfferedAction } from '../../resources/access/admin-view.ts';
import { boundedForm, fieldsOf, type FormField } from '../fields/form-field.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { redirectFailed } from '../web/admin-request.ts';
import type { Form } from '../web/form-data.ts';
import { t, type PlainCode } from '../web/language.ts';
import { listUrl, readChoice, type BulkContext } from './chosen-records.ts';
import { actOnSelection, fieldsOfAction, nameInMenu } from './custom-actions.ts';
import { deleteSelection } from './delete.ts';
import { exportRecords, type ExportFormat } from './export.ts';
import { setColumns } from './set-columns.ts';

/** An action of the menu of a list. It receives the form of the list, and those of its own pages. */
interface SelectionAction {
  readonly name: string;
  readonly title: string;
  readonly isAllowed: (resource: AdminView) => boolean;
  readonly answer: (context: BulkContext, form: Form) => Promise<Reply>;
  /** The fields of its form, if not those of the records. */
  readonly fields?: readonly FormField[];
}

/** An action of the registry. */
const custom = (action: OfferedAction): SelectionAction => ({
  name: nameInMenu(action),
  title: action.title,
  isAllowed: () => true,
  answer: (context, form) => actOnSelection(context, action, form),
  fields: fieldsOfAction(action),
});

const exportAs = (format: ExportFormat, title: PlainCode): SelectionAction => ({
  name: `export.${format}`,
  title: t(title),
  isAllowed: ({ allows }) => allows.has('export'),
  answer: (context) => exportRecords(context, context.choice.selection, format, context.choice.state),
});

const changeAction = (): SelectionAction => ({
  name: 'set',
  title: t('changeMore'),
  isAllowed: ({ may }) => may.has('change'),
  answer: setColumns,
});

const otherActions = (): readonly SelectionAction[] => [
  exportAs('csv', 'exportCsv'),
  exportAs('excel.csv', 'exportCsvForExcel'),
  exportAs('json', 'exportJson'),
  exportAs('shown.csv', 'exportShownCsv'),
  exportAs('shown.excel.csv', 'exportShownCsvForExcel'),
  {
    name: 'delete',
    title: t('deleteMore'),
    isAllowed: ({ may }) => may.has('delete'),
    answer: deleteSelection,
  },
];

/** The actions that a list offers. */
export const selectionActions = (resource: AdminView): readonly SelectionAction[] =>
  [
    changeAction(),
    ...resource.actions.filter(({ on }) => on.includes('list')).map(custom),
    ...otherActions(),
  ].filter(({ isAllowed }) => isAllowed(resource));

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
