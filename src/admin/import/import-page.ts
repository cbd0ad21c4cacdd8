import { notFound, type Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import {
  confirmationField,
  confirmCaller,
  hasPowers,
  type ConfirmationRefusal,
} from '../session/password-confirmation.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form, FormLimit } from '../web/form-data.ts';
import { withoutReturns } from '../fields/form-values.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { readImportFile } from './import-file.ts';
import { referenceLabels } from './import-labels.ts';
import { rowTable, summaryOf, type Preview } from './import-preview.ts';
import { runImportFile, type ImportOutcome } from './import-run.ts';
import { crumbsOf, uploadForm, uploadPage } from './import-upload.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { submitOnceField, submitOnceMark } from '../web/submit-once.ts';
import { counted, grouped } from '../web/display-text.ts';
import { redirectWith, type AdminRequest } from '../web/admin-request.ts';
import { errorSummary, PASSWORD_LABELS } from '../web/widgets.ts';

/** An uploaded file, with the rest of its form. */
export const IMPORT_LIMIT: FormLimit = { bytes: 8 * 1024 * 1024, fields: 100 };

/** How many rows without faults are shown beside those with some. */
const MOST_BESIDE_FAULTS = 10;

/** What was sent: a file or a text of its own, or what a preview was made of. */
interface Sent {
  readonly text: string;
  /** What is to be found again in the field for texts. */
  readonly pasted: string;
  /** The digest of the preview that is to be done. */
  readonly digest: string | undefined;
}

function assertImportable({ may }: AdminResource): void {
  if (!may.has('add') && !may.has('change')) throw notFound('There is no such page.');
}

function sentIn(form: Form): Sent {
  const digest = form.get('_digest');
  const pasted = form.get('_text') ?? '';
  if (digest !== undefined) {
    // In Base64, since browsers make all line breaks of a form's texts the same, those inside of cells too.
    const text = Buffer.from(form.get('_csv') ?? '', 'base64').toString();
    return { text, pasted, digest };
  }
  const file = form.get('_file') ?? '';
  return { text: file === '' ? withoutReturns(pasted, true) : file, pasted, digest };
}

/** `add 3 and change 2 records` */
function deedsOf({ counts }: ImportOutcome): string {
  const deeds = [
    counts.new > 0 && `add ${grouped(counts.new)}`,
    counts.changed > 0 && `change ${grouped(counts.changed)}`,
  ];
  const last = counts.changed > 0 ? counts.changed : counts.new;
  return `${deeds.filter(Boolean).join(' and ')} ${last === 1 ? 'record' : 'records'}`;
}

/** @param refusal of the confirmation; undefined where none is needed */
function applyForm(
  { csrf }: AdminRequest,
  { outcome, resource: { name } }: Preview,
  { text }: Sent,
  refusal: ConfirmationRefusal | undefined,
): Html {
  return html`<form
    method="post"
    action="${links.action(name, 'import')}"
    enctype="multipart/form-data"
    class="record"
  >
    <input type="hidden" name="_csrf" value="${csrf}" />
    <input type="hidden" name="_csv" value="${Buffer.from(text).toString('base64')}" />
    <input type="hidden" name="_digest" value="${outcome.digest}" />
    ${submitOnceField()}
    ${refusal && confirmationField(refusal.errors, 'Needed to change what users may do.', true)}
    <div class="buttons">
      <button class="primary">Import: ${deedsOf(outcome)}</button>
      <a class="button" href="${links.action(name, 'import')}">Another file</a>
    </div>
  </form>`;
}

/** The rows with faults and the form to try again; the others below, of which a few are enough then. */
const faultyRows = (adminRequest: AdminRequest, preview: Preview, sent: Sent): Html =>
  html`${rowTable('faulty', preview)} ${uploadForm(adminRequest, preview.resource, sent.pasted, false)}
  ${rowTable('changed', preview, MOST_BESIDE_FAULTS)} ${rowTable('new', preview, MOST_BESIDE_FAULTS)}`;

/** What comes of a file, and what can be done about it. */
function previewPage(
  adminRequest: AdminRequest,
  preview: Preview,
  sent: Sent,
  refusal?: ConfirmationRefusal,
): Reply {
  const { outcome, resource } = preview;
  const { counts } = outcome;
  const isFaulty = counts.faulty > 0;
  const isRefused = refusal !== undefined && Object.keys(refusal.errors).length > 0;
  const isRepeated = sent.digest !== undefined && !isRefused;
  const next = (): Content => {
    if (counts.new + counts.changed > 0) return applyForm(adminRequest, preview, sent, refusal);
    return html`<p class="empty">
      There is nothing to do: the records are as the file has them.
      <a href="${links.list(resource.name)}">Back to the list</a>
    </p>`;
  };
  const body = html`${
    isRepeated &&
    html`<p class="error-summary" role="alert">
      Meanwhile the records have changed. Nothing was imported; this is what the import would do now.
    </p>`
  }
  ${
    isFaulty &&
    html`<p class="error-summary" role="alert">
      Nothing was imported: ${counted(counts.faulty, 'row has', 'rows have')} faults. Mend them, and
      <a href="#file">upload the file again</a>.
    </p>`
  }
  ${isRefused && errorSummary(refusal.errors, PASSWORD_LABELS)} ${summaryOf(preview)}
  ${
    isFaulty
      ? faultyRows(adminRequest, preview, sent)
      : html`${rowTable('changed', preview)} ${rowTable('new', preview)} ${next()}`
  }`;
  return pageReply(adminRequest, {
    title: `Preview of the import: ${resource.title}`,
    crumbs: crumbsOf(resource),
    kind: 'form',
    status: isRefused ? refusal.status : isRepeated ? 409 : 200,
    body,
  });
}

/** `2 records added, 1 changed.` */
function doneText({ new: added, changed }: ImportOutcome['counts']): string {
  if (added === 0 && changed === 0) return 'Nothing was changed: the records were like that already.';
  if (added === 0) return `${counted(changed, 'record')} changed.`;
  return `${counted(added, 'record')} added${changed === 0 ? '' : `, ${grouped(changed)} changed`}.`;
}

/** @param problem why what was sent could not even be read */
export function showImport(
  _desk: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  problem?: Problem,
): Reply {
  assertImportable(resource);
  if (!problem) return uploadPage(adminRequest, resource, {});
  const { status, headers } = problem;
  // The body is the form; people know the file that they have chosen in it.
  const fault = problem.message.replace(/^The body (?=is not UTF-8|is larger)/, 'The file ');
  return uploadPage(adminRequest, resource, { faults: [fault], status }, headers);
}

/** Shows what a file would do; and does it, once that was seen and is still the same. */
export async function runImport(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  form: Form,
): Promise<Reply> {
  assertImportable(resource);
  const sent = sentIn(form);
  const file = await readImportFile(sent.text, resource);
  if ('faults' in file)
    return uploadPage(adminRequest, resource, { faults: file.faults, pasted: sent.pasted });
  const isConfirmed = !hasPowers(context, resource, file.columns);
  const refusal =
    isConfirmed || sent.digest === undefined ? undefined : await confirmCaller(context, adminRequest, form);
  const isWanted = ({ counts, digest }: ImportOutcome): boolean =>
    counts.faulty === 0 && digest === sent.digest && !refusal;
  const outcome = await runImportFile(
    context,
    adminRequest,
    resource,
    file,
    isWanted,
    submitOnceMark(form),
    sent.digest === undefined,
  );
  if (outcome === 'done')
    return redirectWith(adminRequest, links.list(resource.name), {
      kind: 'done',
      text: 'This file was sent twice, and imported once.',
    });
  if (!isWanted(outcome)) {
    const labelOf = await referenceLabels(context, outcome);
    const asked = isConfirmed ? undefined : (refusal ?? { errors: {}, status: 200 });
    return previewPage(adminRequest, { outcome, resource, file, labelOf }, sent, asked);
  }
  return redirectWith(adminRequest, links.list(resource.name), {
    kind: 'done',
    text: doneText(outcome.counts),
  });
}
