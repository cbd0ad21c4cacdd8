// The position of the write-ahead log after a write. The client sends it with later reads, so that a replica without the write does
// not answer them.
import type { ApiRequest, Area, Reply } from './message.ts';

/** In the response to a write, and in the request of a later read. */
export const POSITION_HEADER = 'Vitrine-Position';

/** The positions that a request of the API carries. Node joins repeated headers with commas. */
export function sentPosition({ headers }: ApiRequest): string | undefined {
  const sent = headers['vitrine-position'];
  return sent === undefined ? undefined : String(sent);
}

/**
 * Adds the position to the response of a request that has written.
 * @param area the area that keeps it in another way than as a header
 */
export async function withPosition(
  request: ApiRequest,
  reply: Reply,
  position: Promise<string>,
  area: Pick<Area, 'keepPosition'> | undefined,
): Promise<Reply> {
  const reached = await position;
  if (area) return area.keepPosition(request, reply, reached);
  return { ...reply, headers: { ...reply.headers, [POSITION_HEADER]: reached } };
}
