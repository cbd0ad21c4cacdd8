// The upload page: the form for a CSV file, and the columns that the file may have.
import type { Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { attributes, html, type Html } from '../web/html.ts';
import { isSettable, MAX_FILE_BYTES, MAX_ROWS, needsPassword } from './import-file.ts';
import { pageReply, type Crumb } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { grouped } from '../web/display-text.ts';
import { table } from '../web/widgets.ts';
import type { ResourceContext } from '../web/admin-context.ts';

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

function faultList(faults: readonly string[]): Html {
  return html`<div class="error-summary" role="alert" tabindex="-1" id="errors">
    <h2>The file cannot be imported</h2>
    <ul>
      ${faults.map((fault) => html`<li>${fault}</li>`)}
    </ul>
  </div>`;
}

/** Maximum characters of a pasted text that the form shows again. Escaping a longer one would block the event loop. */
const MAX_REPEATED = 65_536;

/** @param pasted the text to show in the text field, unless it is too long */
export function uploadForm({ csrf, resource }: ResourceContext, pasted: string, isFaulty: boolean): Html {
  const state = attributes({ 'aria-invalid': isFaulty && 'true' });
  const isLong = pasted.length > MAX_REPEATED;
  const repeated = isLong ? '' : pasted;
  return html`<form
    method="post"
    action="${links.action(resource.name, 'import')}"
    enctype="multipart/form-data"
    class="record"
    ${attributes({ 'data-unsaved': repeated !== '' })}
  >
    <input type="hidden" name="_csrf" value="${csrf}" />
    <div class="field">
      <label for="file">CSV file</label>
      <input
        type="file"
        id="file"
        name="_file"
        accept=".csv,.tsv,.txt,text/csv,text/tab-separated-values"
        aria-describedby="file-hint"
        ${state}
      />
      <p class="hint" id="file-hint">
        With the column names in the first line, like an export. Separated by commas, semicolons or tabs; in
        UTF-8, UTF-16 or Windows-1252: the preview says how it was read. At most ${grouped(MAX_ROWS)} rows and
        ${MAX_FILE_BYTES / 1_048_576} MiB.
      </p>
    </div>
    <div class="field">
      <label for="text">Or paste the text</label>
      <textarea id="text" name="_text" rows="8" spellcheck="false" aria-describedby="text-hint" ${state}>
${repeated}</textarea>
      ${
        isLong &&
        html`<p class="hint">
          Your text has ${grouped(pasted.length)} characters, which is too long to show here. Paste it again,
          or upload it as a file.
        </p>`
      }
      <p class="hint" id="text-hint">
        Used if no file is chosen. An empty cell means no value, and <code>""</code> an empty text.
      </p>
    </div>
    <p class="hint">The next page shows a preview. Nothing changes until you confirm it there.</p>
    <div class="buttons"><button class="primary">Preview</button></div>
  </form>`;
}

export const crumbsOf = ({ name, title }: AdminView): Crumb[] => [
  { text: title, href: links.list(name) },
  { text: 'Import' },
];

/** The upload page, with the faults of a file that was sent. */
export function uploadPage(
  context: ResourceContext,
  {
    faults = [],
    pasted = '',
    status = 400,
  }: { faults?: readonly string[]; pasted?: string; status?: number },
  headers?: Problem['headers'],
): Reply {
  const { resource } = context;
  const isFaulty = faults.length > 0;
  const body = html`${isFaulty && faultList(faults)} ${uploadForm(context, pasted, isFaulty)}
  ${columnTable(resource)}`;
  return pageReply(
    context,
    {
      title: `Import: ${resource.title}`,
      crumbs: crumbsOf(resource),
      kind: 'form',
      status: isFaulty ? status : 200,
      body,
    },
    headers,
  );
}
