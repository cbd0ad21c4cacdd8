// URLs of the API, and curl commands for them.
import { withBasePath } from '../../http/message/base-path.ts';
import { keySegment } from '../../http/message/key-segment.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import type { LinkParameters } from '../web/admin-links.ts';
import { shellQuote } from '../web/display-text.ts';

/** The query string that returns a record's JSON instead of its page. */
export const JSON_QUERY = '_format=json';

/** URLs of the API, without the origin. */
export const apiLinks = {
  get index(): string {
    return withBasePath('/api/');
  },
  /** Commas stay unencoded: encoded, a long `in` list would exceed the maximum URL length. */
  collection: (model: string, parameters?: LinkParameters): string =>
    withBasePath(
      `/api/${model}/${parameters?.isEmpty === false ? `?${parameters.toString().replaceAll('%2C', ',')}` : ''}`,
    ),
  record: (model: string, id: string): string => withBasePath(`/api/${model}/${keySegment(id)}/`),
  recordJson: (model: string, id: string): string => `${apiLinks.record(model, id)}?${JSON_QUERY}`,
};

/**
 * The curl command for a URL of this service.
 * @param caller the user to log in as; curl asks for the password
 * @param requestHeaders as `Name: value`
 */
export function curlCommand(
  request: ApiRequest,
  address: string,
  caller: Pick<Caller, 'name'> | undefined,
  requestHeaders: readonly string[] = [],
): string {
  return [
    'curl',
    ...(caller ? ['-u', shellQuote(caller.name)] : []),
    ...requestHeaders.flatMap((header) => ['-H', shellQuote(header)]),
    shellQuote(request.client().origin + address),
  ].join(' ');
}
