import type { IncomingMessage } from 'node:http';
import { Problem } from '../../errors.ts';

/** The path and the query of a request target, which may be in absolute form. */
export function splitTarget(target: string): [path: string, query: string] {
  const relative = target.replace(/^https?:\/\/[^/?]*/i, '');
  const mark = relative.indexOf('?');
  return mark < 0 ? [relative, ''] : [relative.slice(0, mark), relative.slice(mark + 1)];
}

/** A path for the log: the names of the query's parameters, not their values. */
export function loggedPath(path: string, query: string): string {
  const names = query.split('&').map((part) => part.split('=', 1)[0] ?? '');
  return query === '' ? path : `${path}?${names.join('&').slice(0, 300)}`;
}

/** What the parser lets through and no later part of the program should have to think of. */
export function assertReadable({ headers, httpVersion, rawHeaders }: IncomingMessage): void {
  const close = { headers: { Connection: 'close' } };
  if (headers.host === undefined && httpVersion === '1.1')
    throw new Problem(400, 'The request has no Host.', close);
  // Of several Node keeps the first one only; whatever stands in front may have gone by another.
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (rawHeaders[index]?.length === 4 && rawHeaders[index]?.toLowerCase() === 'host') hosts += 1;
  if (hosts > 1) throw new Problem(400, 'The request has more than one Host.', close);
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked')
    throw new Problem(501, 'The only transfer coding is chunked.', close);
}

/** Whether a path belongs to the admin area. */
export const isAdminPath = (path: string): boolean => path === '/admin' || path.startsWith('/admin/');
