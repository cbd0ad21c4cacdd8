// The addresses of all pages of the admin area, and their query parameters.
import { Problem, type FieldErrors } from '../../errors.ts';
import { withBasePath } from '../../http/message/base-path.ts';
import { keySegment } from '../../http/message/key-segment.ts';
import { decodeQuery, MAX_QUERY_BYTES, parseParameters, type Parameter } from '../../query/parse/grammar.ts';
import type { Selection } from '../../query/selection.ts';

const ROOT = '/admin/';

/** The start of all addresses. */
const root = (): string => withBasePath(ROOT);

/** Encodes a path segment. The key `-` is escaped, because a plain `-` marks paths that are not records. */
const segment = (text: string): string => (text === '-' ? '%2D' : keySegment(text));

/** A link with its text. */
export interface Link {
  readonly text: string;
  readonly href: string;
}

/** The query of an address, with its question mark. */
const queryOf = (parameters?: LinkParameters): string =>
  parameters?.isEmpty === false ? `?${parameters.toString()}` : '';

/** The addresses of all pages. */
export const links = {
  get dashboard(): string {
    return root();
  },
  /** The pages of no resource, by the names in `pages.ts`. */
  page: (name: string): string => `${root()}-/${name}/`,
  list: (model: string, parameters?: LinkParameters): string => `${root()}${model}/${queryOf(parameters)}`,
  /** The other pages of a resource. */
  action: (model: string, action: string, parameters?: LinkParameters): string =>
    `${root()}${model}/-/${action}${action.includes('.') ? '' : '/'}${queryOf(parameters)}`,
  /** The whole record as a JSON file. */
  download: (model: string, id: string): string =>
    links.action(model, 'export.json', new LinkParameters([{ name: 'id', value: id }])),
  record: (model: string, id: string): string => `${root()}${model}/${segment(id)}/`,
  /** The address that a person gets to set a password. The log has no values of parameters. */
  passwordLink: (origin: string, secret: string): string =>
    `${origin}${links.page('set-password')}?link=${secret}`,
  /** The other pages of a record. */
  part: (model: string, id: string, part: string): string => `${root()}${model}/${segment(id)}/${part}/`,
  /** The page of an action of the registry, for a record. */
  recordAction: (model: string, id: string, action: string, list: string | undefined): string => {
    const href = links.from(list, links.part(model, id, 'action'));
    return `${href}${href.includes('?') ? '&' : '?'}name=${action}`;
  },
  /** Adds `_list`, the query of the list that the user came from, for the way back. */
  from: (list: string | undefined, href: string): string =>
    list === undefined || list === ''
      ? href
      : `${href}?_list=${compactQuery(encodeURIComponent(compactQuery(list)))}`,
  /** A record with the list that it is shown in, also where that has no query. */
  inList: (model: string, id: string, list: string | undefined): string =>
    links.from(list, links.record(model, id)) + (list === '' ? '?_list=' : ''),
  /** The list whose query `from` has added. */
  back: (model: string, list: string | undefined): string =>
    links.list(model, list === undefined ? undefined : LinkParameters.parseOrEmpty(list)),
  api: (model: string, query: string): string =>
    withBasePath(`/api/${model}/${query === '' ? '' : `?${query}`}`),
};

