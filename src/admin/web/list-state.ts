// The state of a list: what its address says about filters, search, ordering, page and columns.
import type { Column } from '../../db/schema/model.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { Selection } from '../../query/selection.ts';
import { isPlain, type AdminView } from '../../resources/access/admin-view.ts';
import { LinkParameters, links, selectionOf } from './admin-links.ts';

/** What decides neither which records a list has nor how it shows them. */
const PAGING = ['page', 'limit'] as const;

/** An immutable state. The methods that change it return the parameters of another one. */
export class ListState {
  readonly resource: AdminView;
  readonly parameters: LinkParameters;

  constructor(resource: AdminView, parameters: LinkParameters) {
    this.resource = resource;
    this.parameters = parameters.state;
  }

  get filters(): readonly Parameter[] {
    return this.parameters.filters;
  }

  get search(): string {
    return this.parameters.get('_search') ?? '';
  }

  /** Whether the list may leave out records. */
  get isNarrowed(): boolean {
    return this.filters.length > 0 || this.search !== '';
  }

  /** The columns that people can choose: first those that the list shows. */
  get choosable(): readonly Column[] {
    const { list, output, foreignKeys } = this.resource;
    return [...new Set([...this.columns, ...list, ...output.filter(isPlain), ...foreignKeys])];
  }

  /** The names in `_columns`. */
  private get names(): readonly string[] {
    const names = this.parameters.all('_columns').flatMap((text) => text.split(','));
    return names.filter((name) => name !== '');
  }

  private find(name: string): Column | undefined {
    const { output, foreignKeys } = this.resource;
    return [...output, ...foreignKeys].find((column) => column.name === name);
  }

  /** The columns of `_columns`; without them those of the registry. */
  get columns(): readonly Column[] {
    const chosen = this.names.flatMap((name) => this.find(name) ?? []);
    return chosen.length > 0 ? [...new Set(chosen)] : this.resource.list;
  }

  /** The names in `_columns` of no column that the caller sees. */
  get unknownColumns(): readonly string[] {
    return this.names.filter((name) => !this.find(name));
  }

  /** The records of the page. */
  get selection(): Selection {
    return selectionOf(this.parameters);
  }

  /** The records of all pages, in no order, for counts. */
  get whole(): Selection {
    return selectionOf(this.parameters.without('ordering', ...PAGING));
  }

  /** The address of this list, or of one of the same resource with other parameters. */
  address(parameters = this.parameters): string {
    return links.list(this.resource.name, parameters);
  }

  /** A state of the same resource. */
  of(parameters: LinkParameters): ListState {
    return new ListState(this.resource, parameters);
  }

  /** Without filters; with `hasSearch` false without the search, too. */
  cleared(hasSearch = true): LinkParameters {
    const kept = ['ordering', 'limit', '_columns', ...(hasSearch ? ['_search'] : [])];
    return new LinkParameters(this.parameters.list.filter(({ name }) => kept.includes(name)));
  }

  /** With these columns; the registry's own are in no address. */
  withColumns(columns: readonly string[]): LinkParameters {
    const names = columns.join(',');
    const isUsual = names === '' || names === this.resource.list.map(({ name }) => name).join(',');
    const rest = this.parameters.without('_columns');
    return isUsual ? rest : rest.with('_columns', names);
  }

  /** Whether both show the same list, on whatever page. */
  isSame(other: ListState): boolean {
    const sorted = ({ parameters }: ListState): string =>
      JSON.stringify(parameters.without(...PAGING).list.map(({ name, value }) => [name, value]).sort()); // prettier-ignore
    return sorted(this) === sorted(other);
  }
}
