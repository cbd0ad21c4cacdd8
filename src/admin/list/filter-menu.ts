// The menu of the columns to filter by, in the admin area and on the pages of the API.
import { html, type Html } from '../web/html.ts';
import type { LinkParameters } from '../web/admin-links.ts';

/** A column to filter by. */
interface OfferedPath {
  readonly path: string;
  /** The text of an `option`, which cannot have markup. */
  readonly title: string;
  /** The content of a link. */
  readonly content: Html | string;
}

/** The parameters of a query as hidden fields of a form. */
export const hiddenParameters = ({ list }: LinkParameters): readonly Html[] =>
  list.map(({ name, value }) => html`<input type="hidden" name="${name}" value="${value}" />`);

/**
 * The menu to add a filter: a link for each column, which opens the form of the filter. Each link repeats the query. If the query
 * is long, a form with one control replaces the links.
 * @param linkTo the address of the list with some parameters
 */
export function filterMenu(
  offered: readonly OfferedPath[],
  state: LinkParameters,
  linkTo: (parameters?: LinkParameters) => string,
): Html | false {
  if (offered.length === 0) return false;
  const choice = state.mayRepeat(offered.length)
    ? html`<ul>
        ${offered.map(
          ({ path, content }) =>
            html`<li><a href="${linkTo(state.with('_filter', path))}">${content}</a></li>`,
        )}
      </ul>`
    : html`<form class="add-filter" action="${linkTo()}">
        ${hiddenParameters(state)}
        <label for="filter-path">Column</label>
        <select name="_filter" id="filter-path">
          ${offered.map(({ path, title }) => html`<option value="${path}">${title}</option>`)}
        </select>
        <button class="secondary">Continue</button>
      </form>`;
  return html`<details class="menu">
    <summary>Add a filter</summary>
    ${choice}
  </details>`;
}
