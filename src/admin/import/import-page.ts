// The import pages: takes a CSV file, shows a preview, and imports the file after confirmation.
import { BodyProblem, notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { withoutReturns } from '../fields/form-field.ts';
import { formReply } from '../session/action.ts';
import {
  confirmCaller,
  hasPrivilegeColumn,
  showsUsers,
  type Needs,
  type Refusal,
} from '../session/password-confirmation.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirectChanged } from '../history/history-entry.ts';
import { phrase, t } from '../web/language.ts';
import type { Form, FormLimit } from '../web/form-data.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { listCrumb, SAFE_HEADERS } from '../web/layout.ts';
import { inBatchOf, submitOnceField, submissionDigest } from '../web/submit-once.ts';
import { controlAttributes, labeledField } from '../web/widgets.ts';
import { MAX_FILE_BYTES, MAX_ROWS, readImportFile, type ImportFile } from './import-file.ts';
import { columnFinder, importable, isSettable, mapColumns, type Mapping } from './import-mapping.ts';
import { faultyRowsFile, mappingFields, rowTables, summaryOf } from './import-preview.ts';
import { runImportFile, type ImportOutcome } from './import-run.ts';

/** The limits of the form with the uploaded file. */
export const IMPORT_LIMIT: FormLimit = { bytes: 8 * 1024 * 1024, fields: 5000, file: '_file' };

/** Maximum characters of a pasted text that the form shows again. Escaping a longer one would block the event loop. */
const MAX_REPEATED = 65_536;

/** The CSV file of a form. */
interface Source {
  readonly bytes: Buffer;
  /** The pasted text, to show again in its field; empty for a file. */
  readonly pasted: string;
}

/** The fields that take a file or a text. @param source what a preview has already: the form sends it again */
function sourceFields({ resource }: ResourceContext, source: Source | undefined, isFaulty = false): Html {
  const { bytes, pasted = '' } = source ?? {};
  const state = { 'aria-invalid': isFaulty && 'true' };
  const isLong = pasted.length > MAX_REPEATED;
  const repeated = isLong ? '' : pasted;
  const isPreview = bytes !== undefined && !isFaulty;
  const columns = importable(resource).map(({ title }) => title);
  const fileParts = {
    hint: isPreview
      ? t('chooseOtherFile')
      : t('fileHint', { columns: columns.join(', '), rows: MAX_ROWS, size: MAX_FILE_BYTES / 1_048_576 }),
  };
  const accept = '.csv,.tsv,.txt,text/csv,text/tab-separated-values';
  const file = { type: 'file', ...controlAttributes('file', '_file', fileParts), accept, ...state };
  const textParts = { hint: phrase('pasteHint', { quotes: html`<code>""</code>` }) };
  const area = { ...controlAttributes('text', '_text', textParts), rows: 8, spellcheck: 'false', ...state };
  const tooLong = html`<p class="hint">${t('pastedTooLong', { count: pasted.length })}</p>`;
  const textField = labeledField('text', t('orPasteText'), html`<textarea${attributes(area)}>${'\n'}${repeated}</textarea>${isLong && tooLong}`, textParts); // prettier-ignore
  // Base64, because browsers normalize the line breaks of form fields, which would change cells.
  const csv =
    isPreview &&
    repeated === '' &&
    html`<input type="hidden" name="_csv" value="${bytes.toString('base64')}" />`;
  return html`${csv} ${labeledField('file', t('csvFile'), html`<input${attributes(file)} />`, fileParts)}
  ${(!isPreview || repeated !== '') && textField}`;
}

/** Reads the file, else the pasted text, else the file of a preview. */
function readSource(form: Form): Source {
  const file = Buffer.from(form.get('_file') ?? '', 'latin1');
  if (file.length > 0) return { bytes: file, pasted: '' };
  const pasted = form.get('_text') ?? '';
  if (pasted !== '') return { bytes: Buffer.from(withoutReturns(pasted, true)), pasted };
  return { bytes: Buffer.from(form.get('_csv') ?? '', 'base64'), pasted };
}

/** What both pages of an import have: their form sends a file, and leads back to the list. */
const importForm = ({ resource: { name } }: ResourceContext, pasted = '') => ({
  address: links.action(name, 'import'),
  hasFile: true,
  isUnsaved: pasted !== '',
  back: { text: t('cancel'), href: links.list(name) },
});

/** The upload page, with the fault of a file that was sent. */
function uploadPage(
  context: ResourceContext,
  fault?: string,
  { status = 400, headers = {} }: Partial<Pick<Problem, 'status' | 'headers'>> = {},
  source?: Source,
): Reply {
  const { resource } = context;
  const isFaulty = fault !== undefined;
  const summary = html`<div class="error-summary" role="alert" tabindex="-1" id="errors">
    <h2>${t('fileNotImported')}</h2>
    <p>${fault}</p>
  </div>`;
  const page = {
    ...importForm(context, source?.pasted),
    title: t('importOf', { title: resource.title }),
    crumbs: [listCrumb(resource), t('import')],
    fields: html`${sourceFields(context, source, isFaulty)}
      <p class="hint">${t('previewFollows')}</p>`,
    button: t('preview'),
    around: (form: Html) => html`${isFaulty && summary} ${form}`,
  };
  return formReply(context, page, { errors: {}, status: isFaulty ? status : 200, headers });
}

function assertImportable({ may }: AdminView): void {
  if (!may.has('add') && !may.has('change')) throw notFound(t('noPage'));
}

/** `add 3 and change 2 records` */
function changesText({ new: added, changed }: ImportOutcome['counts']): string {
  if (changed === 0) return t('addCount', { count: added });
  return added === 0 ? t('changeCount', { count: changed }) : t('addAndChange', { added, count: changed });
}

/** What the page about a file shows. */
interface FilePage {
  readonly source: Source;
  readonly file: ImportFile;
  readonly mapping: Mapping;
  /** Undefined if no column of the file can be imported, or its titles are uncertain. */
  readonly outcome?: ImportOutcome;
  /** Whether another preview was confirmed. */
  readonly isOutdated?: boolean;
  readonly needs?: Needs;
  readonly refusal?: Refusal | undefined;
}

/** A button that sends the form for something other than the import. */
const anotherButton = (action: string, text: string): Html =>
  html`<p><button class="secondary" name="_do" value="${action}">${text}</button></p>`;

const alert = (text: Content): Html => html`<p class="error-summary" role="alert">${text}</p>`;
const NO_COUNTS: ImportOutcome['counts'] = { new: 0, changed: 0, unchanged: 0, faulty: 0 };

/** The page about a file: how it is read, what it would change, and the form that corrects the one and does the other. */
async function filePage(context: ResourceContext, page: FilePage): Promise<Reply> {
  const { source, file, mapping, outcome, isOutdated = false, needs, refusal } = page;
  const { resource } = context;
  const counts = outcome?.counts ?? NO_COUNTS;
  const hasChanges = counts.new + counts.changed > 0;
  const upload = html`<a href="#file">${t('uploadAgain')}</a>`;
  const confirmed =
    hasChanges &&
    html`<input type="hidden" name="_digest" value="${outcome?.digest}" />${submitOnceField()}
      <button class="hidden" tabindex="-1" aria-hidden="true">${t('import')}</button>`;
  const shown = {
    ...importForm(context, source.pasted),
    title: t('importPreviewOf', { title: resource.title }),
    crumbs: [
      listCrumb(resource),
      { text: t('import'), href: links.action(resource.name, 'import') },
      t('preview'),
    ],
    fields: html`${confirmed} ${await mappingFields(context, file, mapping)} ${sourceFields(context, source)}
    ${hasChanges && anotherButton('preview', t('previewAgain'))}
    ${outcome && (await rowTables(context, outcome, mapping, anotherButton('faulty', t('downloadFaulty'))))}`,
    button: hasChanges
      ? t(counts.faulty > 0 ? 'importValidRows' : 'importChanges', { changes: changesText(counts) })
      : t('previewAgain'),
    around: (form: Html) =>
      html`${!outcome && alert(file.isUnsure ? t('unsureTitles', { line: String(file.titleLine) }) : t('noColumnToImport'))}
      ${isOutdated && alert(t('previewOutdated'))}
      ${counts.faulty > 0 && alert(phrase(hasChanges ? 'faultyRowsOrImport' : 'faultyRows', { count: counts.faulty, upload }))}
      ${summaryOf(outcome, file)}
      ${counts.unchanged === file.rows.length && html`<p class="empty">${t('nothingToImport')}</p>`} ${form}`,
  };
  const usual = { errors: {}, status: !outcome ? 400 : isOutdated ? 409 : 200 };
  return formReply(context, shown, refusal ?? usual, needs);
}

/** `2 records added, 1 changed.` */
function doneText({ new: added, changed, faulty }: ImportOutcome['counts']): string {
  const parts = [
    added > 0 && t('recordsAdded', { count: added }),
    changed > 0 &&
      (added > 0 ? t('othersChanged', { count: changed }) : t('recordsChanged', { count: changed })),
    faulty > 0 && t('rowsLeftOut', { count: faulty }),
  ].filter((part) => part !== false);
  return parts.length > 0 ? `${parts.join(', ')}.` : t('nothingImported');
}

/**
 * Shows the upload page.
 * @param problem why the form could not be read
 */
export function showImport(context: ResourceContext, problem?: Problem): Reply {
  assertImportable(context.resource);
  // People know the file, not the request body that contains it.
  const fault =
    problem instanceof BodyProblem ? t('theFile', { predicate: problem.predicate }) : problem?.message;
  return uploadPage(context, fault, problem);
}

/** Shows a preview of the file, downloads its faulty rows, or imports it if the admin confirmed a preview that is still correct. */
async function importFile(context: ResourceContext, form: Form): Promise<Reply> {
  const { resource, request } = context;
  const source = readSource(form);
  const button = form.get('_do');
  /** The digest of the preview that is confirmed. */
  const digest = button === undefined ? form.get('_digest') : undefined;
  const yieldIfDue = request.requester.workInTurns();
  const find = columnFinder(resource);
  const file = await readImportFile(source.bytes, form, (cell) => find(cell) !== undefined, yieldIfDue);
  if ('fault' in file) return uploadPage(context, file.fault, {}, source);
  const mapping = await mapColumns(context, file, form, yieldIfDue);
  const { columns } = mapping;
  if (file.isUnsure || !columns.some((column) => isSettable(column, resource)))
    return filePage(context, { source, file, mapping });
  const setsPrivileges = hasPrivilegeColumn(context, columns, true);
  // Only the run shows whether the file renames users.
  const mustConfirm = ({ changed }: ImportOutcome): boolean =>
    setsPrivileges || hasPrivilegeColumn(context, [...changed], false);
  const isConfirming = digest !== undefined && (setsPrivileges || form.get('_current') !== undefined);
  const code = showsUsers(context);
  const refusal =
    digest === undefined ? undefined : await confirmCaller(context, form, { password: isConfirming, code });
  // The digest includes which rows are faulty.
  const isWanted = (outcome: ImportOutcome): boolean =>
    outcome.digest === digest && !refusal && (isConfirming || !mustConfirm(outcome));
  const submission = digest === undefined ? undefined : await submissionDigest(form);
  const caller = await inBatchOf(context, context.caller, form);
  const outcome = await runImportFile({ ...context, caller }, file, mapping, isWanted, submission);
  const list = links.list(resource.name);
  if (outcome === 'alreadyDone') return redirectChanged(context, list, t('importedOnce'), caller);
  if (isWanted(outcome)) return redirectChanged(context, list, doneText(outcome.counts), caller);
  if (button === 'faulty') {
    const headers = {
      'Content-Type': 'text/csv; charset=utf-8; header=present',
      'Content-Disposition': `attachment; filename="${resource.name}-errors.csv"`,
      ...SAFE_HEADERS,
    };
    return { status: 200, headers, body: await faultyRowsFile(file, outcome, yieldIfDue) };
  }
  const hint = t('neededForUsers');
  const needs = { password: mustConfirm(outcome) && hint, code };
  const isOutdated = digest !== undefined && !refusal;
  return filePage(context, { source, file, mapping, outcome, isOutdated, needs, refusal });
}

/**
 * Runs an import, or its preview, once there is a slot for it; otherwise shows the upload page with 429 or 503.
 * @throws Problem 404
 */
export async function runImport(context: ResourceContext, form: Form): Promise<Reply> {
  assertImportable(context.resource);
  const leave = await context.imports.enter(context.request.requester).catch((error: unknown) => {
    if (error instanceof Problem) return error;
    throw error;
  });
  if (leave instanceof Problem) return showImport(context, leave);
  try {
    return await importFile(context, form);
  } finally {
    leave();
  }
}
