// The filter panel of a list: one form with a control for each column that it offers, and what submitting it does.
import type { Reply } from '../../http/message/message.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { Named } from '../../resources/records/look-up.ts';
import type { References } from '../fields/form-field.ts';
import { loadOptional } from '../fields/optional-part.ts';
import { labelIn, referencesIn, relatedOf } from '../fields/references.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { redirect, redirectFailed } from '../web/admin-request.ts';
import { attributes, html, type Html } from '../web/html.ts';
import { numberText, t, type PlainCode } from '../web/language.ts';
import { ListState } from '../web/list-state.ts';
import { checkbox, options } from '../web/widgets.ts';
import {
  comparisonOf,
  controlsOf,
  FilterFault,
  filtersOf,
  nameOf,
  NONE,
  PERIODS,
  shownIn,
  typedIn,
  valueOf,
  type Control,
  type Shown,
} from './filter-controls.ts';
import { COMPARISONS, filtersIn, pathTitle, usualWords } from './filters.ts';

/** The controls outside of *More filters*; those in use are outside, too. */
const MAX_SHOWN = 8;
/** Maximum controls with counts: each needs a statement. */
const MAX_COUNTED = 4;
/** Maximum related records to choose from; above, a search field. */
const MAX_OFFERED = 50;

/** A control with what it shows and what is loaded for it. */
interface ShownControl extends Shown {
  readonly control: Control;
  readonly id: string;
  readonly references?: References | undefined;
  /** The records that the words match. */
  readonly matches?: readonly Named[] | undefined;
  /** The number of records of each value. */
  readonly counts?: ReadonlyMap<string | null, number> | undefined;
}

function boxes({ control, id, values, counts }: ShownControl): Html {
  const { column, title, choices } = control;
  const all = [
    ...choices.map((choice) => ({ ...choice, value: valueOf(choice.id), of: choice.id })),
    ...(column.nullable ? [{ value: NONE, label: t('noValue'), of: null }] : []),
  ];
  return html`<fieldset>
    <legend>${title}</legend>
    ${all.map(({ value, label, of }, index) =>
      checkbox(
        { id: index === 0 && id, name: nameOf('is', control), value, checked: values.includes(value) },
        html`<span>${label}</span>
          ${counts && html`<span class="count">${numberText(counts.get(of) ?? 0)}</span>`}`,
      ),
    )}
  </fieldset>`;
}

function select({ control, id, values }: ShownControl, choices: readonly Named[], label: string): Html {
  const [present = ''] = values;
  const none = control.column.nullable ? [[NONE, t('noValue')] as const] : [];
  const all = [
    ['', t('any')] as const,
    ...none,
    ...choices.map((one) => [valueOf(one.id), one.label] as const),
  ];
  // A key of no record stays selected, so that submitting the form keeps the filter.
  const isListed = all.some(([value]) => value === present);
  return html`<div>
    <label for="${id}">${label}</label>
    <select name="${nameOf('is', control)}" id="${id}">
      ${options(isListed ? all : [...all, [present, t('quoted', { text: present.slice(1) })]], present)}
    </select>
  </div>`;
}

/** A search field for a related record, which the script enhances, and the records that words in it match. */
function searchField(shown: ShownControl, context: ResourceContext): Html {
  const { control, id, values, references, words, matches = [] } = shown;
  const { column, title } = control;
  const related = relatedOf(column, context);
  const [present = ''] = values;
  const key = present === NONE ? '' : present.slice(1);
  const value = words ?? key;
  const hints = {
    placeholder: t(related ? 'nameOrId' : 'id'),
    'data-stored': words === undefined && key !== '',
  };
  const input = html`<input${attributes({ name: nameOf('find', control), id, value, autocomplete: 'off', ...hints })} />`;
  return html`<div>
    <label for="${id}">${title}</label>
    ${
      related
        ? html`<div class="reference" data-lookup="${links.action(related.name, 'lookup')}">
            ${input}<input
              type="hidden"
              name="${nameOf('key', control)}"
              value="${words === undefined && valueOf(key)}"
            /><span class="reference-label">${labelIn(references, key)}</span>
          </div>`
        : input
    }
    ${
      matches.length > 0
        ? select({ ...shown, id: `${id}-matches` }, matches, t('matchesOf', { title }))
        : column.nullable &&
          checkbox({ name: nameOf('is', control), value: NONE, checked: present === NONE }, t('noValue'))
    }
  </div>`;
}