/** Maximum characters of links in one part of a page. Each of them repeats the query. */
const MAX_LINK_CHARACTERS = 131_072;
/** Characters that HTML escapes, to at most five characters. */
const ESCAPED = /[&']/g;
const ESCAPED_LENGTH = 5;

const encode = ({ name, value }: Parameter): string =>
  `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;

/** Encoded characters that a query may contain unencoded. Others break a header, end the query (`#`), or grow in HTML (`<`). */
const NEEDLESS = /%(?:24|2C|2F|3A|3B|3F|40|5B|5C|5D|5E|60|7B|7C|7D)/g;

/** A shorter spelling of a query. Browsers encode most characters of a form, which makes long lists too long. */
const compactQuery = (query: string): string =>
  query.replaceAll('%20', '+').replace(NEEDLESS, decodeURIComponent);

const encodeShort = ({ name, value }: Parameter): string =>
  encodeURIComponent(name) +
  (value === '' ? '' : `=${compactQuery(encodeURIComponent(value)).replaceAll('%3D', '=')}`);

/** The page's own parameters that belong to the state of a list. */
const OF_LISTS: ReadonlySet<string> = new Set(['_search', '_columns']);

/**
 * The query parameters of a page: those of the API, and the page's own, which begin with an underscore, as no column does. The
 * object is immutable; each method returns a changed copy.
 */
export class LinkParameters {
  readonly list: readonly Parameter[];

  constructor(list: readonly Parameter[] = []) {
    this.list = list;
  }

  /** Like `parse`, but an invalid query gives no parameters. */
  static parseOrEmpty(query: string): LinkParameters {
    try {
      return LinkParameters.parse(query);
    } catch {
      return new LinkParameters();
    }
  }

  /** @throws Problem 414, 400 */
  static parse(query: string): LinkParameters {
    return new LinkParameters(parseParameters(compactQuery(query)));
  }

  /**
   * Like `parse`, for an address that may have been typed by hand. Invalid values are kept as written and reported by name.
   * @throws Problem 414
   */
  static parseWithErrors(query: string): {
    readonly parameters: LinkParameters;
    readonly errors: FieldErrors;
  } {
    try {
      return { parameters: LinkParameters.parse(query), errors: {} };
    } catch (error) {
      if (!(error instanceof Problem) || !error.errors) throw error;
      const list = decodeQuery(query).map(
        ({ encoded, encodedName, name = encodedName, value }): Parameter => {
          const source = encoded.slice(encoded.indexOf('=') + 1);
          return { name, value: value === undefined || value.includes('\0') ? source : value };
        },
      );
      // Errors in the page's own parameters are not reported, except in the search.
      const isReported = (name: string): boolean => !name.startsWith('_') || name === '_search';
      const kept = list.filter(({ name }) => isReported(name) || !Object.hasOwn(error.errors ?? {}, name));
      const errors = Object.entries(error.errors).filter(([name]) => isReported(name));
      return { parameters: new LinkParameters(kept), errors: Object.fromEntries(errors) };
    }
  }

  get isEmpty(): boolean {
    return this.list.length === 0;
  }

  get(name: string): string | undefined {
    return this.list.find((parameter) => parameter.name === name)?.value;
  }

  all(name: string): readonly string[] {
    return this.list.flatMap((parameter) => (parameter.name === name ? [parameter.value] : []));
  }

  /** Without all parameters of these names. */
  without(...names: readonly string[]): LinkParameters {
    return new LinkParameters(this.list.filter(({ name }) => !names.includes(name)));
  }

  /** Without this parameter; others of the same name stay. */
  withoutOne(one: Parameter): LinkParameters {
    return new LinkParameters(this.list.filter((parameter) => parameter !== one));
  }

  /** Replaces all parameters of the name. */
  with(name: string, value: string): LinkParameters {
    return new LinkParameters([...this.without(name).list, { name, value }]);
  }

  /** The parameters that the API knows too. */
  get query(): LinkParameters {
    return new LinkParameters(this.list.filter(({ name }) => !name.startsWith('_')));
  }

  /** The state of a list: without what the form of the filter panel adds. */
  get state(): LinkParameters {
    return new LinkParameters(this.list.filter(({ name }) => !name.startsWith('_') || OF_LISTS.has(name)));
  }

  /** The filters alone. */
  get filters(): readonly Parameter[] {
    return this.query.without('ordering', 'limit', 'page').list;
  }

  /** Whether so many links of a page may repeat the parameters. Otherwise a long query would make a huge page. */
  mayRepeat(times: number): boolean {
    const text = this.toString();
    const escaped = text.match(ESCAPED)?.length ?? 0;
    return times * (text.length + escaped * (ESCAPED_LENGTH - 1)) <= MAX_LINK_CHARACTERS;
  }

  /** Encodes all that can be encoded, unless that makes the query too long. */
  toString(): string {
    const query = this.list.map(encode).join('&');
    return query.length <= MAX_QUERY_BYTES ? query : this.list.map(encodeShort).join('&');
  }
}

/** The records that the URL of a list selects. */
export const selectionOf = (parameters: LinkParameters): Selection => ({
  query: parameters.query.toString(),
  search: parameters.get('_search') ?? '',
});

/** What a selection is, for an event. */
export const selectionFacts = ({ query, search, ids }: Selection) => ({
  filter: query,
  ...(search !== '' && { search }),
  ...(ids && { selected: ids.length }),
});
