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
import { listCrumb, pageReply } from '../web/layout.ts';
import { submitOnceField, submissionDigest } from '../web/submit-once.ts';
import { controlAttributes, errorSummary, labeledField, PASSWORD_LABELS, table } from '../web/widgets.ts';
import { isSettable, MAX_FILE_BYTES, MAX_ROWS, needsPassword, readImportFile } from './import-file.ts';
import { referenceLabels, rowTable, summaryOf, type Preview } from './import-preview.ts';
import { runImportFile, type ImportOutcome } from './import-run.ts';

/** The limits of the form with the uploaded file. */
export const IMPORT_LIMIT: FormLimit = { bytes: 8 * 1024 * 1024, fields: 100, file: '_file' };

/** The maximum number of valid rows of each kind that the preview shows beside faulty rows. */
const MAX_SHOWN_BESIDE_FAULTS = 10;

/** A table of the column names that the first line may contain. */
function columnTable(resource: AdminView): Html {
  const { output, model, may } = resource;
  const canAdd = may.has('add') && !needsPassword(resource);
  const note = (column: (typeof output)[number]): string => {
    if (column === model.primaryKey) {
      if (!canAdd) return 'the record to change';
      return column.hasDefault
        ? 'the record to change; empty for a new record'
        : 'the record to change or add';
    }
    if (!isSettable(column, resource)) return 'read-only: ignored';
    const isRequired = canAdd && !column.nullable && !column.hasDefault;
    return `${isRequired ? 'required for new records' : ''}${isRequired && column.references ? '; ' : ''}${column.references ? `the id in ${column.references.name}` : ''}`;
  };
  return html`<section>
    <h2>Columns</h2>
    ${
      needsPassword(resource) &&
      html`<p class="hint">
        An import can change records here, but not add any: a new record needs a password, and passwords are
        not imported.
      </p>`
    }
    ${table(
      ['Name in the first line', 'Column', 'Note'],
      output.map((column) => [html`<code>${column.key}</code>`, column.title, note(column)]),
    )}
  </section>`;
}

/** Maximum characters of a pasted text that the form shows again. Escaping a longer one would block the event loop. */
const MAX_REPEATED = 65_536;