function range({ control, id, values }: ShownControl): Html {
  const { path, column, title } = control;
  const hasDays = ['date', 'datetime-local'].includes(column.type.input.control);
  const isTime = column.type.input.control === 'time';
  // A text input takes numbers that are too long for JavaScript, and shows an invalid value of the address.
  const kind = hasDays ? { type: 'date' } : isTime ? { type: 'time', step: 1 } : { inputmode: 'decimal' };
  const bound = (field: 'from' | 'to', id: string, value = ''): Html =>
    html`<label for="${id}">${t(field)}</label
      ><input${attributes({ ...kind, id, name: nameOf(field, control), value })} />`;
  const button = ([period, [text]]: readonly [string, readonly [PlainCode, unknown]]): Html =>
    html`<button${attributes({ class: 'plain', name: '_period', value: `${period}.${path}`, 'aria-label': `${title}: ${t(text)}` })}>${t(text)}</button> `;
  return html`<fieldset class="range">
    <legend>${title}</legend>
    ${bound('from', id, values[0])} ${bound('to', `${id}-to`, values[1])}
    ${hasDays && html`<span>${Object.entries(PERIODS).map(button)}</span>`}
  </fieldset>`;
}

const textField = ({ control, id, values }: ShownControl): Html =>
  html`<div>
    <label for="${id}">${control.title} ${usualWords(control.column)}</label>
    <input${attributes({ name: nameOf('has', control), id, value: values[0] })} />
  </div>`;

function rendered(shown: ShownControl, context: ResourceContext): Html {
  const { control, references } = shown;
  const { kind, choices, title } = control;
  if (kind === 'boxes') return boxes(shown);
  if (kind === 'range') return range(shown);
  if (kind === 'contains') return textField(shown);
  const records = references?.options ?? [];
  const offered = kind === 'select' ? choices : records.length <= MAX_OFFERED ? records : [];
  return offered.length > 0 ? select(shown, offered, title) : searchField(shown, context);
}

/** Any comparison of any column, for what no control says. */
function anotherComparison(resource: AdminView, typed: LinkParameters): Html {
  const columns = resource.filters.map((parts) => [parts.join('__'), pathTitle(parts, resource)] as const);
  const texts = Object.entries(COMPARISONS).map(([key, [text]]) => [key, t(text)] as const);
  return html`<fieldset class="comparison">
    <legend>${t('anotherComparison')}</legend>
    <select name="_path" aria-label="${t('column')}">
      ${options([['', '–'], ...columns], typed.get('_path'))}
    </select>
    <select name="_how" aria-label="${t('comparison')}">
      ${options(texts, typed.get('_how'))}
    </select>
    <input name="_value" aria-label="${t('value')}" value="${typed.get('_value')}" />
  </fieldset>`;
}

/** Checkboxes for the columns of the list. */
const columnChoice = ({ choosable, columns, resource }: ListState): Html =>
  html`<details${attributes({ id: resource.filters.length === 0 && 'filter-0' })}>
    <summary>${t('columns')}</summary>
    <fieldset>
      <legend class="hidden">${t('columnsOfList')}</legend>
      ${choosable.map(({ name, title }, at) => checkbox({ name: '_columns', value: name, checked: at < columns.length }, title))}
    </fieldset>
  </details>`;

/** The parameters of a query as hidden fields of a form. */
export const hiddenParameters = ({ list }: LinkParameters): readonly Html[] =>
  list.map(({ name, value }) => html`<input${attributes({ type: 'hidden', name, value })} />`);

/** Whether the records of each choice can be counted by its text: decimals and times have several. */
const isCountable = ({ kind, path, column: { type } }: Control): boolean =>
  kind === 'boxes' &&
  !path.includes('__') &&
  (type.operators.has('ilike') || type.castType === 'bool' || type.castType.startsWith('int'));

