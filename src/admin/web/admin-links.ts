import { Problem, type FieldErrors } from '../../errors.ts';
import { decodeQuery, parseParameters, type Parameter } from '../../query/parse/grammar.ts';

const ROOT = '/admin/';

/** A part of a path. Paths below a model that do not name a record begin with `-`, so a key that is just that is written in code. */
const segment = (text: string): string => (text === '-' ? '%2D' : encodeURIComponent(text));

/** The addresses of all pages. */
export const links = {
  dashboard: ROOT,
  login: `${ROOT}-/login/`,
  logout: `${ROOT}-/logout/`,
  account: `${ROOT}-/account/`,
  sessions: `${ROOT}-/sessions/`,
  keys: `${ROOT}-/keys/`,
  list: (model: string, parameters?: Parameters): string =>
    `${ROOT}${model}/${parameters?.isEmpty === false ? `?${parameters.toString()}` : ''}`,
  /** `add`, `import`, `bulk`, `lookup`, `filter`, `export.csv`, `export.json`. */
  action: (model: string, action: string, parameters?: Parameters): string =>
    `${ROOT}${model}/-/${action}${action.includes('.') ? '' : '/'}${parameters?.isEmpty === false ? `?${parameters.toString()}` : ''}`,
  record: (model: string, id: string): string => `${ROOT}${model}/${segment(id)}/`,
  /** `delete`, `history`, `password`. */
  part: (model: string, id: string, part: string): string => `${ROOT}${model}/${segment(id)}/${part}/`,
  /** The same address, and what it takes to go back to the list from which the visitor came. */
  from: (list: string | undefined, href: string): string =>
    list === undefined || list === '' ? href : `${href}?_list=${encodeURIComponent(list)}`,
  /** The list that `from` remembers. */
  back: (model: string, list: string | undefined): string =>
    links.list(model, list === undefined ? undefined : Parameters.read(list)),
  api: (model: string, query: string): string => `/api/${model}/${query === '' ? '' : `?${query}`}`,
};

/**
 * The parameters of a page's address: those of the API's grammar, and the pages' own, which begin with an underscore, as no
 * column does. Each method gives changed ones and leaves these as they are.
 */
export class Parameters {
  readonly list: readonly Parameter[];

  constructor(list: readonly Parameter[] = []) {
    this.list = list;
  }

  /** What a page has carried along, which may be anything: what cannot be read is nothing. */
  static read(query: string): Parameters {
    try {
      return Parameters.parse(query);
    } catch {
      return new Parameters();
    }
  }

  /** @throws Problem 414, 400 */
  static parse(query: string): Parameters {
    return new Parameters(parseParameters(query));
  }

  /**
   * The same of an address that may have been typed by hand. What cannot be read is kept as it stands there, and told by name.
   * @throws Problem 414
   */
  static typed(query: string): { readonly parameters: Parameters; readonly errors: FieldErrors } {
    try {
      return { parameters: Parameters.parse(query), errors: {} };
    } catch (error) {
      if (!(error instanceof Problem) || !error.errors) throw error;
      const list = decodeQuery(query).map(({ part, encodedName, name = encodedName, value }): Parameter => {
        const source = part.slice(part.indexOf('=') + 1);
        return { name, value: value === undefined || value.includes('\0') ? source : value };
      });
      // Of what steers the page alone nobody has to be told.
      const told = (name: string): boolean => !name.startsWith('_') || name === '_search';
      const kept = list.filter(({ name }) => told(name) || !Object.hasOwn(error.errors ?? {}, name));
      const errors = Object.entries(error.errors).filter(([name]) => told(name));
      return { parameters: new Parameters(kept), errors: Object.fromEntries(errors) };
    }
  }

  get isEmpty(): boolean {
    return this.list.length === 0;
  }

  get(name: string): string | undefined {
    return this.list.find((parameter) => parameter.name === name)?.value;
  }

  /** Without any of these names. */
  without(...names: readonly string[]): Parameters {
    return new Parameters(this.list.filter(({ name }) => !names.includes(name)));
  }

  /** Without this one of possibly several of a name. */
  withoutOne(one: Parameter): Parameters {
    return new Parameters(this.list.filter((parameter) => parameter !== one));
  }

  with(name: string, value: string): Parameters {
    return new Parameters([...this.without(name).list, { name, value }]);
  }

  and(name: string, value: string): Parameters {
    return new Parameters([...this.list, { name, value }]);
  }

  /** What the API's grammar takes. */
  get query(): Parameters {
    return new Parameters(this.list.filter(({ name }) => !name.startsWith('_')));
  }

  /** The filters of the API's grammar alone. */
  get filters(): readonly Parameter[] {
    return this.query.without('ordering', 'limit', 'page').list;
  }

  toString(): string {
    return this.list
      .map(({ name, value }) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
      .join('&');
  }
}