/** @param pasted the text to show in the text field, unless it is too long */
function uploadForm(context: ResourceContext, pasted: string, isFaulty: boolean): Html {
  const state = { 'aria-invalid': isFaulty && 'true' };
  const isLong = pasted.length > MAX_REPEATED;
  const repeated = isLong ? '' : pasted;
  const fileParts = {
    hint: `With the column names in the first line, like an export. Separated by commas, semicolons or tabs; in UTF-8, UTF-16 or Windows-1252: the preview says how it was read. At most ${grouped(MAX_ROWS)} rows and ${MAX_FILE_BYTES / 1_048_576} MiB.`,
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
  return actionForm(context, {
    address: links.action(context.resource.name, 'import'),
    hasFile: true,
    isUnsaved: repeated !== '',
    fields: html`${labeledField('file', 'CSV file', html`<input${attributes(file)} />`, fileParts)}
      ${labeledField('text', 'Or paste the text', html`<textarea${attributes(area)}>${'\n'}${repeated}</textarea>${isLong && tooLong}`, textParts)}
      <p class="hint">The next page shows a preview. Nothing changes until you confirm it there.</p>`,
    button: 'Preview',
  });
}

/** The upload page, with the faults of a file that was sent. */
function uploadPage(
  context: ResourceContext,
  faults: readonly string[],
  {
    pasted = '',
    status = 400,
    headers = {},
  }: Partial<Pick<Problem, 'status' | 'headers'>> & { pasted?: string } = {},
): Reply {
  const { resource } = context;
  const isFaulty = faults.length > 0;
  const list = html`<div class="error-summary" role="alert" tabindex="-1" id="errors">
    <h2>The file cannot be imported</h2>
    <ul>
      ${faults.map((fault) => html`<li>${fault}</li>`)}
    </ul>
  </div>`;
  const page = {
    title: `Import: ${resource.title}`,
    crumbs: [listCrumb(resource), 'Import'],
    kind: 'form',
    status: isFaulty ? status : 200,
    body: html`${isFaulty && list} ${uploadForm(context, pasted, isFaulty)} ${columnTable(resource)}`,
  };
  return pageReply(context, page, headers);
}

/** The CSV file from the form: a file, pasted text, or the file of a preview. */
interface Upload {
  readonly bytes: Buffer;
  /** The pasted text, to show again in its field. */
  readonly pasted: string;
  /** The digest of the preview that the admin confirmed; undefined before a preview. */
  readonly digest: string | undefined;
}

function assertImportable({ may }: AdminView): void {
  if (!may.has('add') && !may.has('change')) throw notFound('There is no such page.');
}

function readUpload(form: Form): Upload {
  const digest = form.get('_digest');
  const pasted = form.get('_text') ?? '';
  if (digest !== undefined) {
    // Base64, because browsers normalize the line breaks of form fields, which would change cells.
    return { bytes: Buffer.from(form.get('_csv') ?? '', 'base64'), pasted, digest };
  }
  const file = Buffer.from(form.get('_file') ?? '', 'latin1');
  return { bytes: file.length > 0 ? file : Buffer.from(withoutReturns(pasted, true)), pasted, digest };
}

/** `add 3 and change 2 records` */
function changesText({ counts }: ImportOutcome): string {
  const parts = [
    counts.new > 0 && `add ${grouped(counts.new)}`,
    counts.changed > 0 && `change ${grouped(counts.changed)}`,
  ];
  const last = counts.changed > 0 ? counts.changed : counts.new;
  return `${parts.filter(Boolean).join(' and ')} ${last === 1 ? 'record' : 'records'}`;
}

/** The form that imports the file of a preview. */
const applyForm = (
  context: ResourceContext,
  { outcome, resource: { name } }: Preview,
  { bytes }: Upload,
  needs: Needs,
  refusal: Refusal | undefined,
): Html =>
  actionForm(
    context,
    {
      address: links.action(name, 'import'),
      hasFile: true,
      fields: html`<input type="hidden" name="_csv" value="${bytes.toString('base64')}" />
        <input type="hidden" name="_digest" value="${outcome.digest}" />
        ${submitOnceField()}`,
      button: `Import: ${changesText(outcome)}`,
      back: { text: 'Choose another file', href: links.action(name, 'import') },
    },
    refusal?.errors,
    needs,
  );

/** The faulty rows, the form to upload a corrected file, and the first valid rows. */
const faultyRows = async (context: ResourceContext, preview: Preview, upload: Upload): Promise<Html> =>
  html`${await rowTable('faulty', preview)} ${uploadForm(context, upload.pasted, false)}
  ${await rowTable('changed', preview, MAX_SHOWN_BESIDE_FAULTS)}
  ${await rowTable('new', preview, MAX_SHOWN_BESIDE_FAULTS)}`;

/** The page that shows what the file would change, with the button to import it. */
async function previewPage(
  context: ResourceContext,
  preview: Preview,
  upload: Upload,
  needs: Needs,
  refusal: Refusal | undefined,
): Promise<Reply> {
  const { outcome, resource } = preview;
  const { counts } = outcome;
  const isFaulty = counts.faulty > 0;
  const isOutdated = upload.digest !== undefined && !refusal;
  const next = (): Content => {
    if (counts.new + counts.changed > 0) return applyForm(context, preview, upload, needs, refusal);
    return html`<p class="empty">
      No changes to import: the records already match the file.
      <a href="${links.list(resource.name)}">Back to the list</a>
    </p>`;
  };
  const body = html`${
    isOutdated &&
    html`<p class="error-summary" role="alert">
      The records have changed since the preview. Nothing was imported. Check the new preview below.
    </p>`
  }
  ${
    isFaulty &&
    html`<p class="error-summary" role="alert">
      Nothing was imported: ${counted(counts.faulty, 'row has', 'rows have')} errors. Correct them and
      <a href="#file">upload the file again</a>.
    </p>`
  }
  ${refusal && errorSummary(refusal.errors, PASSWORD_LABELS)} ${summaryOf(preview)}
  ${
    isFaulty
      ? await faultyRows(context, preview, upload)
      : html`${await rowTable('changed', preview)} ${await rowTable('new', preview)} ${next()}`
  }`;
  const page = {
    title: `Import preview: ${resource.title}`,
    crumbs: [listCrumb(resource), 'Import'],
    kind: 'form',
    status: refusal?.status ?? (isOutdated ? 409 : 200),
    body,
  } as const;
  return pageReply(context, page, refusal?.headers);
}

/** `2 records added, 1 changed.` */
function doneText({ new: added, changed }: ImportOutcome['counts']): string {
  if (added === 0 && changed === 0) return 'No changes: the records already match the file.';
  if (added === 0) return `${counted(changed, 'record')} changed.`;
  return `${counted(added, 'record')} added${changed === 0 ? '' : `, ${grouped(changed)} changed`}.`;
}

/**
 * Shows the upload page.
 * @param problem why the form could not be read
 */
export function showImport(context: ResourceContext, problem?: Problem): Reply {
  assertImportable(context.resource);
  if (!problem) return uploadPage(context, []);
  // People know the file, not the request body that contains it.
  const fault = problem instanceof BodyProblem ? `The file ${problem.predicate}` : problem.message;
  return uploadPage(context, [fault], problem);
}

/** Shows a preview of the file, or imports it if the admin confirmed a preview that is still correct. */
async function importFile(context: ResourceContext, form: Form): Promise<Reply> {
  const { resource } = context;
  const upload = readUpload(form);
  const file = await readImportFile(upload.bytes, resource, context.request.requester.workInTurns());
  if ('faults' in file) return uploadPage(context, file.faults, { pasted: upload.pasted });
  const setsPrivileges = hasPrivilegeColumn(context, file.columns, true);
  // Only the run shows whether the file renames users.
  const mustConfirm = ({ changed }: ImportOutcome): boolean =>
    setsPrivileges || hasPrivilegeColumn(context, [...changed], false);
  const isConfirming = upload.digest !== undefined && (setsPrivileges || form.get('_current') !== undefined);
  const code = showsUsers(context);
  const refusal =
    upload.digest === undefined
      ? undefined
      : await confirmCaller(context, form, { password: isConfirming, code });
  const isWanted = (outcome: ImportOutcome): boolean =>
    outcome.counts.faulty === 0 &&
    outcome.digest === upload.digest &&
    !refusal &&
    (isConfirming || !mustConfirm(outcome));
  const outcome = await runImportFile(context, file, isWanted, await submissionDigest(form));
  const list = links.list(resource.name);
  if (outcome === 'alreadyDone')
    return redirectDone(context, list, 'The file was submitted twice and imported once.');
  if (!isWanted(outcome)) {
    const labelOf = await referenceLabels(context, outcome);
    const hint = 'Needed to change what users may do, or their names.';
    const needs = { password: mustConfirm(outcome) && hint, code };
    return previewPage(context, { outcome, resource, file, labelOf }, upload, needs, refusal);
  }
  return redirectDone(context, list, doneText(outcome.counts));
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
