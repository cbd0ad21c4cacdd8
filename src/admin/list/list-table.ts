// The table of a list: headings that sort, and rows to open or select.
import { hasAddress } from '../../resources/records/checked-body.ts';
import { isKeyless, type Column } from '../../db/schema/model.ts';
import { MAX_ORDERINGS } from '../../query/parse/grammar.ts';
import { labelOrdering } from '../../resources/records/look-up.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { isVisible, keyIn, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { links } from '../web/admin-links.ts';
import type { ListState } from '../web/list-state.ts';
import { relatedAddress } from '../fields/references.ts';
import { textsOf } from '../web/read-text.ts';
import { fieldOfKey } from '../web/form-data.ts';
import { seenValue } from '../web/seen-value.ts';
import { t } from '../web/language.ts';
import { options, removeLink } from '../web/widgets.ts';
import { hiddenParameters } from './filter-panel.ts';
import { isNumeric, shortened } from '../web/display-text.ts';

/** The columns to sort by for a heading. A foreign key sorts by the label of the related record, if possible. */
function sortNames(column: Column, { resources }: AdminContext): readonly string[] {
  const related = column.references && resources.get(column.references.name);
  const names = related ? labelOrdering(related, [column]).map(({ name }) => name) : [];
  return names.length === 0 ? [column.name] : names.slice(0, MAX_ORDERINGS);
}

const BRIEF_CONTROLS: ReadonlySet<string> = new Set(['checkbox', 'date', 'datetime-local', 'time']);

/** The class of a column's cells: numbers are right-aligned, and numbers, dates and choices do not break on paper. */
function cellClass(column: Column): 'number' | 'brief' | undefined {
  if (isNumeric(column)) return 'number';
  const isBrief = BRIEF_CONTROLS.has(column.type.input.control) || textsOf(column) !== undefined;
  return isBrief && !column.references ? 'brief' : undefined;
}

const withoutSign = (part: string): string => part.replace(/^-/, '');

/** The default ordering, in the grammar of the URL. */
const defaultOrdering = ({ ordering }: AdminView): string =>
  ordering.map(({ parts, descending }) => `${descending ? '-' : ''}${parts.join('__')}`).join(',');

/**
 * A heading: a link that sorts by the column first and keeps the present ordering after it.
 * @param hasLinks false for a query that is too long to repeat
 */
function heading(column: Column, context: ResourceContext, state: ListState, hasLinks: boolean): Html {
  const { resource, parameters } = state;
  const className = cellClass(column);
  if (column.type.unordered)
    return html`<th scope="col" ${attributes({ class: className })}>${column.title}</th>`;
  const names = sortNames(column, context);
  const chosen = parameters.get('ordering');
  const present = (chosen ?? defaultOrdering(resource)).split(',').filter((part) => part !== '');
  const position = present.findIndex((part) => withoutSign(part) === names[0]);
  const descends = position >= 0 && present[position]?.startsWith('-');
  const others = present.filter((part) => !names.includes(withoutSign(part)));
  const sortedBy = (parts: readonly string[]): string => {
    const rest = parameters.without('ordering', 'page');
    return state.address(parts.length === 0 ? rest : rest.with('ordering', parts.join(',')));
  };
  const next = names.map((name) => (position === 0 && !descends ? `-${name}` : name));
  const direction = position < 0 ? undefined : descends ? 'descending' : 'ascending';
  const cellAttributes = attributes({
    class: className,
    'aria-sort': position === 0 ? direction : undefined,
  });
  return html`<th scope="col" ${cellAttributes}>
    ${hasLinks ? html`<a href="${sortedBy([...next, ...others].slice(0, MAX_ORDERINGS))}">${column.title}</a>` : column.title}${
      direction &&
      html`<span class="sort"
        ><span aria-hidden="true">${descends ? '▼' : '▲'}${present.length > 1 && position + 1}</span
        ><span class="hidden">${t(descends ? 'sortedDescending' : 'sortedAscending')}</span> ${
          hasLinks &&
          chosen !== undefined &&
          removeLink(sortedBy(others), t('removeSorting', { column: column.title }))
        }</span
      >`
    }
  </th>`;
}

/** In a narrow window the table has no head, and this field sorts it. */
export function sortChoice(context: ResourceContext, { resource, parameters, columns }: ListState): Html {
  const present = parameters.get('ordering') ?? defaultOrdering(resource);
  const choices = columns
    .filter(({ type }) => !type.unordered)
    .flatMap((column) => {
      const names = sortNames(column, context);
      return [
        [names.join(','), `${column.title} ▲`] as const,
        [names.map((name) => `-${name}`).join(','), `${column.title} ▼`] as const,
      ];
    });
  const [chosen] = choices.find(([value]) => `${present},`.startsWith(`${value},`)) ?? [];
  const all = chosen === undefined ? [[present, '–'] as const, ...choices] : choices;
  const rest = parameters.without('ordering', 'page');
  return html`<form class="sort-choice" action="${links.list(resource.name)}">
    ${hiddenParameters(rest)}
    <label for="sort">${t('sortBy')}</label>
    <select name="ordering" id="sort">
      ${options(all, chosen)}
    </select>
    <button class="secondary">${t('sort')}</button>
  </form>`;
}

/** Formats the value of a column. */
type ShowCell = (record: LabeledRecord, column: Column) => Html | string;

function cell(
  record: LabeledRecord,
  column: Column,
  isFirst: boolean,
  context: ResourceContext,
  show: ShowCell,
): Html {
  const shown = seenValue(record, column, show(record, column), isFirst);
  const key = keyIn(record, column);
  const address = relatedAddress(record, column, context);
  // The link must have visible text: an empty value shows the record's label instead.
  const hasText = key !== null && (typeof shown !== 'string' || isVisible(shown));
  const first = hasText ? shown : shortened(record.label);
  const content: Content =
    isFirst && hasAddress(record.id)
      ? html`<a href="${links.record(context.resource.name, record.id)}">${first}</a>`
      : address !== undefined
        ? html`<a href="${address}">${shown}</a>`
        : shown;
  const cellAttributes = attributes({ class: cellClass(column), 'data-label': column.title });
  return isFirst
    ? html`<th scope="row" ${cellAttributes}>${content}</th>`
    : html`<td${cellAttributes}>${content}</td>`;
}

/** The table of the records on a page. */
export function recordsTable(
  context: ResourceContext,
  records: readonly LabeledRecord[],
  state: ListState,
  show: ShowCell,
): Html {
  const { model } = context.resource;
  const { columns, parameters } = state;
  const hasKey = !isKeyless(model);
  // A chosen column of the ordering has a second link.
  const chosen = parameters.get('ordering')?.split(',').length ?? 0;
  const hasLinks = parameters.mayRepeat(columns.length + Math.min(chosen, columns.length));
  return html`<div class="scroll">
    <table class="records">
      <thead>
        <tr>
          ${hasKey && html`<td class="check"><span class="hidden">${t('select')}</span></td>`}
          ${columns.map((column) => heading(column, context, state, hasLinks))}
        </tr>
      </thead>
      <tbody>
        ${records.map(
          (record) =>
            html`<tr>
              ${
                hasKey &&
                html`<td class="check">
                  <input
                    type="checkbox"
                    name="_id"
                    value="${fieldOfKey(record.id)}"
                    form="bulk"
                    aria-label="${t('selectOne', { label: shortened(record.label, 60) })}"
                  />
                </td>`
              }
              ${columns.map((column, index) => cell(record, column, index === 0, context, show))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
