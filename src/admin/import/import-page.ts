// The import pages: takes a CSV file, shows a preview, and imports the file after confirmation.
import { BodyProblem, notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { withoutReturns } from '../fields/form-field.ts';
import { actionForm } from '../session/action.ts';
import {
  confirmCaller,
  hasPrivilegeColumn,
  showsUsers,
  type Needs,
  type Refusal,
} from '../session/password-confirmation.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone } from '../web/admin-request.ts';
import { counted, grouped } from '../web/display-text.ts';
import type { Form, FormLimit } from '../web/form-data.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { listCrumb, pageReply, SAFE_HEADERS } from '../web/layout.ts';
import { submitOnceField, submissionDigest } from '../web/submit-once.ts';
import { controlAttributes, errorSummary, labeledField, PASSWORD_LABELS } from '../web/widgets.ts';
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
      ? 'Choose another one, such as a corrected one, to replace the file of this preview.'
      : `With names or titles of columns in the first line, like an export: ${columns.join(', ')}. Separated by commas, semicolons or tabs; in UTF-8, UTF-16 or Windows-1252. At most ${grouped(MAX_ROWS)} rows and ${MAX_FILE_BYTES / 1_048_576} MiB.`,
  };
  const accept = '.csv,.tsv,.txt,text/csv,text/tab-separated-values';
  const file = { type: 'file', ...controlAttributes('file', '_file', fileParts), accept, ...state };
  const textParts = {
    hint: html`Used if no file is chosen. An empty cell means no value, and <code>""</code> an empty text.`,
  };
  const area = { ...controlAttributes('text', '_text', textParts), rows: 8, spellcheck: 'false', ...state };
  const tooLong = html`<p class="hint">
    Your text has ${grouped(pasted.length)} characters, which is too long to show here. Paste it again, or
    upload it as a file.
  </p>`;
  const textField = labeledField('text', 'Or paste the text', html`<textarea${attributes(area)}>${'\n'}${repeated}</textarea>${isLong && tooLong}`, textParts); // prettier-ignore
  // Base64, because browsers normalize the line breaks of form fields, which would change cells.
  const csv =
    isPreview &&
    repeated === '' &&
    html`<input type="hidden" name="_csv" value="${bytes.toString('base64')}" />`;
  return html`${csv} ${labeledField('file', 'CSV file', html`<input${attributes(file)} />`, fileParts)}
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

/** The form of an import: it sends a file, and leads back to the list. */
const importForm = ({ resource: { name } }: ResourceContext, pasted = '') => ({
  address: links.action(name, 'import'),
  hasFile: true,
  isUnsaved: pasted !== '',
  back: { text: 'Cancel', href: links.list(name) },
});

/** The upload page, with the fault of a file that was sent. */
function uploadPage(
  context: ResourceContext,
  fault?: string,
  {
    source,
    status = 400,
    headers = {},
  }: Partial<Pick<Problem, 'status' | 'headers'>> & { readonly source?: Source } = {},
): Reply {
  const { resource } = context;
  const isFaulty = fault !== undefined;
  const summary = html`<div class="error-summary" role="alert" tabindex="-1" id="errors">
    <h2>The file cannot be imported</h2>
    <p>${fault}</p>
  </div>`;
  const form = {
    ...importForm(context, source?.pasted),
    fields: html`${sourceFields(context, source, isFaulty)}
      <p class="hint">The next page shows a preview. Nothing changes until you confirm it there.</p>`,
    button: 'Preview',
  };
  const page = {
    title: `Import: ${resource.title}`,
    crumbs: [listCrumb(resource), 'Import'],
    kind: 'form',
    status: isFaulty ? status : 200,
    body: html`${isFaulty && summary} ${actionForm(context, form)}`,
  };
  return pageReply(context, page, headers);
}

function assertImportable({ may }: AdminView): void {
  if (!may.has('add') && !may.has('change')) throw notFound('There is no such page.');
}

/** `add 3 and change 2 records` */
function changesText(counts: ImportOutcome['counts']): string {
  const parts = [
    counts.new > 0 && `add ${grouped(counts.new)}`,
    counts.changed > 0 && `change ${grouped(counts.changed)}`,
  ];
  const last = counts.changed > 0 ? counts.changed : counts.new;
  return `${parts.filter(Boolean).join(' and ')} ${last === 1 ? 'record' : 'records'}`;
}

/** What the page about a file shows. */
interface FilePage {
  readonly source: Source;
  readonly file: ImportFile;
  readonly mapping: Mapping;
  /** Undefined if no column of the file can be imported. */
  readonly outcome?: ImportOutcome;
  /** Whether another preview was confirmed. */
  readonly isOutdated?: boolean;
  readonly needs?: Needs;
  readonly refusal?: Refusal | undefined;
}

const alert = (text: Content): Html => html`<p class="error-summary" role="alert">${text}</p>`;
const NO_COUNTS: ImportOutcome['counts'] = { new: 0, changed: 0, unchanged: 0, faulty: 0 };

/** The page about a file: how it is read, what it would change, and the form that corrects the one and does the other. */
async function filePage(context: ResourceContext, page: FilePage): Promise<Reply> {
  const { source, file, mapping, outcome, isOutdated, needs, refusal } = page;
  const { resource } = context;
  const counts = outcome?.counts ?? NO_COUNTS;
  const hasChanges = counts.new + counts.changed > 0;
  const tables = outcome && (await rowTables(context, outcome, mapping));
  const form = {
    ...importForm(context, source.pasted),
    fields: html`${
      hasChanges &&
      html`<input type="hidden" name="_digest" value="${outcome?.digest}" />${submitOnceField()}
        <button class="hidden" tabindex="-1" aria-hidden="true">Import</button>`
    }
    ${mappingFields(context, file, mapping)} ${sourceFields(context, source)}
    ${hasChanges && html`<p><button class="secondary" name="_do" value="preview">Preview again</button></p>`}
    ${tables?.faulty}
    ${counts.faulty > 0 && html`<p><button class="secondary" name="_do" value="faulty">Download the faulty rows with reasons</button></p>`}
    ${tables?.changed} ${tables?.new}`,
    button: hasChanges
      ? `${counts.faulty > 0 ? 'Import the valid rows' : 'Import'}: ${changesText(counts)}`
      : 'Preview again',
  };
  const body = html`${!outcome && alert('The file has no column that an import can set. Assign one below.')}
  ${isOutdated && alert('The records, or how the file is read, have changed since the preview. Nothing was imported. Check the new preview below.')}
  ${
    counts.faulty > 0 &&
    alert(
      html`Nothing was imported: ${counted(counts.faulty, 'row has', 'rows have')} errors.
        ${hasChanges ? 'Import the valid rows, or correct the others' : 'Correct them'} and
        <a href="#file">upload the file again</a>.`,
    )
  }
  ${refusal && errorSummary(refusal.errors, PASSWORD_LABELS)} ${summaryOf(outcome, file)}
  ${
    outcome &&
    counts.unchanged === file.rows.length &&
    html`<p class="empty">No changes to import: the records already match the file.</p>`
  }
  ${actionForm(context, form, refusal?.errors, needs)}`;
  const shown = {
    title: `Import preview: ${resource.title}`,
    crumbs: [listCrumb(resource), { text: 'Import', href: links.action(resource.name, 'import') }, 'Preview'],
    kind: 'form',
    status: outcome ? (refusal?.status ?? (isOutdated ? 409 : 200)) : 400,
    body,
  } as const;
  return pageReply(context, shown, refusal?.headers);
}

/** `2 records added, 1 changed.` */
function doneText({ new: added, changed, faulty }: ImportOutcome['counts']): string {
  const parts = [
    added > 0 && `${counted(added, 'record')} added`,
    changed > 0 && (added > 0 ? `${grouped(changed)} changed` : `${counted(changed, 'record')} changed`),
    faulty > 0 && `${counted(faulty, 'row')} with errors left out`,
  ].filter((part) => part !== false);
  return `${parts.length > 0 ? parts.join(', ') : 'No changes: the records already match the file'}.`;
}

/**
 * Shows the upload page.
 * @param problem why the form could not be read
 */
export function showImport(context: ResourceContext, problem?: Problem): Reply {
  assertImportable(context.resource);
  // People know the file, not the request body that contains it.
  const fault = problem instanceof BodyProblem ? `The file ${problem.predicate}` : problem?.message;
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
  const file = await readImportFile(source.bytes, (cell) => find(cell) !== undefined, yieldIfDue);
  if ('fault' in file) return uploadPage(context, file.fault, { source });
  const mapping = await mapColumns(context, file, form, yieldIfDue);
  const { columns } = mapping;
  if (!columns.some((column) => isSettable(column, resource)))
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
  const outcome = await runImportFile(context, file, mapping, isWanted, submission);
  const list = links.list(resource.name);
  if (outcome === 'alreadyDone')
    return redirectDone(context, list, 'The file was submitted twice and imported once.');
  if (isWanted(outcome)) return redirectDone(context, list, doneText(outcome.counts));
  if (button === 'faulty') {
    const headers = {
      'Content-Type': 'text/csv; charset=utf-8; header=present',
      'Content-Disposition': `attachment; filename="${resource.name}-errors.csv"`,
      ...SAFE_HEADERS,
    };
    return { status: 200, headers, body: await faultyRowsFile(file, outcome, yieldIfDue) };
  }
  const hint = 'Needed to change what users may do, or their names.';
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
