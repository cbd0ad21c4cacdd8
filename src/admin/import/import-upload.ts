import type { Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { attributes, html, type Html } from '../web/html.ts';
import { isSettable, MOST_BYTES, MOST_ROWS, needsPassword } from './import-file.ts';
import { pageReply, type Crumb } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { grouped } from '../web/display-text.ts';
import type { AdminRequest } from '../web/admin-request.ts';

/** What a file may have in its first line. */
function columnTable(resource: AdminResource): Html {
  const { output, model, may } = resource;
  const takesNew = may.has('add') && !needsPassword(resource);
  const note = (column: (typeof output)[number]): string => {
    if (column === model.primaryKey) {
      if (!takesNew) return 'says which record is to be changed';
      return column.hasDefault
        ? 'says which record is to be changed; empty for a new one'
        : 'says which record is to be changed or added';
    }
    if (!isSettable(column, resource)) return 'read-only: may be there, and is not used';
    const isRequired = takesNew && !column.nullable && !column.hasDefault;
    return `${isRequired ? 'required for new records' : ''}${isRequired && column.references ? '; ' : ''}${column.references ? `the id in ${column.references.name}` : ''}`;
  };
  return html`<section>
    <h2>Columns</h2>
    ${
      needsPassword(resource) &&
      html`<p class="hint">
        Records can be changed by an import, and not added: a new one needs a password, and passwords are not
        imported.
      </p>`
    }
    <table class="records">
      <thead>
        <tr>
          <th scope="col">Name in the first line</th>
          <th scope="col">Column</th>
          <th scope="col">Note</th>
        </tr>
      </thead>
      <tbody>
        ${output.map(
          (column) =>
            html`<tr>
              <th scope="row" data-label="Name in the first line"><code>${column.key}</code></th>
              <td data-label="Column">${column.title}</td>
              <td data-label="Note">${note(column)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
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

/** The longest text that is repeated in the field (characters). Escaping a longer one would keep other requests waiting. */
const MOST_REPEATED = 65_536;

/** @param pasted what stands in the field for texts, unless it is too long */
export function uploadForm(
  { csrf }: AdminRequest,
  { name }: AdminResource,
  pasted: string,
  isFaulty: boolean,
): Html {
  const state = attributes({ 'aria-invalid': isFaulty && 'true' });
  const isLong = pasted.length > MOST_REPEATED;
  return html`<form
    method="post"
    action="${links.action(name, 'import')}"
    enctype="multipart/form-data"
    class="record"
  >
    <input type="hidden" name="_csrf" value="${csrf}" />
    <div class="field">
      <label for="file">CSV file</label>
      <input
        type="file"
        id="file"
        name="_file"
        accept=".csv,text/csv"
        aria-describedby="file-hint"
        ${state}
      />
      <p class="hint" id="file-hint">
        In UTF-8, with commas between the cells and the names of the columns in the first line: as an export
        is. At most ${grouped(MOST_ROWS)} rows and ${MOST_BYTES / 1_048_576} MiB.
      </p>
    </div>
    <div class="field">
      <label for="text">Or its text</label>
      <textarea id="text" name="_text" rows="8" spellcheck="false" aria-describedby="text-hint" ${state}>
${!isLong && pasted}</textarea>
      ${
        isLong &&
        html`<p class="hint">
          Your text has ${grouped(pasted.length)} characters, which is too long to be repeated here. Paste it
          again, or choose it as a file.
        </p>`
      }
      <p class="hint" id="text-hint">
        Used where no file is chosen. An empty cell is no value, and <code>""</code> is an empty text.
      </p>
    </div>
    <p class="hint">
      The next page shows what the import would do. Nothing is changed before you say so there.
    </p>
    <div class="buttons"><button class="primary">Preview</button></div>
  </form>`;
}

export const crumbsOf = ({ name, title }: AdminResource): Crumb[] => [
  { text: title, href: links.list(name) },
  { text: 'Import' },
];

/** The page that takes a file, and tells what is wrong with the one that was sent. */
export function uploadPage(
  adminRequest: AdminRequest,
  resource: AdminResource,
  {
    faults = [],
    pasted = '',
    status = 400,
  }: { faults?: readonly string[]; pasted?: string; status?: number },
  headers?: Problem['headers'],
): Reply {
  const isFaulty = faults.length > 0;
  const body = html`${isFaulty && faultList(faults)} ${uploadForm(adminRequest, resource, pasted, isFaulty)}
  ${columnTable(resource)}`;
  return pageReply(
    adminRequest,
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
