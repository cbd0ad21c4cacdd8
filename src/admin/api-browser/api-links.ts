// URLs of the API, and the curl command for a request.
import { withBasePath } from '../../http/message/base-path.ts';
import { keySegment } from '../../http/message/key-segment.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import type { Caller } from '../../resources/access/access.ts';
import { shellQuote } from '../web/display-text.ts';

/** URLs of the API, without the origin. */
export const apiLinks = {
  get index(): string {
    return withBasePath('/api/');
  },
  collection: (model: string): string => withBasePath(`/api/${model}/`),
  record: (model: string, id: string): string => withBasePath(`/api/${model}/${keySegment(id)}/`),
};

/** Characters that curl expands in a URL. */
const EXPANDED = /[[\]{}]/g;

/**
 * The curl command for a request.
 * @param caller the user to log in as; curl asks for the password
 */
export function curlCommand(request: ApiRequest, caller: Caller | undefined): string {
  const { path, query } = request;
  const target = `${withBasePath(path)}${query === '' ? '' : `?${query}`}`;
  const url = request.client().origin + target.replace(EXPANDED, encodeURIComponent);
  return `curl ${caller ? `-u ${shellQuote(caller.name)} ` : ''}${shellQuote(url)}`;
}
