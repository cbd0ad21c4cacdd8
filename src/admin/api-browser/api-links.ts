import type { ApiRequest } from '../../http/message/message.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import type { Parameters } from '../web/admin-links.ts';

/** The query of a record's page that gives its JSON instead. */
export const JSON_QUERY = '_format=json';

/** The addresses of the API. */
export const apiLinks = {
  index: '/api/',
  /** Commas stay: lists are full of them, and encoded they would make an address too long to be taken. */
  collection: (model: string, parameters?: Parameters): string =>
    `/api/${model}/${parameters?.isEmpty === false ? `?${parameters.toString().replaceAll('%2C', ',')}` : ''}`,
  record: (model: string, id: string): string => `/api/${model}/${encodeURIComponent(id)}/`,
  recordJson: (model: string, id: string): string => `${apiLinks.record(model, id)}?${JSON_QUERY}`,
};

/** A text as one word of a shell's command line. */
export const shellWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * The command that asks for the same.
 * @param caller whose password curl is to ask for
 */
export function curlCommand(
  request: ApiRequest,
  address: string,
  caller: Caller | undefined,
  wanted: readonly string[] = [],
): string {
  const url = `${request.client().isSecure ? 'https' : 'http'}://${request.headers.host ?? 'localhost'}${address}`;
  return [
    'curl',
    ...(caller ? ['-u', shellWord(caller.name)] : []),
    ...wanted.flatMap((header) => ['-H', shellWord(header)]),
    shellWord(url),
  ].join(' ');
}