/** Loads what a control shows beside its values. Counts are those of the list without the control's own filter. */
async function loaded(
  context: ResourceContext,
  state: ListState,
  shown: ShownControl,
  isCounted: boolean,
): Promise<ShownControl> {
  const { resource, browsing } = context;
  const { control, taken, words = '', values: [value = ''] } = shown; // prettier-ignore
  const { column, kind, title } = control;
  const related = kind === 'record' ? relatedOf(column, context) : undefined;
  if (related) {
    const text = value.startsWith('=') ? value.slice(1) : '';
    const reading = referencesIn(context, [
      { typed: new Map([[column, { text, isNull: true, isKey: true }]]) },
    ]);
    const references = (await loadOptional(context, `the choices of ${title}`, reading))?.[0]?.get(column);
    const matches = words === '' ? undefined : (await browsing.lookUp(related, words, MAX_OFFERED)).records;
    return { ...shown, references, matches };
  }
  if (!isCounted) return shown;
  const rest = taken.reduce((left, one) => left.withoutOne(one), state.parameters);
  const counting = browsing.valueCounts(resource, state.of(rest).whole, column);
  return { ...shown, counts: await loadOptional(context, `the counts of ${title}`, counting) };
}

/**
 * The form of the panel.
 * @param typed the parameters of the address: after a fault, with what was typed
 * @param hasCounts whether counting is cheap
 */
export async function filterPanel(
  context: ResourceContext,
  state: ListState,
  typed: LinkParameters,
  hasCounts: boolean,
): Promise<Html> {
  const { resource } = context;
  const filters = filtersIn(state);
  const isTyped = typed.get('_panel') !== undefined;
  const all = controlsOf(context).map((control, index) => {
    const present = isTyped ? typedIn(typed, control) : shownIn(filters, control);
    return { control, id: `filter-${index}`, ...present };
  });
  const isUsed = ({ values, words = '' }: Shown): boolean => [words, ...values].some((text) => text !== '');
  const first = all.filter((one, index) => index < MAX_SHOWN || isUsed(one));
  const more = all.filter((one) => !first.includes(one));
  const counted = first.filter(({ control }) => hasCounts && isCountable(control)).slice(0, MAX_COUNTED);
  const shown = await Promise.all(first.map((one) => loaded(context, state, one, counted.includes(one))));
  const rest = all
    .flatMap(({ taken }) => taken)
    .reduce((left, one) => left.withoutOne(one), state.parameters);
  const isOpen = attributes({ open: Boolean(typed.get('_path')) });
  // Apply is the first button, so that the Enter key means it, and not a period.
  return html`<section class="filter-panel" id="filters" aria-labelledby="filters-title">
    <form class="stack" action="${links.action(resource.name, 'filter')}">
      <div class="buttons">
        <h2 id="filters-title">${t('filters')}</h2>
        <button class="primary">${t('apply')}</button>
        ${state.isNarrowed && html`<a href="${state.address(state.cleared(false))}">${t('clear')}</a>`}
        <a class="close" href="#main">${t('close')}</a>
      </div>
      ${hiddenParameters(rest.without('page', '_columns'))}
      <input type="hidden" name="_panel" value="1" />
      ${shown.map((one) => rendered(one, context))}
      ${
        resource.filters.length > 0 &&
        html`<details${isOpen}>
          <summary>${t('moreFilters')}</summary>
          ${more.map((one) => rendered(one, context))} ${anotherComparison(resource, typed)}
        </details>`
      }
      ${columnChoice(state)}
    </form>
  </section>`;
}

/** Redirects the submitted form of the panel to the address of the list. After a fault, the list shows what was typed. */
export async function applyFilters(context: ResourceContext): Promise<Reply> {
  const form = LinkParameters.parse(context.request.query);
  const state = new ListState(context.resource, form);
  const made: Parameter[] = [];
  try {
    for (const control of controlsOf(context)) made.push(...(await filtersOf(context, control, form)));
    made.push(...(await comparisonOf(context, form)));
  } catch (error) {
    if (!(error instanceof FilterFault)) throw error;
    const list = links.list(context.resource.name, form.without('page'));
    return redirectFailed(context, `${list}#filter-0`, error.message);
  }
  // Values of one parameter are alternatives, so a new filter replaces the others of its name.
  const kept = state.parameters.without('page', '_columns', ...made.map(({ name }) => name));
  const all = new LinkParameters([...kept.list, ...made]);
  return redirect(state.address(state.of(all).withColumns(form.all('_columns'))));
}
