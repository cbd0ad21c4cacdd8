// The import pages: takes a CSV file, shows a preview, and imports the file after confirmation.
import { BodyProblem, notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import {
  confirmationField,
  confirmCaller,
  hasPrivilegeColumn,
  showsUsers,
  type ConfirmationRefusal,
} from '../session/password-confirmation.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import type { Form, FormLimit } from '../web/form-data.ts';
import { withoutReturns } from '../fields/form-values.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { readImportFile } from './import-file.ts';
import { referenceLabels, rowTable, summaryOf, type Preview } from './import-preview.ts';
import { runImportFile } from './import-run.ts';
import type { ImportOutcome } from './import-tally.ts';
import { crumbsOf, uploadForm, uploadPage } from './import-upload.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { submitOnceField, submissionDigest } from '../web/submit-once.ts';
import { counted, grouped } from '../web/display-text.ts';
import { redirectDone } from '../web/admin-request.ts';
import { errorSummary, PASSWORD_LABELS } from '../web/widgets.ts';

/** The limits of the form with the uploaded file. */
export const IMPORT_LIMIT: FormLimit = { bytes: 8 * 1024 * 1024, fields: 100, file: '_file' };

/** The maximum number of valid rows of each kind that the preview shows beside faulty rows. */
const MAX_SHOWN_BESIDE_FAULTS = 10;

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

/** What an import must be confirmed with. The errors are empty before the first attempt. */
interface ImportConfirmation extends ConfirmationRefusal {
  readonly password: boolean;
}

/** @param confirmation undefined if no confirmation is needed */
function applyForm(
  context: AdminContext,
  { outcome, resource: { name } }: Preview,
  { bytes }: Upload,
  confirmation: ImportConfirmation | undefined,
): Html {
  return html`<form
    method="post"
    action="${links.action(name, 'import')}"
    enctype="multipart/form-data"
    class="record"
  >
    <input type="hidden" name="_csrf" value="${context.csrf}" />
    <input type="hidden" name="_csv" value="${bytes.toString('base64')}" />
    <input type="hidden" name="_digest" value="${outcome.digest}" />
    ${submitOnceField()}
    ${confirmation && confirmationField(context, confirmation.errors, confirmation.password && 'Needed to change what users may do, or their names.')}
    <div class="buttons">
      <button class="primary">Import: ${changesText(outcome)}</button>
      <a class="button" href="${links.action(name, 'import')}">Choose another file</a>
    </div>
  </form>`;
}

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
  confirmation?: ImportConfirmation,
): Promise<Reply> {
  const { outcome, resource } = preview;
  const { counts } = outcome;
  const isFaulty = counts.faulty > 0;
  const isRefused = confirmation !== undefined && Object.keys(confirmation.errors).length > 0;
  const isOutdated = upload.digest !== undefined && !isRefused;
  const next = (): Content => {
    if (counts.new + counts.changed > 0) return applyForm(context, preview, upload, confirmation);
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
  ${isRefused && errorSummary(confirmation.errors, PASSWORD_LABELS)} ${summaryOf(preview)}
  ${
    isFaulty
      ? await faultyRows(context, preview, upload)
      : html`${await rowTable('changed', preview)} ${await rowTable('new', preview)} ${next()}`
  }`;
  const page = {
    title: `Import preview: ${resource.title}`,
    crumbs: crumbsOf(resource),
    kind: 'form',
    status: isRefused ? confirmation.status : isOutdated ? 409 : 200,
    body,
  } as const;
  return pageReply(context, page, confirmation?.headers);
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
  if (!problem) return uploadPage(context, {});
  const { status, headers, message } = problem;
  // People know the file, not the request body that contains it.
  const fault = problem instanceof BodyProblem ? `The file ${problem.predicate}` : message;
  return uploadPage(context, { faults: [fault], status }, headers);
}

/** Shows a preview of the file, or imports it if the admin confirmed a preview that is still correct. */
async function importFile(context: ResourceContext, form: Form): Promise<Reply> {
  const { resource } = context;
  const upload = readUpload(form);
  const file = await readImportFile(upload.bytes, resource, context.request.requester.workInTurns());
  if ('faults' in file) return uploadPage(context, { faults: file.faults, pasted: upload.pasted });
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
    const password = mustConfirm(outcome);
    const confirmation =
      password || code ? { ...(refusal ?? { errors: {}, status: 200 }), password } : undefined;
    return previewPage(context, { outcome, resource, file, labelOf }, upload, confirmation);
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
