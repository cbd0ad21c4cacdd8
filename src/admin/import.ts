import { notFound, type Problem } from '../errors.ts';
import type { Reply } from '../http/message.ts';
import type { AdminResource } from '../resources/admin.ts';
import type { Desk } from './desk.ts';
import type { Form } from './form-data.ts';
import { html, type Content, type Html } from './html.ts';
import { readImportFile, type ImportFile } from './import-file.ts';
import { previewOf } from './import-preview.ts';
import { runImportFile, type ImportOutcome } from './import-run.ts';
import { crumbsOf, uploadForm, uploadPage } from './import-upload.ts';
import { pageReply } from './layout.ts';
import { links } from './links.ts';
import { counted, grouped } from './text.ts';
import { redirectWith, type Visit } from './visit.ts';

/** Bytes of an uploaded file, with the rest of its form. */
export const MAX_IMPORT = 8 * 1024 * 1024;

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
  return { text: file === '' ? pasted.replaceAll('\r\n', '\n') : file, pasted, digest };
}

/** `create 3 and change 2 records` */
function deedsOf({ counts }: ImportOutcome): string {
  const deeds = [
    counts.new > 0 && `create ${grouped(counts.new)}`,
    counts.changed > 0 && `change ${grouped(counts.changed)}`,
  ];
  const last = counts.changed > 0 ? counts.changed : counts.new;
  return `${deeds.filter(Boolean).join(' and ')} ${last === 1 ? 'record' : 'records'}`;
}

function applyForm({ csrf }: Visit, { name }: AdminResource, { text }: Sent, outcome: ImportOutcome): Html {
  return html`<form
    method="post"
    action="${links.action(name, 'import')}"
    enctype="multipart/form-data"
    class="record"
  >
    <input type="hidden" name="_csrf" value="${csrf}" />
    <input type="hidden" name="_csv" value="${Buffer.from(text).toString('base64')}" />
    <input type="hidden" name="_digest" value="${outcome.digest}" />
    <div class="buttons">
      <button class="primary">Import: ${deedsOf(outcome)}</button>
      <a class="button" href="${links.action(name, 'import')}">Another file</a>
    </div>
  </form>`;
}

/** What comes of a file, and what can be done about it. */
function previewPage(
  visit: Visit,
  resource: AdminResource,
  sent: Sent,
  file: ImportFile,
  outcome: ImportOutcome,
): Reply {
  const { counts } = outcome;
  const isFaulty = counts.faulty > 0;
  const isRepeated = sent.digest !== undefined;
  const next = (): Content => {
    if (isFaulty) return undefined;
    if (counts.new + counts.changed > 0) return applyForm(visit, resource, sent, outcome);
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
      Nothing was imported: ${counted(counts.faulty, 'row has', 'rows have')} faults. Mend them, and upload
      the file again.
    </p>`
  }
  ${previewOf(outcome, resource, file)} ${next()}
  ${isFaulty && uploadForm(visit, resource, sent.pasted, false)}`;
  return pageReply(visit, {
    title: `Import: ${resource.title}: preview`,
    crumbs: crumbsOf(resource),
    kind: 'form',
    status: isRepeated ? 409 : 200,
    body,
  });
}

/** @param problem why what was sent could not even be read */
export function showImport(_desk: Desk, visit: Visit, resource: AdminResource, problem?: Problem): Reply {
  assertImportable(resource);
  if (!problem) return uploadPage(visit, resource, {});
  return uploadPage(visit, resource, { faults: [problem.message], status: problem.status }, problem.headers);
}

/** Shows what a file would do; and does it, once that was seen and is still the same. */
export async function runImport(
  desk: Desk,
  visit: Visit,
  resource: AdminResource,
  form: Form,
): Promise<Reply> {
  assertImportable(resource);
  const sent = sentIn(form);
  const file = readImportFile(sent.text, resource);
  if ('faults' in file) return uploadPage(visit, resource, { faults: file.faults, pasted: sent.pasted });
  const isWanted = ({ counts, digest }: ImportOutcome): boolean =>
    counts.faulty === 0 && digest === sent.digest;
  const outcome = await runImportFile(desk, resource, visit.caller, file, isWanted);
  if (!isWanted(outcome)) return previewPage(visit, resource, sent, file, outcome);
  const { counts } = outcome;
  return redirectWith(visit, links.list(resource.name), {
    kind: 'done',
    text: `${counted(counts.new, 'record')} added, ${grouped(counts.changed)} changed.`,
  });
}
